"""Requests about objects that placement policies use."""
