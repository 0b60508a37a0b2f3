"""Sessions of browsers: a token that was shown once stands behind the key of a session.

The page sends the key in the header Authorization. The key is no cookie, because browsers send the cookies of a host to
every port of the host. The key is a random text; the process keeps only its digest and the digest of the token. The
token is looked up again with every request, so a token that is removed from the file ends its sessions. Sessions are in
memory: another scheduler, and this one after a restart, asks for the token again.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass

SCHEME = "session"
"""Scheme of the header Authorization, in small letters: `Authorization: Session <key>`."""
IDLE, LONGEST = 1_800.0, 43_200.0
"""Seconds after which a session ends: without a request, and at all. An open page makes requests."""
MOST = 1_000
"""Sessions; the one that was not used for the longest time ends first."""


@dataclass(slots=True)
class _Session:
    token: str
    """Digest of the token, as in the file of tokens."""
    began: float
    used: float


class BrowserSessions:
    """All sessions of this process. Any thread may call each method. Times are Unix seconds."""

    def __init__(self, idle: float = IDLE, longest: float = LONGEST, most: int = MOST) -> None:
        self._idle, self._longest, self._most = idle, longest, most
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._lock = threading.Lock()

    def begin(self, token: str, now: float) -> str:
        """Begins a session for the token with this digest, and returns its key."""
        key = secrets.token_urlsafe(32)
        with self._lock:
            self._sessions[_digest(key)] = _Session(token, now, now)
            while len(self._sessions) > self._most:
                self._sessions.popitem(last=False)
        return key

    def token_of(self, key: str, now: float) -> str | None:
        """The digest of the token behind a key; None if the session has ended."""
        name = _digest(key)
        with self._lock:
            session = self._sessions.get(name)
            if session is None:
                return None
            if now - session.used > self._idle or now - session.began > self._longest:
                del self._sessions[name]
                return None
            session.used = now
            self._sessions.move_to_end(name)
            return session.token

    def end(self, key: str) -> None:
        with self._lock:
            self._sessions.pop(_digest(key), None)


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()
