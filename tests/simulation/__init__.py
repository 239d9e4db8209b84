"""Deterministic simulation: engines, clients, agents and a journal in trouble, on one loop whose order a seed decides.

`python -m tests.simulation --seed 7 --trace` shows one run, `make simulate SEEDS=100000` looks for one that breaks an
invariant, `python -m tests.simulation.mutations` shows that broken engines are caught.

What runs: `loop` (time and order), `database` (what all processes share, and the way to it), `process` (one engine
that can crash, be paused, be stopped), `agents` (what executors do), `clients` (what clients do), `scenario` (what is
drawn from a seed, and the course of a run), `ledger` (what was told and done), `invariants` (what must hold of it).

`switches` says what the engine does not do yet, and what to change here when it does.
"""
