"""Reads the body of a request: bounded in size, time and depth, strict JSON, plain data out."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from typing import Any, NoReturn

import msgspec

from bcs_scheduler.api.http import errors
from bcs_scheduler.api.http.errors import ApiError
from bcs_scheduler.core.interface.effects import Problem
from bcs_scheduler.wire import depth
from bcs_scheduler.wire.problems import Problems, element, member
from transactions.text import duration

DRAINED, DRAIN_SECONDS = 32 * 1024 * 1024, 5.0
"""Bytes and seconds of a too large body that are read and dropped before the answer. A connection that ends with
unread bytes is reset, and the client loses the answer."""


async def read(
    stream: AsyncIterator[bytes],
    declared: str | None,
    content_type: str,
    limit: int,
    timeout: float,
    *,
    awaited: Callable[[], bool] = lambda: False,
) -> bytes:
    """The whole body. `declared` is the Content-Length header. `awaited`: true if the client sends the body only when
    it is asked for it (Expect: 100-continue). Raises ApiError 408, 413, 415."""
    media = content_type.partition(";")[0].strip().lower()
    if media not in ("", "application/json"):
        raise ApiError(errors.NOT_JSON, f"the body must be application/json, not {media[:80]}")
    if declared is not None and declared.isdigit() and int(declared) > limit:
        if not awaited() and int(declared) <= DRAINED:
            await _drain(stream)
        raise _too_large(limit)
    try:
        async with asyncio.timeout(timeout):
            body = await _collect(stream, limit)
    except TimeoutError as late:
        raise ApiError(errors.TOO_SLOW, f"the body did not arrive within {duration(timeout)}") from late
    if body is None:
        await _drain(stream)
        raise _too_large(limit)
    return body


async def _collect(stream: AsyncIterator[bytes], limit: int) -> bytes | None:
    """Returns the body; None if it has more bytes than the limit."""
    body = bytearray()
    async for chunk in stream:
        body += chunk
        if len(body) > limit:
            return None
    return bytes(body)


async def _drain(stream: AsyncIterator[bytes]) -> None:
    left = DRAINED
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_SECONDS):
            async for chunk in stream:
                left -= len(chunk)
                if left < 0:
                    return


def _too_large(limit: int) -> ApiError:
    words = f"the body exceeds {limit} bytes (setting api.max_body_bytes of the scheduler)"
    return ApiError(errors.TOO_LARGE, words, headers={"Connection": "close"})


def parse(body: bytes, called: str = "the body", problems: Problems | None = None) -> Any:
    """Plain data. Raises ApiError 400, with line and column of the fault. `called`: name of the body in messages.

    The function uses Python's own parser, because that parser reports the place; NaN and numbers beyond a double are
    refused. Of a key that an object has twice the last one counts, as in the original, and `problems` gets a warning;
    None refuses it.
    """
    twice: list[tuple[dict[str, Any], str]] = []
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ApiError(errors.BAD_JSON, f"{called} is not UTF-8: byte {error.start}") from error
    try:
        value = json.loads(
            text, object_pairs_hook=partial(_object, twice), parse_constant=_no_constant, parse_float=_float
        )
        # Of a list of documents, each counts.
        if path := depth.too_deep(value, depth.DEEPEST + (value.__class__ is list)):
            words = f"is {depth.words()}"
            raise ApiError(errors.BAD_JSON, f"{called} {words}: {path}", (Problem(path, words),))
        msgspec.json.encode(value)  # lone surrogates pass the parser, and could not be stored or shown
        if twice and problems is None:
            raise ValueError(f"the key {twice[0][1][:80]!r} occurs twice in one object")
        if twice and problems is not None:
            _warn(value, twice, problems)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ApiError(errors.BAD_JSON, f"{called} is not JSON: {error.msg} ({where})") from error
    except RecursionError as error:
        raise ApiError(errors.BAD_JSON, f"{called} is {depth.words()}") from error
    except UnicodeEncodeError as error:
        raise ApiError(errors.BAD_JSON, f"{called} contains a lone surrogate, which is not a character") from error
    except ValueError as error:
        raise ApiError(errors.BAD_JSON, f"{called} is not JSON: {str(error)[:200]}") from error
    return value


def _object(twice: list[tuple[dict[str, Any], str]], pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        times = Counter(key for key, _ in pairs)
        twice += [(made, key) for key, count in times.items() if count > 1]
    return made


def _warn(value: Any, twice: list[tuple[dict[str, Any], str]], problems: Problems) -> None:
    """Names the path of each key. An object that the value does not have stood under a key that counts no more."""
    keys: dict[int, list[str]] = {}
    for found, key in twice:
        keys.setdefault(id(found), []).append(key)
    ahead = [("$", value)]
    while ahead:
        path, part = ahead.pop()
        if isinstance(part, dict):
            for key in keys.get(id(part), ()):
                problems.warn(member(path, key), "is given twice", "the last value counts")
            ahead += [(member(path, key), inner) for key, inner in part.items() if isinstance(inner, dict | list)]
        elif isinstance(part, list):
            ahead += [(element(path, i), inner) for i, inner in enumerate(part) if isinstance(inner, dict | list)]


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _float(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text[:40]} is out of range")
    return number
