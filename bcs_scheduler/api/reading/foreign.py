"""Answers of the core for callers who may not see all namespaces (docs/decisions/0095-answers-of-the-core.md).

The core decides about the whole cluster, so its answers may name taskgroups of all namespaces and figures of queues.
`Call.reply` and `Call.diagnosis` are the only ways from the core to the routes, and pass everything through this
module. Texts are made at the way out of the API (`store.mentions.revealed`).
"""

from __future__ import annotations

from typing import Any

from bcs_scheduler.security.caller import Caller
from offers.model import Diagnosis
from offers.policy.obstacles import OF_APPLICATIONS, OF_OTHER_QUEUES, Met
from store.ids import TaskGroupId, namespace_of

HIDDEN = "Hidden"
"""End of the name of a field with the number of entries that were left out of a list: ``evict``, ``evictHidden``."""


def answer_for(caller: Caller, data: Any) -> Any:
    """The data of an answer with counts in place of taskgroups that the caller may not see, and without amounts of
    queues. Lists lose the entries; the number of them is in a field beside the list. Fields of other types lose the
    id. Keys of objects are never taken for ids: texts have mentions of them (store.mentions)."""
    return data if caller.everywhere else _part(caller, data)


def diagnosis_for(caller: Caller, found: Diagnosis | None) -> Diagnosis | None:
    """A diagnosis without the amounts of the queue, which include the work of other namespaces, and with counts in
    place of other queues and of applications that the caller may not see."""
    if found is None or caller.everywhere:
        return found
    if found.held_back is not None:
        found = found._replace(held_back=found.held_back._replace(allocated=(), deserved=()))
    if found.attempt is not None:
        met = tuple(_met_for(caller, one) for one in found.attempt.met)
        found = found._replace(attempt=found.attempt._replace(met=met))
    return found


def _met_for(caller: Caller, met: Met) -> Met:
    if met.code in OF_OTHER_QUEUES:
        return met._replace(whose=(), others=met.others + len(met.whose))
    if met.code not in OF_APPLICATIONS:
        return met
    seen = tuple(key for key in met.whose if caller.sees(namespace_of(key)))
    return met._replace(whose=seen, others=met.others + len(met.whose) - len(seen))


def _part(caller: Caller, data: Any) -> Any:
    if isinstance(data, dict):
        shown: dict[str, Any] = {}
        for name, value in data.items():
            if isinstance(value, list | tuple):
                kept = [_part(caller, one) for one in value if not _is_foreign(caller, one)]
                shown[name] = [] if name == "limits" else kept
                if len(kept) < len(value):
                    shown[f"{name}{HIDDEN}"] = len(value) - len(kept)
            elif _is_foreign(caller, value):
                shown[name] = ""
            else:
                shown[name] = _part(caller, value)
        return shown
    if isinstance(data, list | tuple):
        return [_part(caller, one) for one in data if not _is_foreign(caller, one)]
    return data


def _is_foreign(caller: Caller, value: Any) -> bool:
    """True for the id of a taskgroup that the caller may not see, and for an entry about such a taskgroup."""
    if isinstance(value, dict):
        value = value.get("taskgroup")
    found = TaskGroupId.parse(value) if isinstance(value, str) else None
    return found is not None and not caller.sees(found.namespace)
