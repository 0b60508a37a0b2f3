"""One run of `bcs`: the server, the namespace, the credentials, and the output."""

from __future__ import annotations

import functools
import os
import sys
import time
import warnings
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from bcs_scheduler.cli.client.types import DEFAULT_NAMESPACE, DEFAULT_SERVER
from bcs_scheduler.cli.errors import CliError, Problem
from bcs_scheduler.cli.output.terminal import Terminal

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bcs_scheduler.cli.client.client import Client
    from bcs_scheduler.cli.client.credentials import Credentials
    from bcs_scheduler.cli.output.tables import Grid

RETRY_LIMIT, WAIT_LIMIT = 30.0, 120.0
"""Seconds without --timeout: for the repetition of one request, and for an operation that is waited for."""


class Session:
    """The options of one run. The client and the consoles are made when they are used first."""

    context: str = ""
    """Name of a context; empty = that of BCS_CONTEXT, or the current one."""
    server: str = ""
    namespace: str = ""
    """Server and namespace are empty until `complete` fills them in, unless they were given as options."""
    namespace_given: bool = False
    """The namespace was given with -n, not by default or by the environment."""
    timeout: float | None = None
    """Seconds; None = the default of the operation."""
    deadline: float | None = None
    """Monotonic time at which all waits end; None = each wait has the whole limit."""
    ca_file: str | None = None
    token_file: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    insecure_skip_verify: bool = False
    validate: str | None = None
    """strict, warn or ignore: fields of documents that have no effect; None = the default of the server."""
    on_conflict: str = ""
    """The effect on a running operation on the same object: one of options.ON_CONFLICT; empty = the default of the
    server."""
    recursive: bool = False
    """Directories of documents are read with the directories in them."""
    stable: float = 0.0
    """Seconds for which a workload must run without a failure before a wait ends."""
    wide: bool = False
    """Tables of descriptions have all columns, and whole cells."""
    change_format: str = "text"
    """text, json, yaml or name."""

    def __init__(self) -> None:
        self.changes: list[dict[str, Any]] = []
        """Reports of a command that changes objects, for -o json and -o yaml."""
        self._warned: set[str] = set()
        self.about = ""
        """Begin of warnings: file and object of the document that is sent."""

    def complete(self) -> None:
        """Sets the values that no option gave: from the environment, else from the context, else by default. Raises
        UsageError for a context that does not exist.

        The credentials of a context are used for the server of that context only.
        """
        if self.server and self.namespace:
            return
        context = self._context
        self.server = self.server or os.environ.get("BCS_SERVER") or context.get("server") or DEFAULT_SERVER
        self.namespace = (
            self.namespace or os.environ.get("BCS_NAMESPACE") or context.get("namespace") or DEFAULT_NAMESPACE
        )

    @functools.cached_property
    def _context(self) -> dict[str, str]:
        from bcs_scheduler.cli.client import contexts

        return contexts.chosen(self.context or os.environ.get("BCS_CONTEXT", ""))

    @functools.cached_property
    def credentials(self) -> Credentials:
        from bcs_scheduler.cli.client.credentials import read_credentials

        self.complete()
        return read_credentials(
            os.environ,
            self._context if self._context.get("server") == self.server else {},
            token_file=self.token_file,
            ca_file=self.ca_file,
            insecure=self.insecure_skip_verify,
            certificate=self.client_cert,
            key=self.client_key,
        )

    @functools.cached_property
    def client(self) -> Client:
        self._warn(self.credentials)
        return self.new_client(RETRY_LIMIT if self.timeout is None else self.timeout)

    def new_client(self, patience: float) -> Client:
        """A client of the same server that repeats a request for at most `patience` seconds."""
        from bcs_scheduler.cli.client.client import Client

        return Client(
            self.server,
            patience,
            credentials=self.credentials,
            validation=(self.validate or "").capitalize(),
            on_conflict=self.on_conflict,
            warned=lambda warning: self.warn_of(*(str(warning.get(key, "")) for key in ("path", "message", "hint"))),
            halted=lambda words: self._warn_once(f"the scheduler has halted: {words}"),
        )

    def warn_of(self, path: str, message: str, hint: str) -> None:
        """Warns of a part of a document that has no effect, once per run."""
        self._warn_once(f"{self.about}{path}: {message}{f'; {hint}' if hint else ''}")

    def _warn_once(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            self.warn(text)

    def _warn(self, credentials: Credentials) -> None:
        parts = urlsplit(self.server if "://" in self.server else f"http://{self.server}")
        if parts.scheme == "https" and not credentials.verify:
            warnings.filterwarnings("ignore", "Unverified HTTPS request")
            self.warn("the server certificate is not verified")
        if parts.scheme == "http" and credentials.token and not _local(parts.hostname or ""):
            self.warn(f"the token is sent unencrypted to {parts.hostname}")

    @property
    def wait_limit(self) -> float:
        """Seconds that an operation is waited for."""
        if self.deadline is not None:
            return max(0.0, self.deadline - time.monotonic())
        return WAIT_LIMIT if self.timeout is None else self.timeout

    @functools.cached_property
    def out(self) -> Terminal:
        return Terminal(sys.stdout)

    @functools.cached_property
    def err(self) -> Terminal:
        return Terminal(sys.stderr)

    @property
    def interactive(self) -> bool:
        """Both outputs are terminals, so that progress bars are shown."""
        return self.out.is_terminal and self.err.is_terminal

    def show(self, shown: Grid | RenderableType) -> None:
        """Prints a table, or a list of fields. On a terminal cells are cut to the width; a file or a pipe gets whole
        cells."""
        from bcs_scheduler.cli.output.tables import Grid

        if isinstance(shown, Grid):
            self.out.print_lines(shown.lines(self.out.width if self.out.is_terminal else None))
            return
        if self.out.is_terminal:
            self.out.console.print(shown)
            return
        with self.out.console.capture() as captured:
            self.out.console.print(shown)
        self.out.file.writelines(line.rstrip() + "\n" for line in captured.get().splitlines())

    def report(
        self, kind: str, name: str, done: str, note: str = "", plan: Any = None, shown: str = "", **more: Any
    ) -> None:
        """Reports a change: printed as a line, or collected for the data that is printed at the end (`reporting`).
        `shown`: the name in the line, if `name` is an id."""
        self.changes.append({"kind": kind, "name": name, "done": done, **more, **({"plan": plan} if plan else {})})
        if self.change_format == "text":
            self.say(f"{kind}/{shown or name} {done}{f' ({note})' if note else ''}")

    def warn(self, text: str) -> None:
        """Prints a warning to standard error."""
        self.err.print("warning:", "yellow", end=" ")
        self.err.print(text)

    def fail(self, error: CliError) -> None:
        """Prints an error with its problems to standard error."""
        self.err.print("error:", "bold red", end=" ")
        self.err.print(error.message)
        for problem in error.problems:
            line = f"{problem.path}: {problem.message}" if problem.path else problem.message
            told = problem.message in error.message and (problem.path in error.message or len(error.problems) == 1)
            if not told and (len(error.problems) > 1 or _has_own_path(problem)):
                self.err.print(f"  {line}")
        if error.hint:
            self.err.print(error.hint)

    def say(self, text: str) -> None:
        """Prints one line."""
        self.out.print(text)


def _has_own_path(problem: Problem) -> bool:
    """The path names a part of a document, not the whole of it and not a parameter that the message names already."""
    return problem.path != "$" and not problem.path.startswith("?")


def _local(host: str) -> bool:
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
