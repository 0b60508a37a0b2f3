"""Rules of one taskgroup: states of its tasks, status, health, restarts, and messages for its end."""
