"""Who sends a request, and what of the cluster is theirs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Role = Literal["viewer", "operator", "admin"]
"""Each may do what the ones before it may."""
ROLES: tuple[Role, ...] = get_args(Role)
ProgramRight = Literal["exec", "attach", "portforward", "copy"]
"""The right to one kind of session with tasks. `exec` is also the right to commands."""
PROGRAM_RIGHTS: tuple[ProgramRight, ...] = get_args(ProgramRight)
EVERYTHING = "*"
"""In place of a list of namespaces: all of them, and what belongs to none."""
Means = Literal["token", "certificate", "anonymous"]


@dataclass(frozen=True, slots=True)
class Caller:
    """`namespaces` None = all of them, and what belongs to no namespace."""

    name: str
    means: Means
    role: Role
    namespaces: frozenset[str] | None
    programs: frozenset[ProgramRight] = frozenset(PROGRAM_RIGHTS)
    """The sessions that they may open, if their role goes so far."""

    @property
    def everywhere(self) -> bool:
        return self.namespaces is None

    def sees(self, namespace: str) -> bool:
        """The namespace is one of theirs. What belongs to none ("") is nobody's but those's who see everything."""
        return self.namespaces is None or namespace in self.namespaces

    def has(self, role: Role) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)


ANYBODY = Caller("anonymous", "anonymous", "admin", None)
"""Everybody where neither tokens nor certificates are asked for."""
NOBODY = Caller("anonymous", "anonymous", "viewer", frozenset())
"""Whoever shows nothing where something is asked for: what is open to all is open to them too."""
