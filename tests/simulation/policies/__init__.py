"""Worlds of policies: a scheduler and a cluster without faults in virtual time, so that who gets room can be judged.

A seed makes a cluster, queues and users who ask for more than there is: queues at their limits, work that is larger
than a limit or than any agent, gangs beside single taskgroups, critical work, small budgets, failing checks, operations
that stay open, many shapes (`users`). From time to time nobody asks for anything for some minutes. `rules` judges each
eviction when it is decided, and what waits at the end of such a time; `queues` says for each policy what a queue may
have; `mutants` are faults put in on purpose; in a `plain` world, a test says what is judged. A violation
names the seed, which ``python -m tests.simulation --policy fair-session --seed SEED`` repeats, for trees of queues
``fair-hierarchical``.
"""
