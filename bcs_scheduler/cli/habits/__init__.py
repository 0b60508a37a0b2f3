"""Words that users know from kubectl, docker and nomad."""
