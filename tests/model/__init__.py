"""Models: rules written down small enough to try every order of events."""
