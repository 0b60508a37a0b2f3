"""The streams of `bcs` and of programs in sessions."""
