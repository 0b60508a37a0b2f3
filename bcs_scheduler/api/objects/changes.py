"""The operations that create, replace and delete the objects of a kind, which are alike for many kinds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace as with_fields

from bcs_scheduler.api.documents.validate import known_version
from bcs_scheduler.api.http.errors import Reasons
from bcs_scheduler.api.http.operation import Answer, Call, Handler, Table
from bcs_scheduler.core.interface.effects import Reason
from bcs_scheduler.core.interface.requests import Put, Request

CREATED: Reasons = (Reason.EXISTS, Reason.INVALID)
REPLACED: Reasons = (Reason.NOT_FOUND, Reason.CONFLICT, Reason.INVALID)
IN_USE: Reasons = (Reason.NOT_FOUND, Reason.CONFLICT)
"""Reasons of a deletion that is refused while other objects need the object."""
Summaries = Mapping[str, str]
"""Summaries of an operation by path. The first path has the name of the operation, the others are its variants."""


def changes(
    table: Table,
    name: str,
    body: Any,
    *,
    put: Callable[[Call, bool], Put],
    remove: Callable[[Call], Request],
    create: Summaries,
    replace: Summaries,
    replace_named: Summaries | None = None,
    delete: Summaries,
    refused: Reasons = (Reason.NOT_FOUND,),
) -> None:
    """Declares the operations `create_<name>`, `replace_<name>`, `replace_named_<name>` (if it has paths of its own)
    and `delete_<name>`.

    `put`: the request for a call, and for whether the object is created; `remove`: the request of a deletion. `body`:
    type of the document. `refused`: reasons of a deletion.
    """

    async def created(call: Call) -> Answer:
        return await _put(call, put(call, True), create=True)

    async def replaced(call: Call) -> Answer:
        return await _put(call, put(call, False), create=False)

    async def replaced_by_name(call: Call) -> Answer:
        return await replaced(call)

    async def deleted(call: Call) -> Answer:
        return await call.submit(remove(call))

    def declare(method: str, verb: str, handler: Handler, paths: Summaries, body: Any, reasons: Reasons) -> None:
        handler.__name__ = f"{verb}_{name}"
        for path, summary in paths.items():
            table.write(method, path, summary, body=body, reasons=reasons, status=200)(handler)

    declare("POST", "create", created, create, body, CREATED)
    declare("PUT", "replace", replaced, replace, body, REPLACED)
    declare("PUT", "replace_named", replaced_by_name, replace_named or {}, body, REPLACED)
    declare("DELETE", "delete", deleted, delete, None, refused)


async def _put(call: Call, request: Put, *, create: bool) -> Answer:
    return await call.submit(with_fields(request, create=create, expected=known_version(call.body)))
