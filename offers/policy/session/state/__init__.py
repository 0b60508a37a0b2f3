"""The state that a session changes, and the statements that change it and undo exactly."""
