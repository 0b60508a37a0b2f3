"""Options, formats and help texts that commands have in common."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

import click

from bcs_scheduler.cli.client.types import DEFAULT_NAMESPACE, DEFAULT_SERVER
from bcs_scheduler.cli.errors import CliError
from bcs_scheduler.cli.habits import INSTEAD, instead_of_kind, no_command
from bcs_scheduler.cli.output.formats import FormType
from bcs_scheduler.cli.session import Session

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Command = TypeVar("Command", bound=Callable[..., Any])
Parameters = ParamSpec("Parameters")
COMPLETION_PATIENCE = 0.5
"""Seconds during which a request of a completion is repeated."""
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "": 1.0}
"""Seconds of each unit of a duration."""


class Duration(click.ParamType):  # type: ignore[type-arg]  # generic only since click 8.3
    """``90``, ``90s``, ``1m30s``, ``2h``: seconds as a float."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, int | float):
            return float(value)
        if not re.fullmatch(r"(\d+(\.\d+)?(ms|s|m|h|d))+|\d+(\.\d+)?", value):
            self.fail(f"{value!r} is not a duration such as 90s, 2m or 1m30s", param, ctx)
        return sum(float(number) * UNITS[unit] for number, _, unit in re.findall(r"(\d+(\.\d+)?)([a-z]*)", value))


FILE: dict[str, Any] = {"metavar": "FILE", "type": click.Path()}
ELSEWHERE = "`bcs --help` shows the options for server, namespace, time limit and credentials, such as -n and --server."


class ConnectionOption(click.Option):
    """An option that all commands accept and that only `bcs --help` shows."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        return super().get_help_record(ctx) if ctx.parent is None and isinstance(ctx.command, click.Group) else None


def namespace_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Namespaces that the server knows; none after an error."""
    from click.shell_completion import CompletionItem

    session = session_of(ctx)
    try:
        session.complete()
        found = session.new_client(COMPLETION_PATIENCE).objects("namespace")
        names = [str(one["metadata"]["name"]) for one in found]
    except (CliError, KeyError, TypeError):
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def context_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Contexts of the file; none if the file cannot be read."""
    from click.shell_completion import CompletionItem

    from bcs_scheduler.cli.client import contexts

    try:
        names = contexts.contexts_of(contexts.read_config())
    except CliError:
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


class WholeHelp(click.Group):
    """A group whose --help shows the descriptions of its commands in full. Commands and kinds of others are answered
    with the way here."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Raises UsageError (of click)."""
        if args and args[0] not in self.commands:
            path = f"{self.name} {args[0]}"
            if path in INSTEAD:
                ctx.fail(no_command(path))
            if self.name == "create" and (instead := instead_of_kind(args[0])):
                ctx.fail(f"{instead}.")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        shown = [(name, command) for name in self.list_commands(ctx) if not (command := self.commands[name]).hidden]
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.get_short_help_str(limit=1000)) for name, command in shown])


class RenamedOption(click.Option):
    """An option with former names. They are accepted, but not shown by --help."""

    def __init__(self, *arguments: Any, former: Sequence[str], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.former = list(former)

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        shown, self.opts = self.opts, [*self.opts, *self.former]
        try:
            super().add_to_parser(parser, ctx)
        finally:
            self.opts = shown


def examples(*lines: str) -> str:
    """The end of a help text: where the connection options are, and one example per line, not wrapped."""
    return f"{ELSEWHERE}\n\n\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def connection_options(command: Command) -> Command:
    """Options for server, namespace, timeout and credentials.

    They are accepted before and after the name of the command; the last value counts.
    """
    for flags, extra, text in (
        (("--insecure-skip-verify",), {"is_flag": True, "default": None}, "Do not verify the server certificate."),
        (
            ("--client-key",),
            FILE,
            "Key of the client certificate. Environment: BCS_CLIENT_KEY.",
        ),
        (
            ("--client-cert",),
            FILE,
            "Client certificate (PEM). Environment: BCS_CLIENT_CERT.",
        ),
        (
            ("--token-file",),
            FILE,
            "File with the token. Environment: BCS_TOKEN_FILE, BCS_TOKEN.",
        ),
        (
            ("--ca-file",),
            FILE,
            "Trusted certificate authorities (PEM). Environment: BCS_CA_FILE.",
        ),
        (
            ("--timeout",),
            {"type": Duration()},
            "Time limit, such as 90s or 2m. Default: 30s for a busy server, 120s for an operation.",
        ),
        (
            ("-n", "--namespace"),
            {"metavar": "NS", "shell_complete": namespace_names},
            f"Namespace. Environment: BCS_NAMESPACE. Default: {DEFAULT_NAMESPACE}.",
        ),
        (
            ("--context",),
            {"metavar": "NAME", "shell_complete": context_names},
            "Context of `bcs config`. Environment: BCS_CONTEXT. Default: the current one.",
        ),
        (
            ("--server",),
            {"metavar": "URL"},
            f"URL of the scheduler. Environment: BCS_SERVER. Default: that of the context, or {DEFAULT_SERVER}.",
        ),
    ):
        remember = _remember(flags[-1].removeprefix("--").replace("-", "_"))
        command = click.option(*flags, cls=ConnectionOption, expose_value=False, callback=remember, help=text, **extra)(
            command
        )
    return command


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


def pass_session(command: Callable[Concatenate[Session, Parameters], Any]) -> Callable[Parameters, Any]:
    """Calls a command with its session as the first argument. Raises UsageError for a context that does not exist."""

    @functools.wraps(command)
    def wrapped(*arguments: Parameters.args, **options: Parameters.kwargs) -> Any:
        session = session_of(click.get_current_context())
        session.complete()
        return command(session, *arguments, **options)

    return wrapped


output_option = click.option(
    "-o",
    "--output",
    type=FormType(),
    metavar="FORMAT",
    help="Output format: table, wide, json, yaml, name, custom-columns=TITLE:PATH,…, jsonpath=EXPRESSION, or "
    "template=JINJA. Environment: BCS_OUTPUT. Default: table.",
)


def list_options(command: Command) -> Command:
    """Options of commands that print lists."""
    for option in (
        click.option("--no-headers", is_flag=True, help="Print tables without the line of titles."),
        click.option(
            "--sort-by",
            default="",
            metavar="TITLE|PATH",
            help="Sort by a column of the table such as age, or by a JSONPath expression such as .metadata.name.",
        ),
        output_option,
    ):
        command = option(command)
    return command


field_selector_option = click.option(
    "--field-selector",
    "fields",
    default="",
    metavar="FIELD=VALUE,…",
    help="Choose objects by fields, such as status.phase!=Running,spec.nodeName=agent-1. The refusal of an unknown "
    "field lists the known ones.",
)
DOCUMENTS = "JSON or YAML file, directory, or - for standard input. May be repeated."


def files_option(words: str = DOCUMENTS, *, required: bool = False) -> Callable[[Command], Command]:
    """-f FILE, any number of times, as `files`, and -R."""
    given = click.option(
        "-f", "--filename", "files", multiple=True, required=required, type=click.Path(), metavar="FILE", help=words
    )
    recursive = click.option(
        "-R",
        "--recursive",
        is_flag=True,
        expose_value=False,
        callback=_remember("recursive"),
        help="With -f DIRECTORY: also the documents in its directories.",
    )
    return lambda command: given(recursive(command))


file_option = files_option(required=True)
validate_option = click.option(
    "--validate",
    type=click.Choice(("strict", "warn", "original", "ignore")),
    expose_value=False,
    callback=_remember("validate"),
    help="Fields without effect: refuse, warn of or ignore them; `original` warns also of those with another effect in "
    "BlueKing BCS. Default: warn.",
)
ON_CONFLICT = ("supersede", "queue", "fail")
"""Values of the parameter onConflict of the API; the first one is the default."""
on_conflict_option = click.option(
    "--on-conflict",
    type=click.Choice(ON_CONFLICT),
    expose_value=False,
    callback=_remember("on_conflict"),
    help="Effect on an operation in progress on the same workload: supersede it, queue behind it, or fail. "
    f"Default: {ON_CONFLICT[0]}.",
)
_wait_option = click.option("--wait", is_flag=True, help="Wait until the operation has ended or failed.")


def wait_option(command: Command) -> Command:
    """--wait, and the time for which a workload must run then."""
    stable = click.option(
        "--stable",
        type=Duration(),
        expose_value=False,
        callback=_remember("stable"),
        help="With --wait: wait until the taskgroups have run for this time without a failure, such as 5s.",
    )
    return _wait_option(stable(command))


dry_run_option = click.option("--dry-run", is_flag=True, help="Show the changes, and change nothing.")
future_agents_option = click.option(
    "--force",
    is_flag=True,
    help="Also store settings for agents that are not known. They apply when such an agent registers.",
)


def reporting(command: Command) -> Command:
    """Adds -o to a command that changes objects. JSON and YAML are printed once, at the end, also after a failure."""

    @functools.wraps(command)
    def wrapped(session: Session, *arguments: Any, output: str | None, **options: Any) -> Any:
        form = output or os.environ.get("BCS_OUTPUT", "")
        session.change_format = form if form in ("json", "yaml", "name") else "text"
        try:
            return command(session, *arguments, **options)
        finally:
            if session.change_format == "name":
                for name in dict.fromkeys(f"{change['kind']}/{change['name']}" for change in session.changes):
                    session.say(name)
            elif session.change_format != "text" and session.changes:
                from bcs_scheduler.cli.output.data import print_data

                print_data(session.out, session.changes, session.change_format)

    forms = click.Choice(("text", "table", "json", "yaml", "name"))
    words = "Output format; table is the same as text. Environment: BCS_OUTPUT. Default: text."
    option = click.option("-o", "--output", type=forms, help=words)
    return cast(Command, option(wrapped))


def changing_command(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that all commands share which change objects and may wait for the end of the change, and the
    session as the first argument."""
    return dry_run_option(wait_option(connection_options(pass_session(reporting(command)))))
