"""What the agent of every system writes, known to those who check its answers and nothing else."""

from typing import Final

ARTIFACT_ID: Final = 'answer'
CHUNK_PREFIX: Final = 'chunk '
CHUNK_DIGITS: Final = 14  # with the prefix: 20 bytes


def chunk_text(number: int) -> str:
    return f'{CHUNK_PREFIX}{number:0{CHUNK_DIGITS}d}'
