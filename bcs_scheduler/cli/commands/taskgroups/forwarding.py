"""`bcs port-forward`: local ports that lead to ports of a taskgroup."""

from __future__ import annotations

import contextlib
import re
import selectors
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import click

from bcs_scheduler.cli.client.lookup import find_target, find_taskgroup
from bcs_scheduler.cli.client.session_line import PIECE, STDERR, SessionLine
from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.commands.arguments import forwarded_names
from bcs_scheduler.cli.errors import CliError, NotFound, UsageError
from bcs_scheduler.cli.options import connection_options, examples, pass_session
from bcs_scheduler.cli.session import Session

MOST = 50
"""Connections at a time; further ones wait."""
BACKLOG = 64
PATIENCE = 30.0
"""Seconds that are waited for a leader."""


SERVICE_WORDS = ("service", "services", "svc")


class Wanted(NamedTuple):
    """`local` 0 = a free port, None = the number of the remote one. `remote`: a number, or the name of a port."""

    local: int | None
    remote: str


class Ports(NamedTuple):
    """`local` 0 = a free one. `task`: name, number or id of the task; empty = the only one. `name`: of the port; may be
    empty."""

    local: int
    remote: int
    task: str = ""
    name: str = ""


@click.command(
    "port-forward",
    epilog=examples(
        "bcs port-forward web-0 8080:80",
        "bcs port-forward web http",
        "bcs port-forward svc/web 8080:http",
        "bcs port-forward web-0 :31000 9000",
        "curl 127.0.0.1:8080",
    ),
)
@click.argument("target", metavar="TASKGROUP|WORKLOAD|svc/SERVICE", shell_complete=forwarded_names)
@click.argument("ports", nargs=-1, required=True, metavar="[LOCAL]:REMOTE...")
@click.option(
    "--task", default="", metavar="TASK", help="Name or number of the task; needed for a number if there are several."
)
@click.option("--address", default="127.0.0.1", metavar="ADDRESS", help="Local address. Default: 127.0.0.1.")
@connection_options
@pass_session
def port_forward(session: Session, target: str, ports: tuple[str, ...], task: str, address: str) -> None:
    """Lead connections to local ports to ports of a taskgroup, until Ctrl-C.

    REMOTE is the number or the name of a port; alone it takes the same port here, and :REMOTE takes a free one. Of a
    workload, the first running taskgroup is taken, of a service the first ready one. Numbers for a service are its
    service ports. With Mesos's own executor, REMOTE must be one of the ports of the task.
    """
    wanted = [parse(text) for text in ports]
    head, slash, name = target.partition("/")
    if slash and head.lower() in SERVICE_WORDS:
        group, pairs = _of_service(session, name, wanted, task)
    else:
        group = _running(session, target)
        pairs = [_pair(group, one, task) for one in wanted]
    forwarder = Forwarder(session, str(group["ID"]))
    with forwarder.listening(address, pairs) as listeners, _until_ended():
        for listener, pair in zip(listeners, pairs, strict=True):
            host, port = listener.getsockname()[:2]
            named = f" ({pair.name})" if pair.name else ""
            session.say(f"{host}:{port} leads to port {pair.remote}{named} of {group['Name']}")
        session.out.file.flush()
        with contextlib.suppress(KeyboardInterrupt):
            forwarder.serve(listeners, pairs)


def parse(text: str) -> Wanted:
    """Raises UsageError."""
    found = re.fullmatch(r"(?:(\d*):)?([\w.-]+)", text)
    if found is None:
        raise UsageError(f"{text!r} is not LOCAL:REMOTE, :REMOTE or REMOTE, such as 8080:80 or 8080:http")
    wanted = Wanted(None if found[1] is None else int(found[1] or 0), found[2])
    if (wanted.remote.isdecimal() and not 0 < int(wanted.remote) < 65536) or (wanted.local or 0) > 65535:
        raise UsageError(f"{text!r}: ports are numbers from 1 to 65535")
    return wanted


def _running(session: Session, target: str) -> Json:
    found = find_target(session.client, session.namespace, target)
    running = [group for group in found.taskgroups if group["Status"] == "Running"]
    if not running:
        raise NotFound(f"{found.title} has no running taskgroup")
    return running[0]


def _of_service(session: Session, name: str, wanted: list[Wanted], task: str) -> tuple[Json, list[Ports]]:
    """A ready taskgroup of a service, and its ports. Raises NotFound, and UsageError for a port that the service does
    not have."""
    endpoint = session.client.endpoint(session.namespace, name)
    ready = [member["targetRef"]["id"] for member in endpoint["eps"] if member["ready"]]
    if not ready:
        raise NotFound(f"service {name} has no ready taskgroup")
    group = find_taskgroup(session.client, session.namespace, ready[0])
    numbers = {str(port["name"]): int(port.get("servicePort") or 0) for port in endpoint["ports"]}
    names = {str(number): known for known, number in numbers.items() if number}
    pairs = []
    for one in wanted:
        known = names.get(one.remote, one.remote)
        if known not in numbers:
            shown = ", ".join(f"{each} ({number})" if number else each for each, number in numbers.items())
            raise UsageError(f"service {name} has no port {one.remote}; known: {shown or 'none'}")
        local = one.local if one.local is not None else numbers[known] or None
        pairs.append(_pair(group, Wanted(local, known), task))
    return group, pairs


def _pair(group: Json, wanted: Wanted, task: str) -> Ports:
    """Raises UsageError for a name that no port of the taskgroup, or of its task `task`, has."""
    if wanted.remote.isdecimal():
        remote = int(wanted.remote)
        return Ports(remote if wanted.local is None else wanted.local, remote, task)
    # Our executor connects from within the network of the task, that of Mesos from outside.
    keys = ("ContainerPort", "HostPort") if group.get("Executor") == "bcs" else ("HostPort", "ContainerPort")
    names: list[str] = []
    for number, one in enumerate(group.get("Taskgroup") or ()):
        if task not in ("", one.get("Name"), one["ID"], str(number)):
            continue
        for port in one.get("PortMappings") or ():
            remote = int(port.get(keys[0]) or port.get(keys[1]) or 0)
            if port.get("Name") == wanted.remote and remote:
                return Ports(remote if wanted.local is None else wanted.local, remote, one["ID"], wanted.remote)
            names.append(str(port.get("Name") or remote))
    raise UsageError(f"{group['Name']} has no port {wanted.remote}; known: {', '.join(names) or 'none'}")


class Forwarder:
    """Each connection has a session, a client and two threads of its own."""

    def __init__(self, session: Session, taskgroup: str) -> None:
        self._session, self._taskgroup = session, taskgroup
        self._room = threading.BoundedSemaphore(MOST)

    @contextmanager
    def listening(self, address: str, wanted: list[Ports]) -> Iterator[list[socket.socket]]:
        """Raises CliError if a port is taken."""
        with contextlib.ExitStack() as stack:
            listeners = []
            for pair in wanted:
                family = socket.AF_INET6 if ":" in address else socket.AF_INET
                listener = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    listener.bind((address, pair.local))
                except OSError as error:
                    reason = (error.strerror or str(error)).lower()
                    raise CliError(f"cannot listen on {address}:{pair.local}: {reason}") from None
                listener.listen(BACKLOG)
                listeners.append(listener)
            yield listeners

    def serve(self, listeners: list[socket.socket], wanted: list[Ports]) -> None:
        with selectors.DefaultSelector() as selector:
            for listener, pair in zip(listeners, wanted, strict=True):
                selector.register(listener, selectors.EVENT_READ, pair)
            while True:
                for key, _ in selector.select():
                    assert isinstance(key.fileobj, socket.socket)
                    connection, _peer = key.fileobj.accept()
                    self._room.acquire()
                    threading.Thread(target=self._serve, args=(connection, key.data), daemon=True).start()

    def _serve(self, connection: socket.socket, ports: Ports) -> None:
        try:
            # The client may close its connection at any time.
            with contextlib.suppress(OSError), connection, contextlib.closing(self._open(ports)) as line:
                threading.Thread(target=_send, args=(connection, line), daemon=True).start()
                try:
                    for said in line.output():
                        if said.channel == STDERR:
                            self._session.warn(said.data.decode(errors="replace").strip())
                        else:
                            connection.sendall(said.data)
                finally:  # a thread reads from the connection: without this, closing would not end the connection
                    connection.shutdown(socket.SHUT_RDWR)
        except CliError as error:
            self._session.warn(f"port {ports.remote}: {error.message}")
        finally:
            self._room.release()

    def _open(self, ports: Ports) -> SessionLine:
        """A client is for one thread."""
        with contextlib.closing(self._session.new_client(self._session.timeout or PATIENCE)) as client:
            return client.session(
                self._taskgroup, "portforward", {"port": ports.remote, "stdin": True}, task=ports.task
            )


def _send(connection: socket.socket, line: SessionLine) -> None:
    try:
        while data := connection.recv(PIECE):
            if not line.send(data):
                return
        line.end_input()
    except OSError:
        line.close()


def _interrupt(*_: object) -> None:
    """Not by SIGINT: a shell ignores that signal for programs in the background, and their children inherit this."""
    raise KeyboardInterrupt


@contextmanager
def _until_ended() -> Iterator[None]:
    """SIGTERM ends it as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
