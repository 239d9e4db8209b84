"""What `make demo` shows: a served agent at work over real HTTP, an agent that fails, and what is stored in the end."""
