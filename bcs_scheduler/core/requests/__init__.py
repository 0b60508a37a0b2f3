"""Handlers of requests, and the limits that requests must keep."""
