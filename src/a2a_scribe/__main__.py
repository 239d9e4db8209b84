"""`python -m a2a_scribe`: the same as the command `a2a-scribe`."""

from a2a_scribe.cli import main

if __name__ == '__main__':
    main()
