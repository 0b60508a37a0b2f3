"""What-if: the smallest sets of changes that would give the open taskgroups of an application places."""
