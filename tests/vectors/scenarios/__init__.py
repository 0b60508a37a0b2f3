"""The engines of the scenario vectors, one per area."""
