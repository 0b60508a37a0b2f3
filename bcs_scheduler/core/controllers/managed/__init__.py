"""The manager's side of placement in the core: applications of managers, and reservations with placeholders.

How a gang starts: a manager, or the launch of an application (`reservations`), makes its record. `applications` looks
at it, and `gangs` makes the gang, whose rules are in `offers.policy.applications.gang`. `units` creates an application
for each placeholder, and reports the taskgroup of each to the gang. When all of them run, the placeholders end, and
`gate` lets the slots of their tasks ask for the freed room.
"""
