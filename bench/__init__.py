"""The peer and a2a-scribe in one run: speed, memory and durability, side by side (`python -m bench`)."""
