"""Hierarchical queues: one allocation after the other, chosen from the top of a tree of queues downwards.

The rules are those of YuniKorn's core; decision 44 says where they differ. Everything here is pure: the caller gives
the time, and carries out the decisions. A runtime uses one tree per partition, from one thread:

    partition = partition_of(document, resources)     # raises BadQueues, with every problem and its path
    tree = Tree(partition, nodes, admits)             # `admits` judges constraints of asks on nodes
    application = place(tree, name, now, Submission(user, groups, queue, tags))   # raises NotPlaced
    tree.ask(Ask(name, task, request, now, priority, constraint=template))        # one per task that is wanted
    tree.recover(Allocation(ask, node))               # at a start: each running task, before the first cycle

    for allocation in tree.run(): ...                 # launch each on its node; it counts as used from now on
    for preemption in maintain(tree, now).preemptions: ...   # end the victims; the node is promised to the ask
    tree.release(name, task)                          # an allocation has ended, or its launch has failed
    tree.withdraw(name, task)                         # a pending task is no longer wanted
    finish(tree, name)                                # the application has ended

`run` is called after every change that may give room: new asks, releases, nodes. `maintain` is called about once a
second, after `run`. A victim keeps its room until `release`; then `run` places the ask on the promised node before
anything else. `cause_of` says why an ask waits. Nodes change by `set_nodes`, `remove_nodes`, `occupy` (use by others)
and `conditions_changed` (attributes).

A new configuration is tried by `trying`, which changes nothing, and carried out by `apply`. Both refuse a configuration
that does not suit the existing applications (CannotChange).
"""
