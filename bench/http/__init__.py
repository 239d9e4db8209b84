"""The same agent behind HTTP, on a2a-scribe and on its peers, with the load in a process of its own."""
