"""The commands for whoever runs servers: they work on a database, beside the servers that use it."""
