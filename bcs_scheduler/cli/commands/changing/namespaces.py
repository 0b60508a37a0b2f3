"""`bcs create namespace` and `bcs set namespace`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.commands.arguments import queue_names
from bcs_scheduler.cli.commands.changing import generate
from bcs_scheduler.cli.commands.changing.generate import created
from bcs_scheduler.cli.documents import Document
from bcs_scheduler.cli.errors import NotFound, UsageError
from bcs_scheduler.cli.kinds.objects.extensions import put_namespace
from bcs_scheduler.cli.options import connection_options, examples, pass_session, reporting, validate_option
from bcs_scheduler.cli.session import Session

Command = TypeVar("Command", bound=Callable[..., Any])
NONE = "none"
"""In place of an amount: the setting is removed."""


class Number(click.ParamType):  # type: ignore[type-arg]  # generic only since click 8.3
    """A whole number that is not negative, or `none`."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == NONE or isinstance(value, int):
            return value
        if not str(value).isdecimal():
            self.fail(f"{value!r} is neither a number nor {NONE}", param, ctx)
        return int(value)


def setting_options(command: Command) -> Command:
    """Options for the settings of a namespace."""
    for flags, extra in (
        (("--label", "labels"), {"multiple": True, "metavar": "KEY=VALUE", "help": "A label. May be repeated."}),
        (
            ("--priority-class", "classes"),
            {
                "multiple": True,
                "metavar": "CLASS",
                "help": "A priority class that may be used beyond the greatest priority; CLASS- removes it. "
                "May be repeated.",
            },
        ),
        (("--max-priority",), {"type": Number(), "metavar": "N", "help": "Greatest priority of new work."}),
        (
            ("--queue",),
            {"metavar": "QUEUE", "shell_complete": queue_names, "help": "Queue of the namespace. Default: default."},
        ),
        (
            ("--object-storage",),
            {
                "metavar": "MB",
                "help": "Quota of the texts of configmaps, secrets, services and other objects, such as 64Mi.",
            },
        ),
        (("--objects",), {"type": Number(), "metavar": "N", "help": "Quota of stored objects of all kinds."}),
        (("--taskgroups",), {"type": Number(), "metavar": "N", "help": "Quota of taskgroups."}),
        (("--disk",), {"metavar": "MB", "help": "Quota of disk space, such as 4096 or 64Gi."}),
        (("--mem",), {"metavar": "MB", "help": "Quota of memory, such as 4096 or 64Gi."}),
        (("--cpus",), {"metavar": "CORES", "help": "Quota of CPU cores, such as 20 or 500m."}),
    ):
        command = click.option(*flags, **extra)(command)
    return command


dry_run_option = click.option("--dry-run", is_flag=True, help="Let the server check the object, and change nothing.")


@click.command(
    "namespace",
    epilog=examples(
        "bcs create namespace team-a --cpus 20 --mem 64Gi",
        "bcs create namespace team-a --queue batch --max-priority 100",
    ),
)
@click.argument("name")
@setting_options
@click.option("--replace", is_flag=True, help="Replace all settings of an existing namespace.")
@generate.dry_run_option
@validate_option
@connection_options
@pass_session
@reporting
def create_namespace(session: Session, /, name: str, replace: bool, dry_run: bool, **given: Any) -> None:
    """Create namespace NAME with labels, a quota, a queue and a greatest priority.

    A namespace without settings needs no creation: it exists as soon as an object is created in it.
    """
    body = _changed({"kind": "namespace", "metadata": {"name": name}, "spec": {}}, **given)
    created(session, body, dry_run=dry_run, replace=replace)


@click.command(
    "namespace",
    epilog=examples(
        "bcs set namespace team-a --max-priority 100",
        "bcs set namespace team-a --priority-class online --cpus none",
    ),
)
@click.argument("name")
@setting_options
@dry_run_option
@connection_options
@pass_session
@reporting
def set_namespace(session: Session, /, name: str, dry_run: bool, **given: Any) -> None:
    """Change settings of namespace NAME. Settings that are not given remain; `none` removes one.

    A namespace without settings gets them.
    """
    if not any(value not in (None, ()) for value in given.values()):
        raise UsageError("give a setting, such as --max-priority or --cpus")
    body: Json = {"kind": "namespace", "metadata": {"name": name}, "spec": {}}
    recorded = False
    try:
        found = session.client.object("namespace", "", name)
        recorded = found["status"]["recorded"]
    except NotFound:
        pass
    if recorded:
        head = {key: found["metadata"][key] for key in ("name", "labels", "annotations", "resourceVersion")}
        body = {**body, "metadata": head, "spec": found["spec"]}
    put_namespace(session, Document("command line", _changed(body, **given)), not recorded, dry_run)


def _changed(body: Json, labels: Iterable[str], classes: Iterable[str], **given: Any) -> Json:
    """The document with the settings that are given. Raises UsageError."""
    head, spec = dict(body["metadata"]), dict(body["spec"])
    quota = dict(spec.get("quota") or {})
    kept = dict(head.get("labels") or {})
    for label in labels:
        key, equals, value = label.partition("=")
        if not equals or not key:
            raise UsageError(f"--label takes KEY=VALUE, not {label!r}")
        kept[key] = value
    allowed = dict.fromkeys(spec.get("priorityClasses") or ())
    for name in classes:
        if name.endswith("-"):
            allowed.pop(name[:-1], None)
        else:
            allowed[name] = None
    fields = {
        "queue": (spec, "queue"),
        "max_priority": (spec, "maxPriority"),
        "object_storage": (quota, "objectStorage"),
    }
    for option, value in given.items():
        place, key = fields.get(option, (quota, option))
        if value == NONE:
            place.pop(key, None)
        elif value is not None:
            place[key] = value
    spec.pop("priorityClasses", None)
    listed = {"priorityClasses": list(allowed)} if allowed else {}
    return {**body, "metadata": {**head, "labels": kept}, "spec": {**spec, "quota": quota, **listed}}
