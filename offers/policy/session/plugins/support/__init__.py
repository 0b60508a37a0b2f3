"""Computations that plug-ins share."""
