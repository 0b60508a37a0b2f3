"""Bearer tokens and their holders: the file `api.tokens_file`.

    [[token]]
    name = "ci"
    hash = "sha256:…"                      # of the token; `bcs-scheduler token new` makes both
    role = "operator"                      # viewer, operator, admin
    namespaces = ["shop", "shop-test"]     # or "*": all, and the objects of the cluster
    programs = ["attach", "copy"]          # optional: these sessions only; false = none, and no commands
    groups = ["payments"]                  # optional: for limits and rules of hierarchical queues
    expires = 2027-01-01T00:00:00Z         # optional

An entry with `certificate` in place of `hash` is for clients that show a certificate of `api.tls_client_ca` with this
common name. Tokens are 256 random bits, so a plain SHA-256 does not reveal them, and no slow hash is needed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bcs_scheduler.security.caller import EVERYTHING, PROGRAM_RIGHTS, ROLES, Caller, ProgramRight, Role
from bcs_scheduler.security.watched import Broken

PREFIX = "bcs_"
"""So that people and scanners of repositories recognise a token when they see one."""
BITS = 256
_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._@-]{0,62}[A-Za-z0-9])?")
_KNOWN = frozenset({"name", "hash", "certificate", "role", "namespaces", "expires", "programs", "groups"})


class Denied(Exception):
    """The credentials belong to no known holder. The message may be shown to the sender of the credentials."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One holder. Either `hash` or `certificate` is set; `expires` in Unix seconds, 0 = never."""

    name: str
    role: Role
    namespaces: frozenset[str] | None
    hash: str = ""
    certificate: str = ""
    expires: float = 0.0
    programs: frozenset[ProgramRight] = frozenset(PROGRAM_RIGHTS)
    """The sessions with tasks that operators and admins may open."""
    groups: tuple[str, ...] = ()


class Tokens:
    """Everybody in the file, at one moment."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = tuple(entries)

    def by_token(self, token: str, now: float) -> Caller:
        """Whose token this is. Raises Denied."""
        return self.by_hash(hash_of(token), now)

    def by_hash(self, shown: str, now: float) -> Caller:
        """The holder of the token with this digest (`hash_of`). Raises Denied."""
        found = None
        for entry in self.entries:  # all of them: how long it takes tells nothing of which one it was
            if hmac.compare_digest(entry.hash, shown):
                found = entry
        if found is None:
            raise Denied("the token is unknown")
        return _caller(found, "token", now)

    def by_certificate(self, common_name: str, now: float) -> Caller:
        """Whose certificate this is. Raises Denied."""
        for entry in self.entries:
            if entry.certificate and entry.certificate == common_name:
                return _caller(entry, "certificate", now)
        raise Denied(f"the certificate of {common_name[:80]!r} is unknown")


def _caller(entry: Entry, means: Any, now: float) -> Caller:
    if entry.expires and now >= entry.expires:
        when = datetime.fromtimestamp(entry.expires, UTC).isoformat()
        raise Denied(f"the {means} of {entry.name} expired at {when}")
    return Caller(entry.name, means, entry.role, entry.namespaces, entry.programs, entry.groups)


def new_token() -> str:
    return PREFIX + secrets.token_urlsafe(BITS // 8)


def hash_of(token: str) -> str:
    return "sha256:" + hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def read_tokens(path: Path) -> Tokens:
    """Raises Broken."""
    try:
        return parse_tokens(str(path), path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Broken(f"{path}: cannot read the tokens: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise Broken(f"{path}: not a TOML file: {error}") from None


def parse_tokens(path: str, text: str) -> Tokens:
    """`path`: the name of the text in messages. Raises Broken."""
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise Broken(f"{path}: not a TOML file: {error}") from None
    unknown = sorted(set(document) - {"token"})
    listed = document.get("token", [])
    if unknown or not isinstance(listed, list):
        raise Broken(f"{path}: {unknown[0] if unknown else 'token'}: entries are written [[token]]")
    if not listed:  # as a file that is just being written, or cut off: it would lock everybody out
        raise Broken(
            f"{path}: there is no entry, so no client would have any right; `bcs-scheduler token new` makes one"
        )
    entries = [_entry(f"{path}: token {number}", item) for number, item in enumerate(listed, 1)]
    for field in ("name", "hash", "certificate"):
        values = [getattr(entry, field) for entry in entries if getattr(entry, field)]
        twice = next((value for value in values if values.count(value) > 1), "")
        if twice:
            raise Broken(f"{path}: two tokens have the same {field}" + (f" {twice}" if field != "hash" else ""))
    return Tokens(entries)


def _entry(where: str, item: Any) -> Entry:
    if not isinstance(item, dict):
        raise Broken(f"{where}: entries are written [[token]]")
    name = item.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Broken(f"{where}: name must be letters, digits, '.', '_', '@' or '-', at most 64")
    where = f"{where} ({name})"
    unknown = sorted(set(item) - _KNOWN)
    if unknown:
        raise Broken(f"{where}: {unknown[0]} is unknown; known are {', '.join(sorted(_KNOWN))}")
    role = item.get("role")
    if role not in ROLES:
        raise Broken(f"{where}: role must be one of {', '.join(ROLES)}")
    hash, certificate = item.get("hash", ""), item.get("certificate", "")
    if not isinstance(hash, str) or not isinstance(certificate, str) or bool(hash) == bool(certificate):
        raise Broken(f"{where}: give either hash or certificate, as text")
    if hash and not _HASH.fullmatch(hash):
        raise Broken(f"{where}: hash must be sha256: and 64 hexadecimal digits, as `bcs-scheduler token new` prints it")
    namespaces, expires = _namespaces(where, item), _expires(where, item)
    return Entry(name, role, namespaces, hash, certificate, expires, _programs(where, item), _groups(where, item))


def _programs(where: str, item: dict[str, Any]) -> frozenset[ProgramRight]:
    given = item.get("programs", True)
    if isinstance(given, bool):
        return frozenset(PROGRAM_RIGHTS if given else ())
    if not isinstance(given, list) or not all(name in PROGRAM_RIGHTS for name in given):
        raise Broken(f"{where}: programs must be true, false, or a list of {', '.join(PROGRAM_RIGHTS)}")
    return frozenset(given)


def _groups(where: str, item: dict[str, Any]) -> tuple[str, ...]:
    given = item.get("groups", [])
    if not isinstance(given, list) or not all(isinstance(name, str) and _NAME.fullmatch(name) for name in given):
        raise Broken(f"{where}: groups must be a list of names: letters, digits, '.', '_', '@' or '-', at most 64")
    return tuple(dict.fromkeys(given))


def _namespaces(where: str, item: dict[str, Any]) -> frozenset[str] | None:
    given = item.get("namespaces")
    if given == EVERYTHING:
        return None
    if isinstance(given, list) and given and all(isinstance(name, str) and name for name in given):
        if EVERYTHING in given:
            raise Broken(f'{where}: write namespaces = "*" for all of them')
        return frozenset(given)
    raise Broken(f'{where}: namespaces must be a list of names, or "*" for all of them')


def _expires(where: str, item: dict[str, Any]) -> float:
    given = item.get("expires")
    if given is None:
        return 0.0
    if not isinstance(given, datetime) or given.tzinfo is None:
        raise Broken(f"{where}: expires must be a time with its zone, such as 2027-01-01T00:00:00Z (without quotes)")
    return given.timestamp()


def token_entry(name: str, hash: str, role: str, namespaces: Sequence[str]) -> str:
    """For the file of tokens, as TOML. Raises Broken if it would be no good there."""
    listed = json.dumps(EVERYTHING) if EVERYTHING in namespaces else json.dumps(list(namespaces), ensure_ascii=False)
    text = "\n".join(
        [
            "[[token]]",
            f"name = {json.dumps(name, ensure_ascii=False)}",
            f'hash = "{hash}"',
            f'role = "{role}"',
            f"namespaces = {listed}",
        ]
    )
    parse_tokens("the entry", text)
    return text
