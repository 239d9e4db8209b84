"""The wire: bytes in, calls of the request handler, bytes out. Knows the handler, never engine or journal."""
