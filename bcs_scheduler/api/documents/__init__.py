"""User documents (docs/original.md#documents): their shape as structs, the check that reports all problems at once, and
the conversion into records."""
