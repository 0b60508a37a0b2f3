"""Readers of documents of objects that placement policies use."""
