"""One resolved definition of what runs: what taskgroups are launched from."""

from __future__ import annotations

from typing import ClassVar, Literal

from store.definition import (
    Constraint,
    Container,
    KillPolicy,
    RestartPolicy,
    Toleration,
    UnreachablePolicy,
)
from store.record import Record

Executor = Literal["bcs", "mesos"]
"""What runs a taskgroup on its agent: our own executor, or Mesos's default executor."""


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
    containers: tuple[Container, ...] = ()
    restart_policy: RestartPolicy = RestartPolicy()
    kill_policy: KillPolicy = KillPolicy()
    unreachable_policy: UnreachablePolicy = UnreachablePolicy()
    constraints: tuple[tuple[Constraint, ...], ...] = ()
    """All of the outer, any of the inner."""
    tolerations: tuple[Toleration, ...] = ()
    max_unavailable: int = 0
    """How many taskgroups a plain update may take down at once; 0 = a quarter, at least one."""
    role: str = ""
    """Mesos role whose offers are used; empty = the scheduler's default role."""
    raw: str = ""
    """The user's document as JSON, for the definition route and roll back."""
    created_at: float = 0.0

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.application}/{self.name}"
