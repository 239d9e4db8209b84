"""Who calls: credentials become a principal, whose name owns what it makes. Knows nothing of bindings or tasks."""
