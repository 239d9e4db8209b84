"""Ids that clients choose or send: what every database and log can hold."""

import unicodedata

MAX_ID_LENGTH = 255

UNUSABLE = ('Cc', 'Cs')
"""Categories of characters that no id may have: control characters, and surrogates, which no database takes."""


def has_unusable_characters(value: str) -> bool:
    """Whether a text has control characters or halves of characters."""
    return not value.isprintable() and any(unicodedata.category(character) in UNUSABLE for character in value)


def is_usable(value: str) -> bool:
    """Whether a text can be an id: 1 to 255 characters, none of them unusable."""
    return 0 < len(value) <= MAX_ID_LENGTH and not has_unusable_characters(value)
