"""Deterministic simulation: the real core against a simulated store, Mesos and clock, from a seed."""
