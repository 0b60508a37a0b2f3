"""Workloads that own applications: deployments, daemonsets, and their kept definitions (revisions).

A deployment owns the application it is bound to and, during a rolling update, a second one. The actual state is always
read from the taskgroups. These records hold the wanted state and the present step, with absolute targets, so that a new
leader continues the same step (docs/original.md#absolute-targets).
"""

from __future__ import annotations

from typing import ClassVar, Literal

from store.ids import object_key, part_key
from store.records.definition import Part
from store.records.record import Record
from store.records.version import Version

DeploymentStatus = Literal[
    "Deploying", "Running", "Update", "UpdatePaused", "UpdateSuspend", "UpdateResource", "Deleting"
]
DaemonsetStatus = Literal["Starting", "Running", "Abnormal", "Updating", "Deleting"]
StepPhase = Literal["", "START", "DELETE"]
"""The phases of a step of a rolling update: none, adding new taskgroups, removing old ones."""
Rolling = Literal["", "up", "down"]
"""Side of an application in a rolling update. On either side `instances` is the wanted number of taskgroups, with any
indexes."""


class Canary(Part, frozen=True, kw_only=True):
    """The first step of an update: this many new taskgroups, then a halt of `hold` seconds, or until resumed."""

    instances: int
    hold: float = 0.0
    manual: bool = False


class Strategy(Part, frozen=True, kw_only=True):
    """Rules for the update of a deployment. The update itself never reduces the ready taskgroups below instances -
    max_unavailable and never raises the existing taskgroups above instances + max_surge. At least one of the two
    numbers is 1 or more."""

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
    """During an update, the number of instances that a rollback restores; `instances` already has this value during the
    rollback."""
    successor: str = ""
    """During an update: name of the application that takes over."""
    retiring: tuple[str, ...] = ()
    """During an update: names of the applications that arrived with updates which newer documents have superseded, the
    oldest first. They go together with the rest of the old side."""
    rolling_back: bool = False
    """The update is being undone (cancelled or rolled back): `application` grows again and `successor` shrinks."""
    rollback_reason: str = ""
    """While the update is undone: the reason, in words for the messages."""
    rollback_requested: bool = False
    """A user has asked for the last undoing of an update; it did not follow from a failure."""
    pausing: bool = False
    """Pause asked for: the step that runs is completed, no other begins."""
    phase: StepPhase = ""
    """The phase of the step in progress: START adds taskgroups, DELETE removes taskgroups; empty = no step runs."""
    step: int = 0
    """Steps begun in this update."""
    step_since: float = 0.0
    """Unix seconds at which the present phase of the step began; its time limit counts from here."""
    up_target: int = 0
    """Absolute number of taskgroups the growing side is brought to in this step."""
    down_target: int = 0
    """Absolute number of taskgroups the shrinking side is brought to in this step."""
    rested_at: float = 0.0
    """Unix seconds at which the last step ended; 0.0 = no step has ended."""
    canary_done: bool = False
    next_revision: int = 0
    """While an update is undone: the revision of the update that begins afterwards; 0 = none."""
    launch_failed: bool = False
    """A launch failed for good (a gang of style Hard found no room). Nothing is launched until a user asks for it."""
    command: str = ""
    """UpdateResource: id of the command that sends the limits to the executors."""
    raw: str = ""
    """The user's document as JSON."""
    created_at: float = 0.0
    updated_at: float = 0.0
    progress_at: float = 0.0
    """Unix seconds at which a step last made progress."""

    @property
    def key(self) -> str:
        """The key: ``namespace/name``."""
        return object_key(self.namespace, self.name)

    @property
    def application_key(self) -> str:
        """Key of the application that serves the present revision."""
        return object_key(self.namespace, self.application)

    @property
    def sides(self) -> tuple[str, ...]:
        """Names of its applications: the bound one and, during an update, its successor and those that retire."""
        return tuple(name for name in (self.application, self.successor, *self.retiring) if name)

    @property
    def updating(self) -> bool:
        """True while a second application exists: the one that replaces the first, or that is removed by a rollback."""
        return bool(self.successor)

    @property
    def revision_key(self) -> str:
        """Key of the revision record that the deployment is at."""
        return part_key(self.key, self.revision)


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
    """Taskgroups have ended that no policy restarts, and no other work is in progress: the update does not continue by
    itself."""
    raw: str = ""
    created_at: float = 0.0
    updated_at: float = 0.0

    @property
    def key(self) -> str:
        """The key: ``namespace/name``, the same as that of its application."""
        return object_key(self.namespace, self.name)


class Revision(Record, frozen=True, kw_only=True):
    """One definition that a deployment has had, as long as it is kept. A rollback takes the definition from this
    record, because the applications of earlier revisions and their versions have been removed."""

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
    """Origin of the revision, for users: created, updated, restarted, rolled back to revision 3."""
    created_at: float = 0.0

    @property
    def key(self) -> str:
        """The key: ``namespace/deployment/number``."""
        return part_key(self.deployment_key, self.number)

    @property
    def deployment_key(self) -> str:
        """Key of the deployment."""
        return object_key(self.namespace, self.deployment)
