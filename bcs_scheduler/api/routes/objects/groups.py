"""Groups of applications whose taskgroups start together."""

from __future__ import annotations

from bcs_scheduler.api.documents.groups import read_pod_group
from bcs_scheduler.api.documents.validate import known_version
from bcs_scheduler.api.http.errors import Reasons
from bcs_scheduler.api.http.operation import Answer, Call, Table
from bcs_scheduler.api.reading.lists import find, lists, namespace_of
from bcs_scheduler.api.reading.query import page, parse_selector, selected
from bcs_scheduler.api.views.objects.groups import PodGroupView, show_pod_group
from bcs_scheduler.core.interface.effects import Reason
from bcs_scheduler.core.interface.requests import DeletePodGroup, PutPodGroup
from bcs_scheduler.wire.documents.groups import PodGroupDocument

table = Table("pod groups")
OF_NAMESPACE = "/namespaces/{ns}/podgroups"
REPLACED: Reasons = (Reason.NOT_FOUND, Reason.CONFLICT, Reason.INVALID)


@lists(table, OF_NAMESPACE, "/podgroups", "pod groups", answer=list[PodGroupView])
def list_pod_groups(call: Call) -> Answer:
    state, requirements = call.state(), parse_selector(call.query.get("labelSelector", ""))
    namespace, groups = namespace_of(call), state.pod_groups
    keys = list(groups) if namespace is None else list(state.indexes.keys_in("podgroup", namespace))
    known = [one for key in keys if (one := groups.get(key)) is not None]
    found = [one for one in known if selected(one.labels, requirements)]
    diagnose = call.diagnosis
    return page(
        found, lambda one: (one.namespace, one.name), call.query, lambda one: show_pod_group(state, one, diagnose)
    )


@table.read(f"{OF_NAMESPACE}/{{name}}", "Fetch a pod group with its members", answer=PodGroupView)
def get_pod_group(call: Call) -> Answer:
    state = call.state()
    found = find(state.pod_groups, "pod group", call.path["ns"], call.path["name"])
    return Answer(show_pod_group(state, found, call.diagnosis))


@table.write(
    "POST",
    OF_NAMESPACE,
    "Create a pod group",
    body=PodGroupDocument,
    reasons=(Reason.EXISTS, Reason.INVALID),
    status=200,
)
async def create_pod_group(call: Call) -> Answer:
    return await _put(call, None, create=True)


@table.write("PUT", OF_NAMESPACE, "Replace a pod group", body=PodGroupDocument, reasons=REPLACED, status=200)
async def replace_pod_group(call: Call) -> Answer:
    return await _put(call, None, create=False)


@table.write(
    "PUT", f"{OF_NAMESPACE}/{{name}}", "Replace a pod group", body=PodGroupDocument, reasons=REPLACED, status=200
)
async def replace_named_pod_group(call: Call) -> Answer:
    return await _put(call, call.path["name"], create=False)


async def _put(call: Call, name: str | None, *, create: bool) -> Answer:
    record = read_pod_group(call.body, call.path["ns"], name, call.problems)
    command = PutPodGroup(
        pod_group=record, create=create, expected=known_version(call.body), dry_run=call.dry_run, cause=call.cause
    )
    return await call.submit(command)


@table.write(
    "DELETE",
    f"{OF_NAMESPACE}/{{name}}",
    "Delete a pod group that no application belongs to",
    reasons=(Reason.NOT_FOUND, Reason.CONFLICT),
    status=200,
)
async def delete_pod_group(call: Call) -> Answer:
    command = DeletePodGroup(namespace=call.path["ns"], name=call.path["name"], dry_run=call.dry_run, cause=call.cause)
    return await call.submit(command)
