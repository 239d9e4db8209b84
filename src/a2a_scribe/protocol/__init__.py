"""The words of A2A: wire types, states, page tokens. No behaviour."""
