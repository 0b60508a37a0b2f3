"""Errors of `bcs`, with their exit codes.

Exception tree:

    CliError           1  failed or refused
      UsageError       2  the command line or a document given to it is wrong
      NotFound         3  the object does not exist
      TimedOut         4  the operation did not end in time
      Unreachable      5  no server answered, or no server can execute the request now
      Conflict         6  the state of the object, or another operation on it, forbids the request now
      InternalError   70  a defect of bcs, or an answer that the server should not give
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 plus the number of SIGINT."""


class Problem(NamedTuple):
    """One defect of a document: its JSON path and a description."""

    path: str
    message: str


class CliError(Exception):
    """`problems` are printed under the message, one per line. `reason`: code of the server; empty if there is none.
    `hint`: a line about the way on; empty if there is none."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, problems: Sequence[Problem] = (), *, reason: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.problems = tuple(problems)
        self.reason = reason
        self.hint = hint


class UsageError(CliError):
    exit_code = 2


class NotFound(CliError):
    exit_code = 3


class TimedOut(CliError):
    exit_code = 4


class Unreachable(CliError):
    exit_code = 5


class Conflict(CliError):
    exit_code = 6


class InternalError(CliError):
    """The number is EX_SOFTWARE of sysexits.h. Scripts must not take a defect for a result: with `bcs diff`, 1 means
    that there are differences."""

    exit_code = 70


EXIT_CODES: Mapping[int, str] = {
    0: "done",
    1: "failed or refused",
    2: "wrong usage",
    3: "not found",
    4: "timed out",
    5: "server unreachable",
    6: "conflict (the state of the object or another operation forbids it)",
    70: "internal error",
    INTERRUPTED: "interrupted",
}
"""Every exit code of bcs, with its meaning. Commands that run a program in a taskgroup exit with its code."""
