"""What several kinds of tests need: servers and a network that misbehaves."""
