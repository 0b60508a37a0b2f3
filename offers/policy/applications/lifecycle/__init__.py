"""The work of the manager's side between start and end: events, recovery, outstanding work, checks of sums."""
