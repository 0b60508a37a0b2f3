"""Jobs and queues of a session: figures that statements change and plug-ins may read."""

from __future__ import annotations

from offers.policy.session.model import Job, Queue
from offers.policy.session.snapshot import JobFigures
from offers.policy.session.state.templates import Need


class QueueState:
    """A queue that has jobs in the session. `allocated`, `promised` and `requested` are by dimension."""

    __slots__ = ("allocated", "created", "jobs", "name", "promised", "queue", "requested", "running")

    def __init__(self, queue: Queue, width: int) -> None:
        self.queue, self.name, self.created = queue, queue.name, queue.created
        self.allocated = [0] * width
        """The amounts that tasks in allocated states hold, and that tasks take that were placed in this session."""
        self.promised = [0] * width
        """The amounts that pending tasks were promised in earlier sessions, and that were not used or given up yet."""
        self.requested = [0] * width
        """The amounts that all tasks hold or want, as it was when the session opened."""
        self.jobs: list[JobState] = []
        """The jobs that the session looks at (`Session.jobs`)."""
        self.running = 0
        """Tasks that ran when the session opened."""


class JobState:
    """A job in the session. Positions are those of its tasks in `job.tasks`."""

    __slots__ = (
        "allocated", "created", "evicted", "job", "min_available", "misfit", "name", "number", "over_limit", "pending",
        "placed",
        "priority", "queue", "ready", "running", "succeeded", "waiting",
    )  # fmt: skip

    def __init__(self, job: Job, number: int, figures: JobFigures, queue: QueueState) -> None:
        self.job, self.number, self.queue = job, number, queue
        self.name, self.priority, self.created = job.name, job.priority, job.created
        self.min_available = job.min_available
        self.ready = figures.ready
        """Tasks in allocated states or succeeded."""
        self.running = figures.running
        """Tasks that ran when the session opened."""
        self.succeeded = figures.ready - figures.settled
        self.waiting = figures.moving
        """Tasks that were pipelined, and those that are leaving for another agent: they will be asked for again."""
        self.pending = figures.pending
        """Tasks that nothing was decided for."""
        self.allocated = figures.allocated.copy()
        self.placed: dict[int, int] = {}
        """Rank of the agent by position, of the tasks that were placed in this session."""
        self.evicted: set[int] = set()
        self.misfit: Need | None = None
        """The need of the first task that found no agent; None if there is none."""
        self.over_limit = False
        """A limit of the queue holds back a task, or those that reach the minimum."""

    @property
    def starving(self) -> bool:
        """True if the job has tasks that could be placed, and is below its minimum also when everything has left that
        is leaving."""
        return self.pending > 0 and self.ready + self.waiting < self.min_available
