"""Nodes: who writes, under which id, with which commit number."""
