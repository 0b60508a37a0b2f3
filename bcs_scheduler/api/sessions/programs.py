"""Begins a session at the agent, for each executor.

Our executor has the context of its tasks, so the agent starts its file once more, which asks it (executor/sessions).
Tasks of the executor of the cluster manager are containers of their own: the agent starts the program in them, with
their variables, folder and user.

`bcs cp` runs tar and a line of the shell, whose streams carry a file or folder. A folder is a tar archive. A copy from
a task begins with one byte, d for a folder or f for a file, and continues as an archive; exit code 3 says that there is
nothing at the path. A relative path begins in the directory of the task.
"""

from __future__ import annotations

import base64
import shlex
from collections.abc import AsyncIterator
from typing import Protocol

import msgspec

from bcs_scheduler.agentapi.connections import Connection
from bcs_scheduler.agentapi.following import Following, follow
from bcs_scheduler.agentapi.sandbox import Folder
from bcs_scheduler.agentapi.sessions import Agent, Piece, Program, Session, SessionError, attach_to, launch
from bcs_scheduler.agentapi.terminal_sizes import Size
from bcs_scheduler.api.http.errors import ApiError
from bcs_scheduler.api.sessions.frames import CopyRequest, SessionRequest
from bcs_scheduler.core.interface.effects import Reason
from bcs_scheduler.net.addresses import HostPort
from store.records import Task, TaskGroup
from store.records.definition import Container

FOLDER_IN = """\
case "$1" in */) d="$1$2";; *) if test -d "$1"; then d="$1/$2"; else d="$1"; fi;; esac
mkdir -p "$d" && exec tar -xmf - -C "$d"
"""
FILE_IN = """\
case "$1" in */) mkdir -p "$1" && d="$1$2";; *) if test -d "$1"; then d="$1/$2"; else d="$1"; fi;; esac
t="$d.$$.part"; trap 'rm -f "$t"' EXIT; trap 'exit 1' HUP TERM INT
cat > "$t" || exit 1
if test -n "$4" && test "$(($(wc -c < "$t")))" != "$4"; then echo "the transfer was interrupted" >&2; exit 1; fi
chmod "$3" "$t" && mv -f "$t" "$d"
"""
OUT = """\
if test -d "$1"; then printf d; exec tar -cf - -C "$1" .; fi
test -e "$1" || { echo "$1: no such file or folder" >&2; exit 3; }
test -f "$1" || { echo "$1: neither a file nor a folder" >&2; exit 1; }
printf f; exec tar -chf - -C "$(dirname "$1")" "$(basename "$1")"
"""


def program_of(wanted: CopyRequest) -> list[str]:
    """The argument vector."""
    if wanted.action == "fetch":
        return ["sh", "-c", OUT, "sh", wanted.path]
    if wanted.action == "putFolder":
        return ["sh", "-c", FOLDER_IN, "sh", wanted.path, wanted.name]
    size = "" if wanted.size is None else str(wanted.size)
    return ["sh", "-c", FILE_IN, "sh", wanted.path, wanted.name, f"{wanted.mode:o}", size]


FILE, SOCKET = "bcs-executor.pyz", ".bcs-sessions"
"""Names in the sandbox of our executor. An executor of an earlier version has no socket."""
TOO_OLD = "bcs: the executor of this taskgroup does not offer sessions; restart the taskgroup with this version"


class Opener(Protocol):
    """Begins the requested session. Raises ApiError, SessionError."""

    async def __call__(self, wanted: SessionRequest) -> Session | Attachment | Connection | Following: ...


class Attachment:
    """A session with the process that follows a task of our executor. This process exits by itself with the exit code
    of the task; a signal ends it with the container of the executor."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def output(self) -> AsyncIterator[Piece]:
        return self._session.output()

    async def send(self, data: bytes) -> None:
        await self._session.send(data)

    async def resize(self, size: Size) -> None:
        await self._session.resize(size)

    async def status(self) -> int | None:
        """Raises SessionError if the code of the task is not known."""
        code = await self._session.status()
        if code is not None and code < 0:
            raise SessionError(
                "the executor ended before the exit code of the task was known; the output may be cut off"
            )
        return code

    async def deliver(self) -> None:
        """Returns when the task has got all input. The process passes it on, and ends at SIGTERM when no more is left;
        that of an earlier version ends at once."""
        await self._session.deliver()
        await self._session.terminate()

    async def close(self) -> None:
        await self._session.close()


class Opening:
    """Begins sessions with one task. `definition`: that of the task. `python`: name of the interpreter on agents."""

    def __init__(
        self, address: HostPort, framework: str, group: TaskGroup, task: Task, definition: Container, python: str
    ) -> None:
        self._agent = Agent(address)
        self._definition = definition
        self._framework, self._group, self._task, self._python = framework, group, task, python

    async def run(self, wanted: SessionRequest) -> Session:
        if not wanted.command or not wanted.command[0]:
            raise ApiError(Reason.INVALID, "command is missing")
        session = await self._launch(wanted)
        if not wanted.stdin:
            await session.send(b"")  # otherwise programs that read their input would wait without end
        return session

    async def connect(self, wanted: SessionRequest) -> Session | Connection:
        if not 0 < wanted.port < 65536:
            raise ApiError(Reason.INVALID, "port must be a number from 1 to 65535")
        if self._group.executor == "bcs":
            return await self._launch(SessionRequest(port=wanted.port, stdin=True))
        known = {port.host_port or port.container_port for port in self._task.ports}
        if wanted.port not in known:
            listed = ", ".join(map(str, sorted(known))) or "none"
            raise ApiError(Reason.INVALID, f"port {wanted.port} is not a port of the task ({listed})")
        return await Connection.open(HostPort(self._task.container_ip or self._group.agent_ip, wanted.port))

    async def copy(self, wanted: SessionRequest) -> Session:
        """A file or folder, in or out."""
        if wanted.copy is None:
            raise ApiError(Reason.INVALID, "copy is missing")
        stdin = wanted.copy.action != "fetch"
        return await self.run(SessionRequest(command=program_of(wanted.copy), stdin=stdin))

    async def attach(self, wanted: SessionRequest) -> Session | Attachment | Following:
        """The output of the task from now on, with `logs` also the output before, with `stdin` also its input."""
        self._check_input(wanted)
        if self._group.executor == "bcs":
            request = SessionRequest(stdin=wanted.stdin, tty=wanted.tty, logs=wanted.logs)
            session = await self._launch(request, attach=True)
            if not wanted.stdin:
                await session.send(b"")
            return Attachment(session)
        container = await self._agent.container_of(self._framework, self._group.id, self._task.id)
        if wanted.stdin:
            if wanted.logs:
                words = "the executor mesos does not keep the order of the output before and after: attach without logs"
                raise ApiError(Reason.INVALID, words)
            return await attach_to(self._agent, container, _size(wanted))
        folder = Folder(str(self._agent.address), self._framework, self._group.id, f"tasks/{self._task.id}")
        return await follow(self._agent, container, folder, whole=wanted.logs)

    def _check_input(self, wanted: SessionRequest) -> None:
        """Raises ApiError if the task has not the input or the terminal that the user wants."""
        name, defined = self._task.name or self._task.id, self._definition
        if wanted.tty is not None and not wanted.stdin:
            raise ApiError(Reason.INVALID, "tty needs stdin")
        if wanted.stdin and not defined.stdin:
            words = f"task {name} was started without an input (stdin: true in its document)"
            raise ApiError(Reason.CONFLICT, f"{words}; attach without -i and -t shows its output")
        if wanted.tty is not None and not defined.tty:
            words = f"task {name} was started without a terminal (tty: true in its document)"
            raise ApiError(Reason.CONFLICT, f"{words}; attach with -i and without -t")

    async def _launch(self, wanted: SessionRequest, *, attach: bool = False) -> Session:
        container = await self._agent.container_of(self._framework, self._group.id, self._task.id)
        program = self._ours(wanted, attach) if self._group.executor == "bcs" else _theirs(wanted)
        return await launch(self._agent, container, program)

    def _ours(self, wanted: SessionRequest, attach: bool) -> Program:
        wish = {
            "task": self._task.id,
            "argv": wanted.command,
            "port": wanted.port,
            **({"attach": True} if attach else {}),  # executors of earlier versions refuse this field and the next two
            **({"stdin": True} if attach and wanted.stdin else {}),
            **({"logs": True} if attach and wanted.logs else {}),
            "env": wanted.env,
            "user": wanted.user,
            "working_dir": wanted.working_dir,
            "privileged": wanted.privileged,
            "tty": wanted.tty is not None,
        }
        line = (
            f"test -S {SOCKET} || {{ echo {shlex.quote(TOO_OLD)} >&2; exit 125; }}; "
            f"exec {shlex.quote(self._python)} -I -S -B {FILE} session"
        )
        env = {"BCS_SESSION": base64.b64encode(msgspec.json.encode(wish)).decode("ascii")}
        if wanted.tty is not None:
            env["BCS_SESSION_SIZE"] = f"{wanted.tty.rows} {wanted.tty.columns}"
        return Program(("/bin/sh", "-c", line), env, size=_size(wanted), sets_size=True)


def _theirs(wanted: SessionRequest) -> Program:
    if wanted.privileged:
        raise ApiError(Reason.INVALID, "privileged is possible only in containers of the executor bcs")
    argv = wanted.command
    if wanted.working_dir:
        argv = ["/bin/sh", "-c", 'cd "$0" && exec "$@"', wanted.working_dir, *argv]
    return Program(argv, wanted.env, wanted.user, _size(wanted))


def _size(wanted: SessionRequest) -> Size | None:
    return Size(wanted.tty.rows, wanted.tty.columns) if wanted.tty is not None else None
