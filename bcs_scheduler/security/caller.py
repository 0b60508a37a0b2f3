"""The sender of a request and its rights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Role = Literal["viewer", "operator", "admin"]
"""Each role has all rights of the roles before it."""
ROLES: tuple[Role, ...] = get_args(Role)
ProgramRight = Literal["exec", "attach", "portforward", "copy"]
"""The right to one kind of session with tasks. `exec` is also the right to commands."""
PROGRAM_RIGHTS: tuple[ProgramRight, ...] = get_args(ProgramRight)
EVERYTHING = "*"
"""In place of a list of namespaces: all of them, and the objects of the cluster."""
Means = Literal["token", "certificate", "anonymous"]


@dataclass(frozen=True, slots=True)
class Caller:
    """`namespaces` None = all of them, and the objects that belong to no namespace."""

    name: str
    means: Means
    role: Role
    namespaces: frozenset[str] | None
    programs: frozenset[ProgramRight] = frozenset(PROGRAM_RIGHTS)
    """The sessions that they may open, if their role goes so far."""
    groups: tuple[str, ...] = ()
    """Groups of the caller, for the limits of queues; a caller of more than one group counts for the first that a limit
    names."""

    @property
    def user(self) -> str:
        """The name by which queues know the caller; empty for a caller without credentials."""
        return "" if self.means == "anonymous" else self.name

    @property
    def everywhere(self) -> bool:
        return self.namespaces is None

    def sees(self, namespace: str) -> bool:
        """True if the caller may see the namespace. Objects without a namespace ("") are visible only to callers who
        see all namespaces."""
        return self.namespaces is None or namespace in self.namespaces

    def has(self, role: Role) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)


ANYBODY = Caller("anonymous", "anonymous", "admin", None)
"""Every caller where neither tokens nor certificates are required."""
NOBODY = Caller("anonymous", "anonymous", "viewer", frozenset())
"""A caller without credentials where credentials are required: only the paths that are open to all are allowed."""
