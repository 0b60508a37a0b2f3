"""The demands of a taskgroup on an agent beside resources: constraints, terms, taints."""
