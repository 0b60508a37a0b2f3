"""One resolved definition from which taskgroups are launched."""

from __future__ import annotations

from typing import ClassVar, Literal

from store.ids import object_key, part_key
from store.records.definition import (
    Constraint,
    Container,
    KillPolicy,
    ReservedAddress,
    RestartPolicy,
    Toleration,
    UnreachablePolicy,
)
from store.records.record import Record

FORM_OF_PLACEHOLDER = "bcs.scheduler/placeholder-form"
"""Annotation of a placeholder that runs nothing: how its room is kept."""
HELD = "hold"
"""The value of this annotation for room that the scheduler holds."""
Executor = Literal["bcs", "mesos"]
"""Executors of taskgroups: our own executor, or the executor of the cluster manager."""


PreemptionPolicy = Literal["PreemptLowerPriority", "Never"]
"""PreemptLowerPriority: other taskgroups may be evicted for this work."""
PriorityFrom = Literal["", "document", "class", "default"]
"""Source of a priority: the number in the document, the class that the document names, or the default class; empty:
none of them."""


class Version(Record, frozen=True, kw_only=True):
    """One immutable, resolved definition of an application. Names are decimal Unix nanoseconds; newest is greatest."""

    kind: ClassVar[str] = "version"

    namespace: str
    application: str
    name: str = ""
    instances: int = 1
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    pod_labels: dict[str, str] = {}
    pod_annotations: dict[str, str] = {}
    executor: Executor | Literal[""] = ""
    """Empty = the scheduler's default at the time of each launch."""
    network_mode: str = ""
    network_type: str = ""
    egress_limit: int = 0
    """Outgoing bandwidth of a taskgroup in Mbit/s; 0 = unlimited."""
    reserved: tuple[ReservedAddress, ...] = ()
    """Reserved addresses, ordered by index. If there are any, each taskgroup needs one."""
    containers: tuple[Container, ...] = ()
    restart_policy: RestartPolicy = RestartPolicy()
    kill_policy: KillPolicy = KillPolicy()
    unreachable_policy: UnreachablePolicy = UnreachablePolicy()
    constraints: tuple[tuple[Constraint, ...], ...] = ()
    """All of the outer, any of the inner."""
    tolerations: tuple[Toleration, ...] = ()
    max_unavailable: int = 0
    """Number of taskgroups that an update without deployment may leave not ready at once; 0 = a quarter, at least
    one."""
    min_available: int = 0
    """Number of taskgroups that must run together: below it, either as many are launched as are missing to it, or none;
    0 = each is launched by itself."""
    priority: int = 0
    """The greater, the more urgent. Only policies that order by priority look at it."""
    priority_class: str = ""
    """Name of the priority class that `priority` and `preemption_policy` come from; empty = none."""
    priority_from: PriorityFrom = ""
    preemption_policy: PreemptionPolicy = "PreemptLowerPriority"
    role: str = ""
    """Role whose offers are used; empty = the scheduler's default role."""
    raw: str = ""
    """The user's document as JSON, for the definition route and roll back."""
    created_at: float = 0.0

    @property
    def kept(self) -> bool:
        """True for a placeholder that runs nothing: its room is only kept, by the cluster manager or by us."""
        return FORM_OF_PLACEHOLDER in self.annotations

    @property
    def held(self) -> bool:
        """True for a placeholder that runs nothing, and of which the cluster manager knows nothing: its room is held
        by the scheduler."""
        return self.annotations.get(FORM_OF_PLACEHOLDER) == HELD

    @property
    def key(self) -> str:
        """The key: ``namespace/application/name``."""
        return part_key(self.application_key, self.name)

    @property
    def application_key(self) -> str:
        """Key of the application that the version belongs to."""
        return object_key(self.namespace, self.application)
