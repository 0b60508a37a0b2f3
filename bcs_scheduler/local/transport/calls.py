"""Calls of the v1 APIs in HTTP requests: bodies in JSON or protobuf, and the encoding of the answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeVar

from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message

from bcs_scheduler.local.errors import InvalidCall
from bcs_scheduler.local.transport.http import Request, response
from bcs_scheduler.local.transport.stream import JSON, PROTOBUF

A = TypeVar("A")
M = TypeVar("M", bound=Message)


def answered(handle: Callable[[Request], A], request: Request) -> A | bytes:
    """The answer of `handle`. An InvalidCall that `handle` raises becomes an answer with the status of the error."""
    try:
        return handle(request)
    except InvalidCall as error:
        return response(error.status, error.message.encode())


def parse_body(request: Request, message_type: type[M]) -> M:
    """The call in the body, in the encoding its Content-Type says. Raises InvalidCall."""
    content_type = request.headers.get(b"content-type", b"").decode("latin-1")
    message = message_type()
    if content_type == PROTOBUF:
        try:
            message.ParseFromString(request.body)
        except DecodeError:
            raise InvalidCall(400, "Failed to parse body into Call protobuf") from None
    elif content_type == JSON:
        try:
            body = json.loads(request.body)
            if not isinstance(body, dict):
                raise InvalidCall(400, "Failed to convert JSON into Call protobuf: Expecting a JSON object")
            json_format.ParseDict(body, message, ignore_unknown_fields=True)
        except (ValueError, OverflowError, RecursionError) as error:
            raise InvalidCall(400, f"Failed to parse body into JSON: {error}") from None
        except json_format.ParseError as error:
            raise InvalidCall(400, f"Failed to convert JSON into Call protobuf: {error}") from None
    elif not content_type:
        raise InvalidCall(400, "Expecting 'Content-Type' to be present")
    else:
        raise InvalidCall(415, f"Expecting 'Content-Type' of {JSON} or {PROTOBUF}")
    if not message.IsInitialized():
        raise InvalidCall(400, "Failed to parse body into Call protobuf: required fields are missing")
    return message


def accepted_type(request: Request) -> str:
    """JSON where both would do, as Mesos. Raises InvalidCall."""
    accept_header = request.headers.get(b"accept", b"*/*").decode("latin-1")
    wanted = {part.partition(";")[0].strip() for part in accept_header.split(",")}
    for content_type in (JSON, PROTOBUF):
        if wanted & {content_type, "*/*", "application/*"}:
            return content_type
    raise InvalidCall(406, f"Expecting 'Accept' to allow '{PROTOBUF}' or '{JSON}'")
