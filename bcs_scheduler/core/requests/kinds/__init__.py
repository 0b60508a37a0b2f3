"""Handlers of requests, one module per kind of object."""
