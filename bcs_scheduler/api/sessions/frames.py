"""Messages of a session over its WebSocket (docs/api.md, section Sessions).

The first message of the client is text, the JSON document `SessionRequest`. All others are binary: one byte for the
channel, then its content. The last message of the server is on channel STATUS.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

STDIN, STDOUT, STDERR, STATUS, RESIZE, END = 0, 1, 2, 3, 4, 255
"""Channels. END: the content is one byte, the channel that has ended; STDIN is the only one."""
LARGEST = 256 * 1024
"""Bytes of a message, either way."""
PIECE = 32 * 1024
"""Bytes of input in one message, as `bcs` sends them."""
PROTOCOL = "v1.session.bcs"
"""Name of the subprotocol (RFC 6455, section 1.9)."""


class Terminal(msgspec.Struct, forbid_unknown_fields=True):
    """Size in characters."""

    rows: int = 24
    columns: int = 80


class CopyRequest(msgspec.Struct, forbid_unknown_fields=True):
    """`fetch`: of the file or folder at `path`. `putFile`, `putFolder`: to `path`, or into it if it is a folder, under
    `name`. `mode` are the permissions of the file; `size` its bytes, None = not known."""

    action: Literal["fetch", "putFile", "putFolder"]
    path: str
    name: str = ""
    mode: Annotated[int, msgspec.Meta(ge=0, le=0o777)] = 0o644
    size: Annotated[int, msgspec.Meta(ge=0)] | None = None


class SessionRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Fields by kind of session. `exec`: `command`, and all fields about a program. `portforward`: `port`. `attach`:
    `stdin`, `tty`, and `logs` (begin with the output so far). `copy`: `copy`."""

    command: list[str] = []
    port: int = 0
    copy: CopyRequest | None = None
    tty: Terminal | None = None
    stdin: bool = False
    logs: bool = False
    env: dict[str, str] = {}
    user: str = ""
    working_dir: str = msgspec.field(name="workingDir", default="")
    privileged: bool = False


class Outcome(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The last message. `exitCode` is missing if the program did not end by itself; then `reason` is a code of the
    table of errors, or `stepped_down`, `revoked`, `idle`."""

    exit_code: int | None = msgspec.field(name="exitCode", default=None)
    reason: str = ""
    message: str = ""


def framed(channel: int, content: bytes) -> bytes:
    return bytes((channel,)) + content


def status_frame(outcome: Outcome) -> bytes:
    return framed(STATUS, msgspec.json.encode(outcome))


def read_session_request(text: str) -> SessionRequest:
    """Raises ValueError with words for the user."""
    try:
        wanted = msgspec.json.decode(text, type=SessionRequest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"the first message is not the document of a session: {error}") from None
    words: list[Any] = [*wanted.command, *wanted.env, *wanted.env.values(), wanted.user, wanted.working_dir]
    words += [wanted.copy.path, wanted.copy.name] if wanted.copy is not None else []
    if any("\0" in word for word in words):
        raise ValueError("the document of the session contains a NUL")
    if any(not name or "=" in name for name in wanted.env):
        raise ValueError("env contains a name that cannot be the name of a variable")
    if wanted.tty is not None and not (0 < wanted.tty.rows < 10_000 and 0 < wanted.tty.columns < 10_000):
        raise ValueError("tty has an invalid size")
    return wanted


def read_size(content: bytes) -> Terminal | None:
    """Reads the size of a terminal; None for content that is no size."""
    try:
        size = msgspec.json.decode(content, type=Terminal)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return size if 0 < size.rows < 10_000 and 0 < size.columns < 10_000 else None
