"""Requests, their repetition, credentials, and streams of server-sent events."""
