"""What proves a2a-scribe."""
