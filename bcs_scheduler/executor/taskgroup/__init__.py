"""The taskgroup of an executor: its tasks, and the parts that all tasks share."""
