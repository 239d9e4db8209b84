"""For those who extend a2a-scribe: the contract that every journal adapter passes. Needs pytest and anyio."""
