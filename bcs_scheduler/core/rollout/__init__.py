"""Rolling updates: revisions, steps, and the records that they write."""
