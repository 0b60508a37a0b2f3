"""Sessions of users with tasks, over WebSocket: programs with their streams, and connections to ports."""
