"""Events, effects and records put in words, short enough for one line of a story."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from bcs_scheduler.core.interface import cluster_manager, effects, leased, requests
from store.base import Change
from store.records import Application, TaskGroup, Transaction


def describe(what: object) -> str:
    match what:
        case cluster_manager.StatusUpdate():
            return f"update {what.state} of {what.task_id} uuid={what.uuid.decode()} {what.message}"
        case leased.OffersArrived():
            return f"offers {' '.join(offer.id for offer in what.offers)}"
        case cluster_manager.LaunchFailed():
            return f"accept failed ({'certain' if what.certain else 'unclear'}) {' '.join(what.taskgroups)}"
        case requests.CreateApplication() | requests.UpdateApplication():
            version = what.version
            return f"{_name(what)} token={what.token} {version.application} x{version.instances} dry={what.dry_run}"
        case cluster_manager.LaunchOnAgent():
            return f"accept {' '.join(what.offer_ids)}: {' '.join(launch.taskgroup.id for launch in what.launches)}"
        case cluster_manager.Acknowledge():
            return f"acknowledge {what.task_id} uuid={what.uuid.decode()}"
        case effects.LogLine():
            return f"story {what.kind} {what.key} {what.reason}: {what.message}"
        case Change():
            return f"change {what.kind} {what.key} {_record(what.record)}"
        case str():
            return what
    return f"{_name(what)} {what}"


def _name(what: object) -> str:
    return type(what).__name__


def _record(record: object) -> str:
    match record:
        case None:
            return "deleted"
        case TaskGroup():
            words = f"{record.status} v{record.version[-6:]} on {record.agent_id}" + (" ended" if record.ended else "")
            words += f" killing ({record.kill_reason})" if record.killing_since else ""
            return words + (" unreachable" if record.unreachable_since else "")
        case Application():
            return f"{record.status} x{record.instances} {record.message}"
        case Transaction():
            return f"{record.type} {record.status} target={record.target} {record.taskgroup} {record.message}"
    return ""


def summary(counts: Counter[str], simulated: Sequence[float]) -> str:
    """What happened how often, so that one sees that everything really happened."""
    width = max((len(name) for name in counts), default=0)
    lines = [f"  {name:{width}} {count:9d}" for name, count in sorted(counts.items())]
    return "\n".join([*lines, f"  {'simulated hours':{width}} {sum(simulated) / 3600:9.1f}"])
