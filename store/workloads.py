"""Workloads that own applications: deployments, daemonsets, and what is remembered of their definitions.

A deployment owns the application it is bound to and, during a rolling update, a second one. What runs is always taken
from the taskgroups; these records hold what is wanted and which step is being done, with absolute targets, so that a
new leader takes up the same step (W-30).
"""

from __future__ import annotations

from typing import ClassVar, Literal

from store.definition import Part
from store.record import Record
from store.version import Version

DeploymentStatus = Literal[
    "Deploying", "Running", "Update", "UpdatePaused", "UpdateSuspend", "UpdateResource", "Deleting"
]
DaemonsetStatus = Literal["Starting", "Running", "Abnormal", "Updating", "Deleting"]
Half = Literal["", "START", "DELETE"]
"""What a rolling step is doing: nothing, adding new taskgroups, removing old ones."""
Rolling = Literal["", "up", "down"]
"""Side of an application in a rolling update. On either side `instances` is how many are wanted, whatever their
indexes are."""


class Canary(Part, frozen=True, kw_only=True):
    """The first step of an update: this many new taskgroups, then a halt of `hold` seconds, or until resumed."""

    instances: int
    hold: float = 0.0
    manual: bool = False


class Strategy(Part, frozen=True, kw_only=True):
    """How a deployment is updated. At no moment, by the update's own act, are fewer than instances - max_unavailable
    taskgroups ready or more than instances + max_surge there. One of the two is at least 1."""

    max_unavailable: int = 1
    max_surge: int = 1
    pause: float = 0.0
    """Seconds between the end of one step and the beginning of the next (upgradeDuration)."""
    order: Literal["CreateFirst", "DeleteFirst"] = "CreateFirst"
    manual: bool = False
    """Pause after every step until resumed."""
    min_ready: float = 0.0
    """Seconds a new taskgroup must have been ready without a break before it counts."""
    step_timeout: float = 0.0
    """Seconds the adding half of a step may take; 0 = as the scheduler's settings say (rolling_up)."""
    on_failure: Literal["suspend", "rollback"] = "suspend"
    canary: Canary | None = None


class Deployment(Record, frozen=True, kw_only=True):
    """Keeps `instances` taskgroups of its newest revision running, and moves from one revision to the next in steps."""

    kind: ClassVar[str] = "deployment"

    namespace: str
    name: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    selector: dict[str, str] = {}
    """Decides at creation which application is adopted; immutable."""
    strategy: Strategy = Strategy()
    instances: int = 1
    status: DeploymentStatus = "Deploying"
    message: str = ""
    revision: int = 1
    """Number of the revision that is wanted; while an update is undone still the one that was."""
    application: str = ""
    """Name of the application it is bound to: during an update the old one."""
    previous: int = 0
    """During an update: the revision `application` runs."""
    previous_instances: int = 0
    """During an update: what going back restores; `instances` is that already when it does."""
    successor: str = ""
    """During an update: name of the application that takes over."""
    back: bool = False
    """The update is being undone (cancelled or rolled back): `application` grows again and `successor` shrinks."""
    pausing: bool = False
    """Pause asked for: the step that runs is completed, no other begins."""
    half: Half = ""
    step: int = 0
    """Steps begun in this update."""
    step_since: float = 0.0
    """When the present half of the step began; its life counts from here."""
    up_target: int = 0
    """Absolute number of taskgroups the growing side is brought to in this step."""
    down_target: int = 0
    """Absolute number of taskgroups the shrinking side is brought to in this step."""
    rested_at: float = 0.0
    """When the last step ended; 0.0 = none has."""
    canary_done: bool = False
    following: int = 0
    """While an update is undone: the revision that is updated to when that is done; 0 = none."""
    command: str = ""
    """UpdateResource: id of the command that tells the executors."""
    raw: str = ""
    """The user's document as JSON."""
    created_at: float = 0.0
    updated_at: float = 0.0
    progress_at: float = 0.0
    """When a step last got further."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def updating(self) -> bool:
        return bool(self.successor)

    @property
    def revision_key(self) -> str:
        return f"{self.key}/{self.revision}"


class Daemonset(Record, frozen=True, kw_only=True):
    """One taskgroup on every agent that its definition admits. They belong to an application of type daemonset of the
    same name, whose `instances` is the number of agents they are wanted on."""

    kind: ClassVar[str] = "daemonset"

    namespace: str
    name: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    max_unavailable: int = 1
    """Taskgroups an update may have down at once."""
    status: DaemonsetStatus = "Starting"
    message: str = ""
    stuck: bool = False
    """Taskgroups have ended that nothing restarts, and nothing else is under way: it gets no further by itself."""
    raw: str = ""
    created_at: float = 0.0
    updated_at: float = 0.0

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class Revision(Record, frozen=True, kw_only=True):
    """One definition a deployment has had, as long as it is kept. What is rolled back to is taken from here: the
    applications of earlier revisions, and with them their versions, are gone."""

    kind: ClassVar[str] = "revision"

    namespace: str
    deployment: str
    number: int
    version: Version
    """Without a name."""
    instances: int = 1
    raw: str = ""
    """The deployment's document as JSON."""
    strategy: Strategy = Strategy()
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    """Strategy, labels and annotations of the document, which come back with it when an update is undone."""
    why: str = ""
    """What led to it, in words: created, updated, restarted, rolled back to revision 3."""
    created_at: float = 0.0

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.deployment}/{self.number}"
