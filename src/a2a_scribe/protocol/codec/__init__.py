"""Protobuf to JSON and back, compiled from descriptors; its front is `protocol.json`."""
