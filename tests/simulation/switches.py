"""What the engine cannot do yet, and what the simulation therefore allows; turn a switch on when it can.

* `TAKE_OVER`: the tasks of dead nodes are ended, or run again, by living ones. Off: a task whose owner is dead stays
  open, messages in its inbox wait for ever, and so do the clients that wait for them. On: no task is left with an open
  turn, no inbox row is left, every call ends. What to do with it:
  - nothing at all in `database.Connection` for new methods of the journal that it should pass on: they get delays and
    failures like reads. One that writes gets a method of its own beside `commit`, with `trouble.fail` and
    `trouble.lose` around it; a new kind of write in a `Group` needs nothing.
  - `scenario.SETTLE_TIME` and the wait for clients in `Scenario.play` must be longer than the lease.
  - `Scenario.dead_nodes` then serves to tell who may not write. The fate 'dead', which declares nodes dead by
    `Database.declare_dead`, can go: a pause longer than the lease does it. Draw such pauses in `Scenario._pause`, and
    short leases in `_draw_settings`.
  - with the policy `rerun`, `MESSAGE_RUNS` becomes the bound on attempts, `invariants.History` allows a second start of
    a turn with `attempt` 2 (it does, by `attempt`), and tags of an earlier attempt may lie before the later one's.
  - what is recorded after a take-over goes into the ledger as usual; tasks of processes that died are in
    `Ledger.doomed_processes`, so what an agent had emitted there may be missing.
* `REMOTE_CANCEL`: a task that another process runs can be cancelled. Off: the caller is told that it belongs to another
  process. On: that answer is a fault, and `Scenario._cancel` need not look for the owner.

Deadlines and overload: draw the settings in `scenario._draw_settings`, and name the refusals that they bring in
`invariants.Checks._wrong_refusal`. An inactivity deadline ends what `unfinished='keep'` leaves open: then `draw_plan`
needs no `ends`. Idempotency keys: give `ledger.Sent` a key, send it again in `clients._act` after an error, and let
`Checks._message` count executions per key. Retention: a task that was deleted is no journal to look into.
"""

TAKE_OVER = True
REMOTE_CANCEL = True
MESSAGE_RUNS = 1
"""How often one message may be executed."""
