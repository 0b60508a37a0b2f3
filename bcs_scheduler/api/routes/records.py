"""Workloads from records of the original, the bodies of its scheduler (docs/api.md#clients-of-the-original). Each
record is turned into a document, which the operation of that document carries out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bcs_scheduler.api import access
from bcs_scheduler.api.http.errors import invalid
from bcs_scheduler.api.http.operation import BASE, Answered, Call, Operation, Table
from bcs_scheduler.api.original import bodies
from bcs_scheduler.api.routes import applications, daemonsets, deployments
from bcs_scheduler.core.interface.effects import Reason

table = Table("applications")
DEPLOYMENT = "/deployment/{ns}/{name}"


def _operation(of: Table, method: str, path: str) -> Operation:
    return next(one for one in of.operations if (one.method, one.path) == (method, BASE + path))


_CREATE = _operation(applications.table, "POST", "/namespaces/{ns}/applications")
_UPDATE = _operation(applications.table, "PUT", "/namespaces/{ns}/applications/{name}")
_CREATE_DEPLOYMENT = _operation(deployments.table, "POST", deployments.DEPLOYMENTS)
_UPDATE_DEPLOYMENT = _operation(deployments.table, "PUT", deployments.DEPLOYMENT)
_CREATE_DAEMONSET = _operation(daemonsets.table, "POST", daemonsets.DAEMONSETS)


@table.write(
    "POST",
    "/apps",
    "Create an application from a version, the record of the original",
    body=dict[str, Any],
    answer=applications.Accepted,
    reasons=(Reason.EXISTS, Reason.INVALID),
)
async def create_from_version(call: Call) -> Answered:
    return await _create(call, _CREATE, bodies.application(call.body, call.problems))


@table.write(
    "POST",
    "/apps/{ns}/{name}/update",
    "Update an application to a version, the record of the original",
    query=(applications.INSTANCES, applications.ARGS, applications.ON_CONFLICT),
    body=dict[str, Any],
    answer=applications.Accepted,
)
async def update_to_version(call: Call) -> Answered:
    document = bodies.application(call.body, call.problems, call.path["ns"], call.path["name"])
    return await _carry_out(call, _UPDATE, document)


@table.write(
    "POST",
    DEPLOYMENT,
    "Create a deployment from the record of the original",
    body=dict[str, Any],
    answer=deployments.DeploymentAccepted,
    reasons=(Reason.EXISTS, Reason.CONFLICT, Reason.INVALID),
)
async def create_deployment_from_record(call: Call) -> Answered:
    return await _deployment(call, _CREATE_DEPLOYMENT)


@table.write(
    "PUT",
    DEPLOYMENT,
    "Update a deployment to the record of the original",
    query=(deployments.ARGS, applications.ON_CONFLICT),
    body=dict[str, Any],
    answer=deployments.DeploymentAccepted,
)
async def update_deployment_to_record(call: Call) -> Answered:
    return await _deployment(call, _UPDATE_DEPLOYMENT)


@table.write(
    "POST",
    "/daemonsets",
    "Create a daemonset from the record of the original",
    body=dict[str, Any],
    answer=daemonsets.DaemonsetAccepted,
    reasons=(Reason.EXISTS, Reason.CONFLICT, Reason.INVALID),
)
async def create_daemonset_from_record(call: Call) -> Answered:
    return await _create(call, _CREATE_DAEMONSET, bodies.daemonset(call.body, call.problems))


async def _deployment(call: Call, operation: Operation) -> Answered:
    document = bodies.deployment(call.body, call.problems, call.path["ns"], call.path["name"])
    return await _carry_out(call, operation, document)


async def _create(call: Call, operation: Operation, document: dict[str, Any]) -> Answered:
    """The record names the namespace. Raises ApiError (403) if the caller may not change objects there."""
    namespace = document["metadata"]["namespace"]
    if not namespace:
        call.problems.add("$.RunAs", "is required: the namespace")
    if call.problems:
        raise invalid(call.problems.listed())
    access.check_namespace(call.caller, namespace)
    return await _carry_out(replace(call, path={"ns": namespace}), operation, document)


async def _carry_out(call: Call, operation: Operation, document: dict[str, Any]) -> Answered:
    if call.problems:
        raise invalid(call.problems.listed())
    assert call.carry_out is not None
    return await call.carry_out(operation, replace(call, body=document))
