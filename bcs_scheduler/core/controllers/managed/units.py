"""The applications that carry out the tasks and placeholders of managed applications: one taskgroup each.

A placeholder sleeps. Its taskgroup has the amounts, ports, constraints and priority of the task that it holds room for,
and none of its labels: neither services nor users may take it for the work itself.
"""

from __future__ import annotations

import msgspec

from store.records import (
    ANNOTATION_OF_PLACEHOLDER,
    ANNOTATION_OF_TASK,
    FORM_OF_PLACEHOLDER,
    Application,
    ManagedApplication,
    ManagedTask,
    Placeholder,
    Version,
)
from store.records.definition import Amounts, Container, KillPolicy, RestartPolicy, UnreachablePolicy

SLEEP = ("/bin/sleep", ("infinity",))
"""Command and arguments of a placeholder. One that is left over holds its room until it is released."""


def sleeper(owner: ManagedApplication, holder: Placeholder, model: Version | None, form: str = "") -> Version:
    """The definition of a placeholder. `model`: the definition of a task of its group; None: only its amounts are
    known. The terms of the group, if it has any, take the place of those of the model. `form`: how its room is kept if
    the placeholder runs nothing; empty: it sleeps."""
    containers = tuple(map(_sleeping, model.containers)) if model is not None else (_plain(holder.request),)
    terms = next((group.terms for group in owner.task_groups if group.name == holder.group), None)
    base = terms or model or Version(namespace=owner.namespace, application=holder.name)
    return Version(
        namespace=owner.namespace,
        application=holder.name,
        instances=1,
        annotations={ANNOTATION_OF_PLACEHOLDER: owner.name, **({FORM_OF_PLACEHOLDER: form} if form else {})},
        executor=base.executor,
        network_mode=base.network_mode,
        network_type=base.network_type,
        containers=containers,
        restart_policy=RestartPolicy(policy="Never"),
        kill_policy=KillPolicy(grace_period=0.0),
        unreachable_policy=UnreachablePolicy(replace_after=-1.0),
        constraints=base.constraints,
        tolerations=base.tolerations,
        priority=base.priority,
        priority_class=base.priority_class,
        priority_from=base.priority_from,
        preemption_policy=base.preemption_policy,
        role=base.role,
    )


def unit(owner: ManagedApplication, task: ManagedTask) -> Version | None:
    """The definition of the application that runs a task of a manager; None for a task of a reservation. The manager
    decides about another try, so the taskgroup is not restarted."""
    if task.version is None:
        return None
    return msgspec.structs.replace(
        task.version,
        namespace=owner.namespace,
        application=task.unit,
        instances=1,
        annotations={**task.version.annotations, ANNOTATION_OF_TASK: owner.name},
        restart_policy=RestartPolicy(policy="Never"),
        min_available=0,
    )


def is_placeholder(application: Application) -> bool:
    """True if the application is a placeholder."""
    return ANNOTATION_OF_PLACEHOLDER in application.annotations


def is_ours(application: Application | None) -> bool:
    """True if the application carries out a placeholder or a task, and was not created by a user. None: no application
    exists."""
    return application is not None and (is_placeholder(application) or ANNOTATION_OF_TASK in application.annotations)


def request_of(version: Version) -> dict[str, int]:
    """The amounts of one taskgroup without the overhead, which its placeholder has as well."""
    total = {"cpus": 0, "mem": 0, "disk": 0, "gpus": 0}
    for container in version.containers:
        for name in total:
            total[name] += getattr(container.requests, name)
    return {name: amount for name, amount in total.items() if amount}


def _sleeping(container: Container) -> Container:
    command, arguments = SLEEP
    return Container(
        name=container.name,
        command=command,
        args=arguments,
        ports=container.ports,
        requests=container.requests,
        limits=container.limits,
        extended=container.extended,
    )


def _plain(request: dict[str, int]) -> Container:
    command, arguments = SLEEP
    known = {name: amount for name, amount in request.items() if name in ("cpus", "mem", "disk", "gpus")}
    return Container(name="placeholder", command=command, args=arguments, requests=Amounts(**known))
