"""Plays vectors of the area `plugin-mode`: calls of the gate, with its state after each.

Calls of the launcher are ``prefilter(TASK)``, ``filter(TASK,NODE)`` and ``postbind(TASK)``; calls of the engine are
``approve(TASK,NODE)`` and ``forget(TASK)``; ``state(TASK,STATE)`` changes the state of a task.
"""

from __future__ import annotations

import re
from typing import Any

from offers.policy.applications.gate import Answer, GateTask, PlacementGate
from tests.vectors.reading import PolicyVector

CALL = re.compile(r"(prefilter|filter|postbind|approve|forget|state)\((\w+)(?:,(\w+))?\)")


def play(vector: PolicyVector) -> dict[str, Any]:
    """The results of the calls. Raises ValueError for a field or a call that is unknown."""
    given = vector.input
    if unknown := set(given) - {"tasks", "calls"}:
        raise ValueError(f"input: unknown {', '.join(sorted(unknown))}")
    gate = PlacementGate()
    tasks = {}
    for entry in given["tasks"]:
        if unknown := set(entry) - {"id", "application_id", "state", "approved_node"}:
            raise ValueError(f"input tasks: unknown {', '.join(sorted(unknown))}")
        tasks[entry["id"]] = GateTask(entry["id"], entry["application_id"] or "", entry.get("state", ""))
        if "approved_node" in entry:
            gate.approve(entry["id"], entry["approved_node"])
    found: dict[str, Any] = {"results": [], "pending_after": [], "in_progress_after": [], "events": []}
    for call in given["calls"]:
        match = CALL.fullmatch(call)
        if match is None:
            raise ValueError(f"input calls: unknown {call}")
        hook, task, node = match[1], tasks[match[2]], match[3]
        if hook in ("postbind", "approve", "forget", "state"):
            if hook == "postbind":
                gate.post_launch(task)
            elif hook == "approve":
                gate.approve(task.id, node)
            elif hook == "forget":
                gate.forget(task.id)
            else:
                tasks[task.id] = task._replace(state=node)
            found["results"].append("ok")
        else:
            answer: Answer = gate.pre_filter(task) if hook == "prefilter" else gate.filter(task, node)
            found["results"].append(str(answer.verdict))
            found["events"] += [f"RejectTask {answer.returned}"] if answer.returned else []
        found["pending_after"].append(dict(gate.pending))
        found["in_progress_after"].append(dict(gate.in_progress))
    return found
