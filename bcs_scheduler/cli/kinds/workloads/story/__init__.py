"""The story of an object: its events, cause by cause."""
