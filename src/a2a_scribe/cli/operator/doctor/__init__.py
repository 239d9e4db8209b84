"""`a2a-scribe doctor`: what an operator would look at before asking for help."""
