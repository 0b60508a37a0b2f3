"""Sessions of browsers: a token that was shown once stands behind a cookie.

The cookie is a random number; the process keeps only its digest and the digest of the token. The token is looked up
again with every request, so a token that is removed from the file ends its sessions. Sessions are in memory: another
scheduler, and this one after a restart, asks for the token again.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass

COOKIE = "bcs_session"
HEADER = "x-bcs-console"
"""A page of another site cannot send this header without the consent of this server, which gives none."""
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
        """Begins a session for the token with this digest, and returns the value of its cookie."""
        cookie = secrets.token_urlsafe(32)
        with self._lock:
            self._sessions[_digest(cookie)] = _Session(token, now, now)
            while len(self._sessions) > self._most:
                self._sessions.popitem(last=False)
        return cookie

    def token_of(self, cookie: str, now: float) -> str | None:
        """The digest of the token behind a cookie; None if the session has ended."""
        name = _digest(cookie)
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

    def end(self, cookie: str) -> None:
        with self._lock:
            self._sessions.pop(_digest(cookie), None)


def _digest(cookie: str) -> str:
    return hashlib.sha256(cookie.encode("utf-8", "surrogateescape")).hexdigest()
