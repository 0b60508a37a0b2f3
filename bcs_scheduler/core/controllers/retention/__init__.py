"""Controllers that remove records which are no longer needed."""
