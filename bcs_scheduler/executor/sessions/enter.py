"""`bcs-executor.pyz session`: becomes a program of a user, in the context of a task.

A variable holds the request, because all users of the machine can read command lines.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import resource
import signal
import struct
import sys
import termios
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from .contexts import Context, ContextError, SessionRequest, ask, ask_attached, session_request

VARIABLE = "BCS_SESSION"
"""Base64 of the JSON document that SessionRequest describes."""
SIZE = "BCS_SESSION_SIZE"
"""Rows and columns of the terminal, with a space between. The agent sets no size before the program starts, and the
JSON document has no field for the size because earlier executors refuse unknown fields."""
REFUSED, NOT_EXECUTABLE, NO_PROGRAM = 125, 126, 127
"""Exit codes, as those of shells and of `docker exec`."""
RESET = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ)
"""Signals whose default actions programs rely on. Python ignores the last two."""


def main() -> int:
    _set_size(os.environ.pop(SIZE, ""))
    try:
        document = json.loads(base64.b64decode(os.environ.pop(VARIABLE, "")))
        if not isinstance(document, dict):
            raise ValueError
    except ValueError:
        return _fail(REFUSED, f"{VARIABLE} has no session: only the agent starts this program")
    try:
        wanted = session_request(document)
        if wanted.attach:
            _attach(document, wanted)
        context = ask(Path.cwd(), document)
        if wanted.port:
            from .forward import forward

            return forward(context.hosts, wanted.port)
        if context.container:
            from .container import attend

            return attend(context, wanted)
        _become(context, wanted)
    except ContextError as error:
        return _fail(REFUSED, str(error))


def _set_size(size: str) -> None:
    """Gives the terminal on standard input its size, so that the program finds the size at its start."""
    with contextlib.suppress(ValueError, OSError, struct.error):
        rows, columns = (int(number) for number in size.split())
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _attach(document: dict[str, Any], wanted: SessionRequest) -> NoReturn:
    """Raises ContextError. The executor takes the end of the connection for the end of this process: until then it
    stays, and with it the agent's container, so that the exit code is not lost."""
    from .follow import follow
    from .typed import pass_input

    with ask_attached(Path.cwd(), document) as (context, rings, given):
        # The answer of the task to its first input must not come before the begin of the output.
        begun: Callable[[], object] = bool
        if given is not None:
            begun = partial(pass_input, given)
        elif wanted.stdin:
            from .container import pass_input_to

            begun = partial(pass_input_to, context, wanted)
        os._exit(follow(context, rings, begun, whole=wanted.logs))


def _become(context: Context, wanted: SessionRequest) -> NoReturn:
    """Raises ContextError if the context cannot be set up; ends the process if the program cannot be started."""
    try:
        _enter(context)
        os.chdir(context.directory)
    except (OSError, ValueError) as error:
        raise ContextError(f"the environment of the task: {error}") from None
    environment = {**context.environment, **wanted.env}
    try:
        os.execvpe(wanted.argv[0], wanted.argv, environment)
    except FileNotFoundError:
        sys.exit(_fail(NO_PROGRAM, f"{wanted.argv[0]}: no such program"))
    except OSError as error:
        sys.exit(_fail(NOT_EXECUTABLE, f"{wanted.argv[0]}: {error.strerror or error}"))


def _enter(context: Context) -> None:
    for received in RESET:
        signal.signal(received, signal.SIG_DFL)
    if context.control_group:
        with open(os.path.join(context.control_group, "cgroup.procs"), "w") as members:
            members.write("0")
    for number, soft, hard in context.rlimits:
        resource.setrlimit(number, (soft, hard))
    if not context.change_user:
        return
    with contextlib.suppress(OSError):
        if os.isatty(0):
            os.fchown(0, context.uid, -1)  # the terminal belongs to its user, as with login(1)
    os.setgroups(context.groups)
    os.setgid(context.gid)
    os.setuid(context.uid)


def _fail(code: int, message: str) -> int:
    with contextlib.suppress(OSError):
        sys.stderr.write(f"bcs: {message}\n")
        sys.stderr.flush()
    return code
