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

from bcs_scheduler.cli.client.lookup import find_target
from bcs_scheduler.cli.client.sessions.line import PIECE, STDERR, SessionLine
from bcs_scheduler.cli.commands.completing import target_names
from bcs_scheduler.cli.errors import CliError, NotFound, UsageError
from bcs_scheduler.cli.options import connection_options, examples, pass_session
from bcs_scheduler.cli.session import Session

MOST = 50
"""Connections at a time; further ones wait."""
BACKLOG = 64
PATIENCE = 30.0
"""Seconds that are waited for a leader."""


class Ports(NamedTuple):
    """`local` 0 = a free one."""

    local: int
    remote: int


@click.command(
    "port-forward",
    epilog=examples("bcs port-forward web-0 8080:80", "bcs port-forward web-0 :31000 9000", "curl 127.0.0.1:8080"),
)
@click.argument("target", metavar="TASKGROUP|WORKLOAD", shell_complete=target_names)
@click.argument("ports", nargs=-1, required=True, metavar="[LOCAL]:REMOTE...")
@click.option("--task", default="", metavar="TASK", help="Name or number of the task; needed if there are several.")
@click.option("--address", default="127.0.0.1", metavar="ADDRESS", help="Local address. Default: 127.0.0.1.")
@connection_options
@pass_session
def port_forward(session: Session, target: str, ports: tuple[str, ...], task: str, address: str) -> None:
    """Lead connections to local ports to ports of a taskgroup, until Ctrl-C.

    REMOTE alone takes the same port here, :REMOTE a free one. Of a workload, the first running taskgroup is taken.
    With Mesos's own executor, REMOTE must be one of the ports of the task.
    """
    wanted = [parse(text) for text in ports]
    found = find_target(session.client, session.namespace, target)
    running = [group for group in found.taskgroups if group["Status"] == "Running"]
    if not running:
        raise NotFound(f"{found.title} has no running taskgroup")
    forwarder = Forwarder(session, str(running[0]["ID"]), task)
    with forwarder.listening(address, wanted) as listeners, _until_ended():
        for listener, pair in zip(listeners, wanted, strict=True):
            host, port = listener.getsockname()[:2]
            session.say(f"{host}:{port} leads to port {pair.remote} of {running[0]['Name']}")
        session.out.file.flush()
        with contextlib.suppress(KeyboardInterrupt):
            forwarder.serve(listeners, wanted)


def parse(text: str) -> Ports:
    """Raises UsageError."""
    found = re.fullmatch(r"(?:(\d*):)?(\d+)", text)
    if found is None:
        raise UsageError(f"{text!r} is not LOCAL:REMOTE, :REMOTE or REMOTE, such as 8080:80")
    remote = int(found[2])
    local = remote if found[1] is None else int(found[1] or 0)
    if not (0 < remote < 65536 and local < 65536):
        raise UsageError(f"{text!r}: ports are numbers from 1 to 65535")
    return Ports(local, remote)


class Forwarder:
    """Each connection has a session, a client and two threads of its own."""

    def __init__(self, session: Session, taskgroup: str, task: str) -> None:
        self._session, self._taskgroup, self._task = session, taskgroup, task
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
                selector.register(listener, selectors.EVENT_READ, pair.remote)
            while True:
                for key, _ in selector.select():
                    assert isinstance(key.fileobj, socket.socket)
                    connection, _peer = key.fileobj.accept()
                    self._room.acquire()
                    threading.Thread(target=self._serve, args=(connection, key.data), daemon=True).start()

    def _serve(self, connection: socket.socket, port: int) -> None:
        try:
            # The client may close its connection at any time.
            with contextlib.suppress(OSError), connection, contextlib.closing(self._open(port)) as line:
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
            self._session.warn(f"port {port}: {error.message}")
        finally:
            self._room.release()

    def _open(self, port: int) -> SessionLine:
        """A client is for one thread."""
        with contextlib.closing(self._session.new_client(self._session.timeout or PATIENCE)) as client:
            return client.session(self._taskgroup, "portforward", {"port": port, "stdin": True}, task=self._task)


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
