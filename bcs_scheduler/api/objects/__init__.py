"""Kinds of objects with few rules, one module per kind: the checks of its documents, its views, and its operations."""
