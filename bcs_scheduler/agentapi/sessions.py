"""Programs beside tasks, with streams: nested container sessions of the agents' operator API.

Verified against Mesos 1.11. LAUNCH_NESTED_CONTAINER_SESSION answers with the output, and the agent destroys the
container when that connection ends. ATTACH_CONTAINER_INPUT carries the input; a piece of no bytes is its end. The agent
attaches nothing to containers that no executor has (standalone ones). WAIT_NESTED_CONTAINER gives the status as
wait(2) does.

The agent does not give a terminal the size in LAUNCH_NESTED_CONTAINER_SESSION; a TTY_INFO record does, when the program
runs (agentapi/terminal_sizes.py), or `SIZE_DELAY` seconds have passed. On a busy machine that is too soon, so a program
that sets the size by itself gets another one only when the program has printed something.

Exception tree:

    SessionError
      AgentAway          the agent does not answer, or breaks off
      SessionRefused     the agent does not start the program, with its words
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from bcs_scheduler.agentapi.terminal_sizes import Size, TerminalSizes
from bcs_scheduler.net import recordio
from bcs_scheduler.net.addresses import HostPort
from bcs_scheduler.tasks import background, running

if TYPE_CHECKING:
    import httpcore  # loaded with the first session

PATIENCE = 10.0
"""Seconds for an answer that a healthy agent sends at once, and for an agent to accept written bytes."""
WAIT = 30.0
"""Seconds after the end of the output in which the agent must know the exit status."""
SIZE_DELAY = 5.0
"""Seconds after which the size of a terminal is sent to a program that has printed nothing."""
LARGEST_ANSWER = LARGEST_RECORD = 16 * 1024 * 1024
"""The most bytes of an answer (the tasks of an agent), and of one record of output (one read from a pipe, some KiB)."""
JSON, RECORDS = "application/json", "application/recordio"


class SessionError(Exception):
    """The message is for users."""


class AgentAway(SessionError):
    pass


class SessionRefused(SessionError):
    pass


class ContainerId(msgspec.Struct, omit_defaults=True):
    value: str
    parent: ContainerId | None = None


class Program(NamedTuple):
    """`size` None: without a terminal, so that output and errors are streams of their own. `sets_size`: the program
    gives its terminal this size by itself."""

    argv: Sequence[str]
    env: Mapping[str, str]
    user: str = ""
    size: Size | None = None
    sets_size: bool = False


class Piece(NamedTuple):
    stream: Literal["STDOUT", "STDERR"]
    data: bytes


class Agent:
    """One agent. All methods raise SessionError."""

    def __init__(self, address: HostPort) -> None:
        self.address = address
        self._url = f"http://{address}/api/v1"

    async def container_of(self, framework: str, executor: str, task: str) -> ContainerId:
        """Where the task runs: a container of its own in that of its executor, or the executor's."""
        answer = _decode(await self._ask({"type": "GET_TASKS"}), _Tasks)
        for found in answer.get_tasks.launched_tasks:
            if (found.framework_id.value, found.task_id.value) == (framework, task):
                for status in reversed(found.statuses):
                    if status.container_status is not None and status.container_status.container_id is not None:
                        container: ContainerId = status.container_status.container_id
                        return container
        raise SessionRefused("the agent does not know the task: the task does not run, or has just ended")

    async def exit_status(self, container: ContainerId, timeout: float | None = WAIT) -> int | None:
        """As wait(2) has it, when the container has ended; None: the agent does not know. `timeout`: seconds to wait,
        None = without end."""
        call = {"type": "WAIT_NESTED_CONTAINER", "wait_nested_container": {"container_id": container}}
        found: int | None = _decode(await self._ask(call, timeout), _Waited).wait_nested_container.exit_status
        return found

    async def _ask(self, call: Mapping[str, Any], timeout: float | None = PATIENCE) -> bytes:
        """The body of a successful answer."""
        async with AsyncExitStack() as stack:
            response = await self._open(stack, call, timeout)
            body = bytearray()
            async for part in _parts(response):
                body += part
                if len(body) > LARGEST_ANSWER:
                    raise AgentAway(f"the answer of agent {self.address} exceeds {LARGEST_ANSWER} bytes")
            return bytes(body)

    async def _open(
        self, stack: AsyncExitStack, call: Mapping[str, Any], timeout: float | None, *, stream: bool = False
    ) -> httpcore.Response:
        headers = {"Content-Type": JSON, "Accept": JSON}
        if stream:
            headers |= {"Accept": RECORDS, "Message-Accept": JSON}
        return await self._sent(stack, headers, msgspec.json.encode(call), timeout)

    async def _sent(
        self, stack: AsyncExitStack, headers: Mapping[str, str], content: Any, timeout: float | None
    ) -> httpcore.Response:
        import httpcore

        pool = await stack.enter_async_context(httpcore.AsyncConnectionPool(max_connections=1, retries=0))
        timeouts = {"connect": PATIENCE, "pool": PATIENCE, "read": timeout, "write": None}
        try:
            response = await stack.enter_async_context(
                pool.stream(
                    "POST",
                    self._url,
                    headers=[("Host", str(self.address)), *headers.items()],
                    content=content,
                    extensions={"timeout": timeouts},
                )
            )
            if response.status != 200:
                words = (await response.aread())[:2000].decode(errors="replace").strip()
                raise SessionRefused(f"agent {self.address} refuses: {words or f'HTTP {response.status}'}")
        except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, OSError) as error:
            reason = str(error) or type(error).__name__
            raise AgentAway(f"agent {self.address} does not answer: {reason}") from None
        return response


class Session:
    """A program that runs. Not for several tasks of an event loop at once, but `output` and `send` may be used side by
    side. `close` in any case: it ends a program that `launch` started."""

    def __init__(self, agent: Agent, container: ContainerId) -> None:
        self._agent, self._container = agent, container
        self._stack = AsyncExitStack()
        self._response: httpcore.Response | None = None
        self._input: asyncio.Queue[bytes | None] = asyncio.Queue(1)
        self._feeding: asyncio.Task[None] | None = None
        self._sizes = TerminalSizes(lambda size: self._put(_control(size)))

    async def output(self) -> AsyncIterator[Piece]:
        """The output until the program has ended. Reads from the agent no faster than the caller takes the pieces."""
        assert self._response is not None
        records = recordio.Decoder(LARGEST_RECORD)
        async for part in _parts(self._response):
            for record in _cut(records, part):
                message = _decode(record, _ProcessIo)
                if message.type == "DATA" and message.data is not None and message.data.type != "STDIN":
                    self._sizes.came(message.data.data)
                    yield Piece(message.data.type, message.data.data)

    async def send(self, data: bytes) -> None:
        """Returns when there is room for more; no bytes end the input. Input after the end of the program is
        dropped."""
        self._sizes.typed(data)
        await self._put(_stdin(data))

    async def resize(self, size: Size) -> None:
        """Returns at once. A size that has not been sent is replaced."""
        self._sizes.resize(size)

    async def status(self) -> int | None:
        """As os.waitstatus_to_exitcode has it: negative is a signal; None: the agent does not know. After the end of
        the output."""
        try:
            found = await self._agent.exit_status(self._container)
        except SessionRefused:
            return None
        return None if found is None else os.waitstatus_to_exitcode(found)

    async def deliver(self) -> None:
        """Ends the input, and returns when the agent has written all of it to the container."""
        await self._put(None)
        if self._feeding is not None:
            await asyncio.wait({self._feeding})

    async def terminate(self) -> None:
        """Sends SIGTERM to the program, and waits for its end. Raises SessionError."""
        wanted = {"container_id": self._container, "signal": signal.SIGTERM}
        await self._agent._ask({"type": "KILL_NESTED_CONTAINER", "kill_nested_container": wanted})
        await self._agent.exit_status(self._container)

    async def close(self) -> None:
        if self._feeding is not None:
            self._feeding.cancel()
            await asyncio.wait({self._feeding})
        await self._sizes.close()
        await self._stack.aclose()

    async def _put(self, record: bytes | None) -> None:
        """Waits while the agent takes nothing; gives up when the input is not read any more."""
        assert self._feeding is not None
        putting = running(self._input.put(record), "session input")
        await asyncio.wait({putting, self._feeding}, return_when=asyncio.FIRST_COMPLETED)
        putting.cancel()

    async def _begin(self, program: Program) -> None:
        terminal = {"container": _terminal(program.size)} if program.size is not None else {}
        launch = {"container_id": self._container, "command": _command(program), **terminal}
        call = {"type": "LAUNCH_NESTED_CONTAINER_SESSION", "launch_nested_container_session": launch}
        self._response = await self._agent._open(self._stack, call, None, stream=True)
        self._feeding = background(self._feed(), "input of a session")
        if program.size is not None:
            if not program.sets_size:
                self._sizes.resize(program.size)
            self._sizes.begin(None if program.sets_size else SIZE_DELAY)

    async def _begin_attached(self, size: Size | None) -> None:
        call = {"type": "ATTACH_CONTAINER_OUTPUT", "attach_container_output": {"container_id": self._container}}
        self._response = await self._agent._open(self._stack, call, None, stream=True)
        self._feeding = background(self._feed(), "input of a session")
        self._sizes.started()
        if size is not None:
            self._sizes.resize(size)
            self._sizes.begin(SIZE_DELAY)

    async def _feed(self) -> None:
        """Ends when the agent does not want any more; a program that has ended reads no input."""
        headers = {"Content-Type": RECORDS, "Message-Content-Type": JSON, "Accept": JSON}
        try:
            async with AsyncExitStack() as stack:
                await self._agent._sent(stack, headers, self._records(), None)
        except SessionError:
            return

    async def _records(self) -> AsyncIterator[bytes]:
        first = {"type": "CONTAINER_ID", "container_id": self._container}
        yield _record({"type": "ATTACH_CONTAINER_INPUT", "attach_container_input": first})
        while True:
            record = await self._input.get()
            if record is None:
                return
            yield record


async def launch(agent: Agent, parent: ContainerId, program: Program) -> Session:
    """Raises SessionError."""
    session = Session(agent, ContainerId(f"bcs-session-{os.urandom(12).hex()}", parent))
    return await _begun(session, session._begin(program))


async def attach_to(agent: Agent, container: ContainerId, size: Size | None) -> Session:
    """The input and output of a running container with a terminal, from now on; the end of the session does not end the
    container. Raises SessionError."""
    session = Session(agent, container)
    return await _begun(session, session._begin_attached(size))


async def _begun(session: Session, work: Awaitable[None]) -> Session:
    try:
        await work
    except BaseException:
        await session.close()
        raise
    return session


# --- the wire -----------------------------------------------------------------------------------------------------


class _Value(msgspec.Struct):
    value: str = ""


class _ContainerStatus(msgspec.Struct):
    container_id: ContainerId | None = None


class _Status(msgspec.Struct):
    container_status: _ContainerStatus | None = None


class _Task(msgspec.Struct):
    task_id: _Value
    framework_id: _Value
    statuses: list[_Status] = []


class _LaunchedTasks(msgspec.Struct):
    launched_tasks: list[_Task] = []


class _Tasks(msgspec.Struct):
    get_tasks: _LaunchedTasks = msgspec.field(default_factory=_LaunchedTasks)


class _Data(msgspec.Struct):
    type: Literal["STDIN", "STDOUT", "STDERR"]
    data: bytes = b""


class _ProcessIo(msgspec.Struct):
    type: str
    data: _Data | None = None


class _WaitedFor(msgspec.Struct):
    exit_status: int | None = None


class _Waited(msgspec.Struct):
    wait_nested_container: _WaitedFor = msgspec.field(default_factory=_WaitedFor)


def _cut(records: recordio.Decoder, part: bytes) -> list[bytes]:
    try:
        return records.feed(part)
    except recordio.FramingError:
        raise AgentAway("the agent's output is invalid") from None


def _decode(data: bytes, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise AgentAway("the answer of the agent is invalid") from None


async def _parts(response: httpcore.Response) -> AsyncIterator[bytes]:
    import httpcore

    try:
        async for part in response.aiter_stream():
            yield part
    except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError) as error:
        raise AgentAway(f"the agent interrupted the connection: {str(error) or type(error).__name__}") from None


def _command(program: Program) -> dict[str, Any]:
    variables = [{"name": name, "type": "VALUE", "value": value} for name, value in program.env.items()]
    command: dict[str, Any] = {
        "shell": False,
        "value": program.argv[0],
        "arguments": list(program.argv),
        "environment": {"variables": variables},
    }
    return {**command, "user": program.user} if program.user else command


def _terminal(size: Size) -> dict[str, Any]:
    return {"type": "MESOS", "tty_info": {"window_size": size._asdict()}}


def _record(call: Mapping[str, Any]) -> bytes:
    return recordio.encode(msgspec.json.encode(call))


def _process_io(message: Mapping[str, Any]) -> bytes:
    io = {"type": "PROCESS_IO", "process_io": message}
    return _record({"type": "ATTACH_CONTAINER_INPUT", "attach_container_input": io})


def _stdin(data: bytes) -> bytes:
    return _process_io({"type": "DATA", "data": {"type": "STDIN", "data": data}})


def _control(size: Size) -> bytes:
    return _process_io(
        {"type": "CONTROL", "control": {"type": "TTY_INFO", "tty_info": {"window_size": size._asdict()}}}
    )
