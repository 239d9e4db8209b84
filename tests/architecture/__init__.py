"""The shape of the source: ranks, cycles, habits."""
