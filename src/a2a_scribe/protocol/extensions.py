"""The extension of A2A that this server declares (A2A 1.0, section 4.6)."""

from typing import Final

SEQUENCE_URI: Final = 'urn:a2a-scribe:extension:sequence:1'
"""Puts the place of each event in its task's journal into the event's metadata, under this name."""
