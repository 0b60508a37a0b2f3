"""The parts of a snapshot in a copy for a question (offers.policy.copies)."""

from __future__ import annotations

from offers.dimensions import Dimensions
from offers.policy.copies import Rules
from offers.policy.session.columns import Columns, Mirrors, Scored
from offers.policy.session.model import Agent, Job, Nomination, Queue, Task, Template
from offers.policy.session.running import Running, _Places
from offers.policy.session.snapshot import JobFigures, Snapshot, Standing
from offers.policy.session.state.templates import Need, Needs

SNAPSHOTS = Rules(
    (Columns, JobFigures, Mirrors, Needs, Running, Snapshot, Standing, _Places),
    (Agent, Dimensions, Job, Need, Nomination, Queue, Scored, Task, Template),
    # The tasks of an agent are replaced, and not changed in place.
    shallow={
        Running: ("_agents", "_members", "_names", "_number", "jobs", "queues"),
        Snapshot: ("tenants",),
    },
)
