"""Moves of units between agents toward fewer or more even agents. Pure."""
