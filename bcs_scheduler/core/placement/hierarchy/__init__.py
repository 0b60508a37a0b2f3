"""Placement by hierarchical queues (offers.policy.hierarchy), in place of the order of arrival."""
