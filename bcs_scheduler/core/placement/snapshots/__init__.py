"""Placement by sessions of a policy (offers.policy.session), in place of the order of arrival."""
