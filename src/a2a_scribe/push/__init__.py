"""Webhooks: what follows a task's journal on behalf of a receiver."""
