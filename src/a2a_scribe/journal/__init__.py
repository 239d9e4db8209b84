"""Durable truth: the port, and the adapters that implement it."""
