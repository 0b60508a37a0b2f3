"""`bcs follow`: renders a file from a template and the endpoints of services, for load balancers."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import jinja2

from bcs_scheduler.cli.client.client import Client
from bcs_scheduler.cli.client.streamed import StreamReader
from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.commands.arguments import service_names
from bcs_scheduler.cli.errors import CliError, UsageError
from bcs_scheduler.cli.options import connection_options, examples, pass_session
from bcs_scheduler.cli.session import Session
from store.keys import nanoseconds_of, object_key

COMMAND_SECONDS = 60.0
RELOAD_AGAIN = 5.0
"""Seconds before a failed reload is repeated."""
_ADDRESS = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}")
"""A plain address. No other text that a taskgroup reports may become part of a configuration file."""


class Endpoints(StreamReader):
    """Follows the endpoints of a namespace in a thread. While the scheduler is unreachable, the last known endpoints
    remain."""

    def __init__(self, client: Client, namespace: str, names: frozenset[str]) -> None:
        """`names`: names of services; empty = all services of the namespace."""
        super().__init__("follow", "the stream of endpoints")
        self._client, self._namespace, self._names = client, namespace, names
        self._found: dict[str, Json] = {}
        self._start()

    def take(self, timeout: float | None) -> list[Json] | None:
        """All endpoints, ordered by name, after the next change; None if nothing changed in `timeout` seconds. Raises
        the error that ended the thread."""
        with self._condition:
            self._condition.wait_for(lambda: self._changed or self._failure is not None, timeout)
            if self._failure is not None:
                raise self._failure
            if not self._changed:
                return None
            self._changed = False
            return [self._found[name] for name in sorted(self._found)]

    def _read(self) -> None:
        """Reads one stream. It begins with all endpoints, up to the event `synced`."""
        only = next(iter(self._names)) if len(self._names) == 1 else None
        listed: dict[str, Json] | None = {}
        for event, data, _ in self._client.follow_endpoints(self._namespace, only):
            if event == "synced" and listed is not None:
                self._set(listed)
                listed = None
            elif event == "endpoint" and self._wanted(data["metadata"]["name"]):
                self._put(listed, data["metadata"]["name"], data)
            elif event == "deleted" and self._wanted(data["name"]):
                self._put(listed, data["name"], None)

    def _wanted(self, name: str) -> bool:
        return not self._names or name in self._names

    def _put(self, listed: dict[str, Json] | None, name: str, data: Json | None) -> None:
        if listed is not None:
            if data is not None:
                listed[name] = data
            return
        found = {**self._found, name: data} if data is not None else dict(self._found)
        if data is None:
            found.pop(name, None)
        self._set({key: value for key, value in found.items() if value is not None})

    def _set(self, found: dict[str, Json]) -> None:
        with self._condition:
            self._found, self._changed = found, True
            self._condition.notify_all()


class File:
    """The rendered file, its check, and its reload command."""

    def __init__(self, session: Session, output: Path, check: str, reload: str) -> None:
        self._session, self._output, self._check, self._reload = session, output, check, reload
        self._due = False

    def put(self, text: str) -> bool:
        """Replaces the file if it differs and the check accepts it, then reloads it. False if a step failed."""
        try:
            same = self._output.read_text(encoding="utf-8") == text
        except FileNotFoundError:
            same = False
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{self._output}: cannot be read: {error}") from None
        if not same:
            if not self._replace(text):
                return False
            self._due = bool(self._reload)
            self._session.say(f"{self._output} written")
        return self.reload()

    def reload(self) -> bool:
        """Runs the reload command if the file has changed since the last success."""
        if self._due:
            self._due = not self._run(self._reload, "reload")
        return not self._due

    def _replace(self, text: str) -> bool:
        """Replaces the file by a rename, so that readers see a complete file."""
        try:
            handle, name = tempfile.mkstemp(prefix=f".{self._output.name}.", dir=self._output.parent)
            fresh = Path(name)
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    file.write(text)
                os.chmod(fresh, self._output.stat().st_mode & 0o777 if self._output.exists() else 0o644)
                if self._check and not self._run(self._check.replace("{}", shlex.quote(name)), "check"):
                    return False
                os.replace(fresh, self._output)
            finally:
                fresh.unlink(missing_ok=True)
        except OSError as error:
            raise UsageError(f"{self._output}: cannot be written: {error}") from None
        return True

    def _run(self, command: str, what: str) -> bool:
        try:
            done = subprocess.run(
                shlex.split(command), capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            self._session.err.print(f"{what} failed: {error}")
            return False
        if done.returncode:
            words = (done.stderr or done.stdout).strip()[-2000:]
            self._session.err.print(f"{what} failed with {done.returncode}: {words}")
        return done.returncode == 0


@click.command(
    epilog=examples(
        "bcs follow shop --template haproxy.j2 --output haproxy.cfg \\",
        "    --check 'haproxy -c -f {}' --reload 'systemctl reload haproxy'",
    )
)
@click.argument("services", nargs=-1, metavar="[SERVICE]...", shell_complete=service_names)
@click.option(
    "--template",
    "source",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Jinja2 template of the file.",
)
@click.option(
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write.",
)
@click.option(
    "--check",
    default="",
    metavar="COMMAND",
    help="Command that checks the new file, named {}; a failure keeps the old file.",
)
@click.option("--reload", default="", metavar="COMMAND", help="Command that runs after each change of the file.")
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="A variable of the template. May be repeated."
)
@click.option(
    "--pause",
    type=click.FloatRange(0, 3600),
    default=0.2,
    show_default=True,
    help="Minimum number of seconds between two changes.",
)
@click.option("--once", is_flag=True, help="Write the file once, and exit.")
@connection_options
@pass_session
def follow(
    session: Session,
    services: tuple[str, ...],
    source: Path,
    output: Path,
    check: str,
    reload: str,
    settings: tuple[str, ...],
    pause: float,
    once: bool,
) -> None:
    """Render a file from a template and the endpoints of services, whenever the endpoints change.

    Without SERVICE, all services of the namespace are used. The file does not change while the scheduler is
    unreachable. The template gets the variable `services`, which docs/operations.md describes.
    """
    template, variables = _template(source), _variables(settings)
    endpoints, file = (
        Endpoints(session.client, session.namespace, frozenset(services)),
        File(session, output, check, reload),
    )
    try:
        well, missing = True, frozenset[str]()
        while True:
            found = endpoints.take(None if well else RELOAD_AGAIN)
            if found is not None:
                missing = _warn_missing(session, services, found, missing)
            well = file.put(_rendered(template, variables, found)) if found is not None else file.reload()
            if once:
                break
            time.sleep(pause)
    finally:
        endpoints.close()
    if not well:
        raise CliError(f"{output}: the last check or reload failed")


def _warn_missing(
    session: Session, services: Iterable[str], found: list[Json], known: frozenset[str]
) -> frozenset[str]:
    """Names of requested services that do not exist. Prints a message for those that are not yet `known`."""
    missing = frozenset(services) - {endpoint["metadata"]["name"] for endpoint in found}
    for name in sorted(missing - known):
        session.err.print(f"service {object_key(session.namespace, name)} does not exist; the template does not get it")
    return missing


def _template(source: Path) -> jinja2.Template:
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    try:
        return environment.from_string(source.read_text(encoding="utf-8"))
    except jinja2.TemplateSyntaxError as error:
        raise UsageError(f"{source}: line {error.lineno}: {error.message}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{source}: cannot be read: {error}") from None


def _variables(settings: Iterable[str]) -> dict[str, str]:
    found = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"--set takes NAME=VALUE, not {setting!r}")
        found[name] = value
    return found


def _rendered(template: jinja2.Template, variables: dict[str, str], found: list[Json]) -> str:
    try:
        return template.render({**variables, "services": [view(endpoint) for endpoint in found]})
    except jinja2.TemplateError as error:
        raise UsageError(f"the template failed: {error}") from None


def view(endpoint: Json) -> dict[str, Any]:
    """A service in the form for templates: its ports, each with its servers."""
    ports = [
        {
            "name": port["name"],
            "protocol": port["protocol"],
            "servicePort": port.get("servicePort", 0),
            "domainName": port.get("domainName", ""),
            "path": port.get("path", ""),
            "servers": _servers(endpoint, port["name"]),
        }
        for port in endpoint["ports"]
    ]
    head = endpoint["metadata"]
    return {
        "name": head["name"],
        "namespace": head["namespace"],
        "labels": head.get("labels") or {},
        "version": endpoint["resourceVersion"],
        "ready": endpoint["ready"],
        "ports": ports,
    }


def _servers(endpoint: Json, port: str) -> list[dict[str, Any]]:
    """Servers of a port. Their names are unique, as load balancers require."""
    found: list[dict[str, Any]] = []
    names: set[str] = set()
    for member in endpoint["eps"]:
        address = next((p["address"] for p in member["ports"] if p["name"] == port), "")
        if not _ADDRESS.fullmatch(address):
            continue
        host, _, number = address.rpartition(":")
        name = member["targetRef"]["name"]
        if name in names:
            name = f"{name}-{nanoseconds_of(member['targetRef']['id'])}"
        names.add(name)
        found.append(
            {
                "name": name,
                "taskgroup": member["targetRef"]["id"],
                "application": member["application"],
                "address": address,
                "host": host,
                "port": int(number),
                "weight": member["weight"],
                "ready": member["ready"],
                "reason": member["reason"],
            }
        )
    return found
