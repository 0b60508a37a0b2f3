"""Policies as configured: the values, the names that a configuration may use, and how a document is read."""
