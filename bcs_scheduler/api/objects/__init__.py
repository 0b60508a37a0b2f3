"""Kinds of objects with few rules, one module per kind: the checks of its documents, what users see of it, and its
operations.
"""
