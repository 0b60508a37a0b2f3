"""Requests that are carried out, looked at and undone: the effect of one, and of several together."""
