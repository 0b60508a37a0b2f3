"""What the commands have in common: options, the session made from them, durations."""

from __future__ import annotations

import functools
import ipaddress
import os
import re
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

import click
from rich.console import Console, RenderableType

from bcs_scheduler.cli.client import DEFAULT_NAMESPACE, DEFAULT_SERVER, Client
from bcs_scheduler.cli.credentials import Credentials, read_credentials
from bcs_scheduler.cli.output import print_data

Command = TypeVar("Command", bound=Callable[..., Any])

FORMATS = ("table", "wide", "json", "yaml")
UNBOUNDED = 10_000
RETRY_LIMIT, WAIT_LIMIT = 30.0, 120.0
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "": 1.0}


class Duration(click.ParamType):  # type: ignore[type-arg]  # generic only since click 8.3
    """``90``, ``90s``, ``1m30s``, ``2h``: seconds as a float."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, int | float):
            return float(value)
        if not re.fullmatch(r"(\d+(\.\d+)?(ms|s|m|h|d))+|\d+(\.\d+)?", value):
            self.fail(f"{value!r} is not a duration such as 90s, 2m or 1m30s", param, ctx)
        return sum(float(number) * UNITS[unit] for number, _, unit in re.findall(r"(\d+(\.\d+)?)([a-z]*)", value))


@dataclass
class Session:
    """One run of the command: where to, as whom, and how to print."""

    server: str = field(default_factory=lambda: os.environ.get("BCS_SERVER") or DEFAULT_SERVER)
    namespace: str = field(default_factory=lambda: os.environ.get("BCS_NAMESPACE") or DEFAULT_NAMESPACE)
    namespace_given: bool = False
    timeout: float | None = None
    ca_file: str | None = None
    token_file: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    insecure_skip_verify: bool = False
    changes: list[dict[str, Any]] = field(default_factory=list)
    """What was done, for programs."""
    change_format: str = "text"

    @functools.cached_property
    def credentials(self) -> Credentials:
        return read_credentials(
            os.environ,
            token_file=self.token_file,
            ca_file=self.ca_file,
            insecure=self.insecure_skip_verify,
            certificate=self.client_cert,
            key=self.client_key,
        )

    @functools.cached_property
    def client(self) -> Client:
        self._warn(self.credentials)
        patience = RETRY_LIMIT if self.timeout is None else self.timeout
        return Client(self.server, patience, credentials=self.credentials)

    def _warn(self, credentials: Credentials) -> None:
        parts = urlsplit(self.server if "://" in self.server else f"http://{self.server}")
        if parts.scheme == "https" and not credentials.verify:
            warnings.filterwarnings("ignore", "Unverified HTTPS request")
            self.err.print("[yellow]warning:[/] the server's certificate is not verified")
        if parts.scheme == "http" and credentials.token and not _local(parts.hostname or ""):
            self.err.print(f"[yellow]warning:[/] the token travels in clear text to {parts.hostname}")

    @property
    def wait_limit(self) -> float:
        """Seconds an operation is waited for."""
        return WAIT_LIMIT if self.timeout is None else self.timeout

    @functools.cached_property
    def out(self) -> Console:
        # Tables for a file or a pipe are as wide as their content: a cut id would be useless there.
        return Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else UNBOUNDED)

    @functools.cached_property
    def err(self) -> Console:
        return Console(file=sys.stderr, highlight=False, soft_wrap=True)

    @property
    def interactive(self) -> bool:
        """Somebody is watching: progress bars make sense."""
        return sys.stdout.isatty() and sys.stderr.isatty()

    def show(self, renderable: RenderableType) -> None:
        """A table or the like. Off a terminal without the blanks that fill up its lines."""
        if sys.stdout.isatty():
            self.out.print(renderable)
            return
        with self.out.capture() as captured:
            self.out.print(renderable)
        sys.stdout.writelines(line.rstrip() + "\n" for line in captured.get().splitlines())

    def report(self, kind: str, name: str, done: str, note: str = "", plan: Any = None, **more: Any) -> None:
        """What a change did: a line at once, or an element of the data printed at the end (`reporting`)."""
        self.changes.append({"kind": kind, "name": name, "done": done, **more, **({"plan": plan} if plan else {})})
        if self.change_format == "text":
            self.say(f"{kind}/{name} {done}{f' ({note})' if note else ''}")

    def warn(self, text: str) -> None:
        """About what was done all the same. Object names are taken literally."""
        self.err.print("[yellow]warning:[/] ", end="")
        self.err.print(text, markup=False)

    def say(self, text: str) -> None:
        """A line about what was done. Object names are taken literally, not as markup."""
        self.out.print(text, markup=False, soft_wrap=True)


def connection_options(command: Command) -> Command:
    """--server, --namespace, --timeout and what the server is shown and known by: before or after the name of the
    command; the later wins."""
    for flags, extra, text in (
        (("--insecure-skip-verify",), {"is_flag": True, "default": None}, "Take any certificate of the server."),
        (("--client-key",), {"metavar": "FILE"}, "Key of the client certificate; or BCS_CLIENT_KEY."),
        (("--client-cert",), {"metavar": "FILE"}, "Client certificate, PEM; or BCS_CLIENT_CERT."),
        (("--token-file",), {"metavar": "FILE"}, "File with the token; or BCS_TOKEN_FILE, or BCS_TOKEN itself."),
        (("--ca-file",), {"metavar": "FILE"}, "Certificates of the authorities to trust, PEM; or BCS_CA_FILE."),
        (("--timeout",), {"type": Duration()}, "How long to wait: for a busy server (30s), for an operation (120s)."),
        (("-n", "--namespace"), {"metavar": "NS"}, f"Namespace; or BCS_NAMESPACE. Default {DEFAULT_NAMESPACE}."),
        (("--server",), {"metavar": "URL"}, f"URL of the scheduler; or BCS_SERVER. Default {DEFAULT_SERVER}."),
    ):
        remember = _remember(flags[-1].removeprefix("--").replace("-", "_"))
        command = click.option(*flags, expose_value=False, callback=remember, help=text, **extra)(command)
    return command


def _local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def session_of(ctx: click.Context) -> Session:
    session: Session = ctx.ensure_object(Session)
    return session


def _remember(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def callback(ctx: click.Context, param: click.Parameter, value: Any) -> None:
        if value is None:
            return
        session = session_of(ctx)
        setattr(session, name, value)
        if name == "namespace":
            session.namespace_given = True

    return callback


pass_session = click.make_pass_decorator(Session, ensure=True)

output_option = click.option(
    "-o", "--output", type=click.Choice(FORMATS), help="Default: table on a terminal, json otherwise."
)
file_option = click.option(
    "-f", "--filename", "files", multiple=True, required=True, metavar="FILE", help="JSON or YAML, a folder, or -."
)
wait_option = click.option("--wait", is_flag=True, help="Wait until the operation has ended.")


def reporting(command: Command) -> Command:
    """-o for a command that changes something. Data is printed once, at the end, also if it failed half way."""

    @functools.wraps(command)
    def wrapped(session: Session, *arguments: Any, output: str | None, **options: Any) -> Any:
        form = "text" if output == "table" else output
        session.change_format = form or ("text" if sys.stdout.isatty() else "json")
        try:
            return command(session, *arguments, **options)
        finally:
            if session.change_format != "text" and session.changes:
                print_data(session.out, session.changes, session.change_format)

    forms = click.Choice(("text", "table", "json", "yaml"))
    words = "Default: text (also called table) on a terminal, json otherwise."
    option = click.option("-o", "--output", type=forms, help=words)
    return cast(Command, option(wrapped))


def chosen_format(output: str | None) -> str:
    return output or ("table" if sys.stdout.isatty() else "json")
