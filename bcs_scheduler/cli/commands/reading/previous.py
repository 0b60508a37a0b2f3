"""The last output of taskgroups that have failed: `bcs logs --previous`, and in place of a sandbox that is gone."""

from __future__ import annotations

from bcs_scheduler.cli.client.lookup import Target
from bcs_scheduler.cli.client.printed import Printed, Selection, kept
from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.commands.reading.lines import Lines
from bcs_scheduler.cli.errors import CliError, NotFound
from bcs_scheduler.cli.session import Session

UNORDERED = "order and times are not known: the executor of this task does not record them; standard output comes first"
LAST_TRY = "this is the last output of the try before"
KEPT = "the sandbox cannot be read; this is the last output that was kept when the task failed"


def print_previous(session: Session, target: Target, selection: Selection, task: str) -> None:
    """The output of the newest failed predecessor of each taskgroup. For a deployment also of applications
    that updates have removed. Raises NotFound if none is kept."""
    present = {str(group["ID"]) for group in target.taskgroups}
    applications = dict.fromkeys(str(group["AppID"]) for group in target.taskgroups) or {target.name: None}
    chosen: dict[tuple[str, int], list[Json]] = {}
    known = [o for name in applications for o in session.client.outputs(target.namespace, application=name)]
    if target.kind == "deployment" and not target.one:
        owned = session.client.outputs(target.namespace, deployment=target.name)
        known += [output for output in owned if output["application"] not in applications]
    for output in known:
        place = str(output["application"]), int(output["index"])
        ours = not target.one or f"{place[0]}-{place[1]}" == target.taskgroups[0]["Name"]
        if not ours or output["taskgroup"] in present or not _is(output, task):
            continue
        found = chosen.setdefault(place, [])
        if not found or found[0]["taskgroup"] == output["taskgroup"]:
            found.append(output)
    outputs = [output for place in sorted(chosen) for output in sorted(chosen[place], key=lambda o: int(o["number"]))]
    if not outputs:
        raise NotFound(
            f"no output of a previous taskgroup of {target.title} is kept:"
            " only the last lines of failed tasks are kept, until their application or deployment is deleted"
        )
    for output in outputs:
        named = len(outputs) > 1
        _print(session, target.namespace, output, selection, _title(output, outputs), named=named)


def print_kept(session: Session, target: Target, taskgroup: str, task: str, lines: Lines, selection: Selection) -> str:
    """Prints the kept output of a task of a present taskgroup. Returns a note for the user about this output; empty if
    there is none. `task`: id."""
    client = session.client
    try:
        for output in client.outputs(target.namespace, taskgroup=taskgroup):
            if output["id"] == task:
                return _printed(kept(client, target.namespace, output["id"], selection), lines, KEPT)
    except CliError:
        pass
    return ""


def print_last_try(session: Session, group: Json, number: int, lines: Lines, selection: Selection) -> str:
    """Prints the kept output of the taskgroup in whose place `group` has not started yet, of the task with this number.
    Returns a note for the user; empty if there is none."""
    client, namespace = session.client, str(group["RunAs"])
    try:
        for output in client.outputs(namespace, application=str(group["AppID"])):
            place = int(output["index"]), int(output["number"])
            if place == (int(group["InstanceID"]), number) and output["taskgroup"] != group["ID"]:
                return _printed(kept(client, namespace, output["id"], selection), lines, LAST_TRY)
    except CliError:
        pass
    return ""


def _printed(found: list[Printed], lines: Lines, note: str) -> str:
    """Prints an output. Returns the note about it."""
    for printed in found:
        lines.write(printed)
    return f"{note}; {UNORDERED}" if _is_unordered(found) else note


def _is(output: Json, task: str) -> bool:
    return not task or task in (output["id"], output["name"], str(output["number"]))


def _title(output: Json, outputs: list[Json]) -> str:
    name = f"{output['application']}-{output['index']}"
    siblings = sum(other["taskgroup"] == output["taskgroup"] for other in outputs)
    return f"{name}/{output['name'] or output['number']}" if siblings > 1 else name


def _print(session: Session, namespace: str, output: Json, selection: Selection, title: str, *, named: bool) -> None:
    lines = Lines(title, named=named, marked=len(selection.files) > 1, times=selection.times)
    found = kept(session.client, namespace, output["id"], selection)
    for printed in found:
        lines.write(printed)
    lines.finish_all()
    if _is_unordered(found):
        session.err.print(f"{title} | {UNORDERED}")


def _is_unordered(found: list[Printed]) -> bool:
    """Both streams have content, and the order is not known."""
    return any(printed.time is None for printed in found) and len({printed.stream for printed in found}) > 1
