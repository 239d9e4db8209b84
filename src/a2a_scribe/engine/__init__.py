"""The imperative shell: live tasks, turns, the commit loop, cursors."""
