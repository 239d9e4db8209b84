"""The version of the package, kept here only."""

__version__ = '0.1.0'
