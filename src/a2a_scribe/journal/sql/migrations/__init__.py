"""Numbered, forward-only changes of the schema."""
