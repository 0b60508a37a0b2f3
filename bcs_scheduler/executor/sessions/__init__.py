"""Interactive sessions: programs that the agent starts beside a task, with the streams of a user."""
