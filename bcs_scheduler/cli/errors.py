"""What can go wrong for a user of `bcs`, with the exit code scripts see.

Exception tree:

    CliError           1  failed or refused
      UsageError       2  the command line or a document given to it is wrong
      NotFound         3  the object does not exist
      TimedOut         4  it did not happen in time
      Unreachable      5  no server answered, or none that can take the command
      Conflict         6  the state of the object, or another operation on it, forbids this now
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells give it to a program ended by SIGINT."""


class Problem(NamedTuple):
    """One thing that is wrong with a document: its JSON path and what it is."""

    path: str
    message: str


class CliError(Exception):
    """`problems` are printed one per line under the message."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, problems: Sequence[Problem] = (), *, reason: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.problems = tuple(problems)
        self.reason = reason


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


EXIT_CODES = """\
Exit codes: 0 done, 1 failed or refused, 2 wrong usage, 3 not found, 4 timed out, 5 server unreachable,
6 conflict (wrong state, or another operation runs), 130 interrupted."""
