"""One stream for the lists of several kinds: a browser has six connections to a server in all."""

from __future__ import annotations

from bcs_scheduler.api import access
from bcs_scheduler.api.http.errors import bad_parameter
from bcs_scheduler.api.http.operation import Call, Param, Table
from bcs_scheduler.api.objects import queues
from bcs_scheduler.api.reading.lists import NAMESPACE
from bcs_scheduler.api.routes import applications, cluster, deployments, taskgroups, transactions
from bcs_scheduler.api.streams import streaming
from bcs_scheduler.api.streams.live import Live, follow
from bcs_scheduler.api.streams.sse import EventStream

table = Table("watches")
LIVES: dict[str, Live] = {
    "applications": applications.LIVE,
    "taskgroups": taskgroups.LIVE,
    "deployments": deployments.LIVE,
    "transactions": transactions.LIVE,
    "agents": cluster.LIVE,
    "queues": queues.LIVE,
}
KINDS = Param(
    "kinds", "text", f"Kinds to follow, separated by commas: {', '.join(LIVES)}. Default: all that the caller may see."
)


@streaming.streams(table, "/watch", "Follow the lists of several kinds in one stream", query=(KINDS, NAMESPACE))
async def watch_lists(call: Call) -> EventStream:
    """The same frames as `?watch=true` of each list, in the order of `kinds` before `synced`."""
    names = [name for name in dict.fromkeys(call.query.get("kinds", "").split(",")) if name]
    for name in names:
        if name not in LIVES:
            raise bad_parameter("kinds", f"must be some of {', '.join(LIVES)}, not {name[:40]!r}")
        if not LIVES[name].namespaced and not call.caller.everywhere:
            raise access.forbidden(call.caller, f'the role viewer in all namespaces ("*") to follow {name}')
    seen = [name for name, live in LIVES.items() if live.namespaced or call.caller.everywhere]
    return follow(call, [LIVES[name] for name in names or seen])
