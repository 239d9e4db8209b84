"""The rules, pure: what a journal holds, how a task is folded from it, what an agent may emit. No I/O, no clock."""
