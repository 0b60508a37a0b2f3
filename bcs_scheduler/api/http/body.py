"""Reads the body of a request: bounded in size, time and depth, strict JSON, plain data out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, NoReturn

import msgspec

from bcs_scheduler.api.http import errors
from bcs_scheduler.api.http.errors import ApiError
from bcs_scheduler.core.interface.effects import Problem
from bcs_scheduler.wire import depth
from transactions.text import duration


async def read(
    stream: AsyncIterator[bytes], declared: str | None, content_type: str, limit: int, timeout: float
) -> bytes:
    """The whole body. `declared` is the Content-Length header. Raises ApiError 408, 413, 415."""
    media = content_type.partition(";")[0].strip().lower()
    if media not in ("", "application/json"):
        raise ApiError(errors.NOT_JSON, f"the body must be application/json, not {media[:80]}")
    if declared is not None and declared.isdigit() and int(declared) > limit:
        raise _too_large(limit)
    try:
        async with asyncio.timeout(timeout):
            return await _collect(stream, limit)
    except TimeoutError as late:
        raise ApiError(errors.TOO_SLOW, f"the body did not arrive within {duration(timeout)}") from late


async def _collect(stream: AsyncIterator[bytes], limit: int) -> bytes:
    body = bytearray()
    async for chunk in stream:
        body += chunk
        if len(body) > limit:
            raise _too_large(limit)
    return bytes(body)


def _too_large(limit: int) -> ApiError:
    return ApiError(errors.TOO_LARGE, f"the body exceeds {limit} bytes", headers={"Connection": "close"})


def parse(body: bytes, called: str = "the body") -> Any:
    """Plain data. Raises ApiError 400, with line and column of the fault. `called`: name of the body in messages.

    The function uses Python's own parser, because that parser reports the place; duplicate keys, NaN and numbers beyond
    a double are refused.
    """
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ApiError(errors.BAD_JSON, f"{called} is not UTF-8: byte {error.start}") from error
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant, parse_float=_float)
        # Of a list of documents, each counts.
        if path := depth.too_deep(value, depth.DEEPEST + (value.__class__ is list)):
            words = f"is {depth.words()}"
            raise ApiError(errors.BAD_JSON, f"{called} {words}: {path}", (Problem(path, words),))
        msgspec.json.encode(value)  # lone surrogates pass the parser, and could not be stored or shown
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


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {key[:80]!r} occurs twice in one object")
            seen.add(key)
    return made


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _float(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text[:40]} is out of range")
    return number
