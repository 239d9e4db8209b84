"""The operations of A2A without a wire: `a2a-sdk`'s `RequestHandler` on engine and journal."""
