"""Version 0.3 of the protocol, on the same handler: how its requests are read, and its answers written."""
