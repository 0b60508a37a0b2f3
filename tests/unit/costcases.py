"""One case for every kind of event and command: what is done before, and the events whose cost is measured.

A case is prepared anew, under a name of its own, for every measurement. Everything it concerns is made by the case
itself, so it is of the same size beside 1,000 and beside 50,000 taskgroups.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from bcs_scheduler.core.controllers.cluster.unknown_tasks import QUIET
from bcs_scheduler.core.interface import cluster_manager, inputs, leased, managed, requests, unknown
from bcs_scheduler.core.interface.cluster_manager import CheckReport, TaskDetail
from benchmarks.synthetic import CONTAINER, SPACE, World, agent_name, listed, version
from offers.model import Offer
from store.records import (
    ANNOTATION_OF_TASK,
    GROUP_ANNOTATION,
    ConfigItem,
    ConfigMap,
    CustomKind,
    CustomObject,
    Daemonset,
    Deployment,
    LossHalt,
    ManagedApplication,
    ManagedTask,
    MemberGroup,
    Namespace,
    PodGroup,
    PriorityClass,
    Queue,
    Quota,
    Secret,
    Service,
    ServicePort,
    TaskGroup,
    UnknownHalt,
    Webhook,
)
from store.records.definition import Constraint, HealthCheck
from transactions.rules.task_states import TaskState

Batch = tuple[inputs.Input, ...]
Prepare = Callable[[World, str], Batch]
ONE = 1


class Case(NamedTuple):
    kind: type[inputs.Input]
    name: str
    prepare: Prepare
    share: Callable[[World], int]
    """How many objects the events concern: their cost is divided by this number."""


CASES: list[Case] = []


def _one(world: World) -> int:
    return 1


def per_agent(world: World) -> int:
    return world.agents


def per_taskgroup(world: World) -> int:
    return len(world.core.state.taskgroups)


def case(kind: type[inputs.Input], share: Callable[[World], int] = _one) -> Callable[[Prepare], Prepare]:
    def add(prepare: Prepare) -> Prepare:
        CASES.append(Case(kind, prepare.__name__, prepare, share))
        return prepare

    return add


# --- what cases are made of -----------------------------------------------------------------------------------


CHECKED = (
    CONTAINER.__class__(
        command="serve",
        requests=CONTAINER.requests,
        health_checks=(HealthCheck(type="REMOTE_TCP", port=80), HealthCheck(type="HTTP", port=80)),
    ),
)
HERE = ((Constraint(name="hostname", operator="CLUSTER", items=("host-1", "host-2")),),)


def ask(world: World, command: requests.Request) -> dict[str, Any]:
    """The data of the answer; what follows from the command is done."""
    world.turn(command)
    reply = world.replies[-1]
    assert not reply.error, reply.message
    world.rest()
    return dict(reply.data or {})


def running(world: World, name: str, instances: int = 1, **fields: Any) -> list[TaskGroup]:
    """Taskgroups of a new application that runs."""
    ask(world, requests.CreateApplication(version=version(SPACE, name, instances, **fields)))
    groups = list(world.core.state.groups_of(f"{SPACE}/{name}").values())
    assert [group.status for group in groups] == ["Running"] * instances
    return groups


def deployed(world: World, name: str, revision: str = "1") -> None:
    ask(world, create_deployment(world, name)[0])  # type: ignore[arg-type]
    assert world.core.state.deployments[f"{SPACE}/{name}"].status == "Running"


def everywhere(world: World, name: str) -> None:
    ask(world, create_daemonset(world, name)[0])  # type: ignore[arg-type]
    found = world.core.state.daemonsets[f"{SPACE}/{name}"]
    assert found.status == "Running", found


def one(events_: inputs.Input) -> Batch:
    return (events_,)


def detail(healthy: bool) -> TaskDetail:
    return TaskDetail(pid=7, checks=(CheckReport(type="HTTP", healthy=healthy),))


# --- from Mesos -----------------------------------------------------------------------------------------------


@case(cluster_manager.Connected, per_taskgroup)
def subscribed(world: World, name: str) -> Batch:
    """Puts every task in question."""
    world.connected()
    world.turn(cluster_manager.Disconnected())
    return one(cluster_manager.Connected(framework_id="framework", cluster="cluster"))


@case(cluster_manager.Disconnected, per_agent)
def disconnected(world: World, name: str) -> Batch:
    """Every offer is void."""
    world.connected()
    return one(cluster_manager.Disconnected())


@case(cluster_manager.RegistrationRevoked, per_agent)
def framework_removed(world: World, name: str) -> Batch:
    world.connected()
    return one(cluster_manager.RegistrationRevoked(message="removed"))


@case(leased.OffersArrived)
def offers_arrived(world: World, name: str) -> Batch:
    return one(leased.OffersArrived(offers=(world.offer(1),)))


@case(leased.OffersArrived)
def offers_that_a_waiting_demand_looks_at(world: World, name: str) -> Batch:
    """What waits has asked for so much that no agent can take it."""
    huge = CONTAINER.__class__(command="serve", requests=CONTAINER.requests.__class__(cpus=10**7))
    if f"{SPACE}/huge" not in world.core.state.applications:
        ask(world, requests.CreateApplication(version=version(SPACE, "huge", 1, containers=(huge,))))
    offer = world.offer(1)
    world.after = lambda: ask(world, requests.DeleteApplication(namespace=SPACE, name="huge", enforce=True))
    return one(leased.OffersArrived(offers=(offer,)))


@case(leased.OfferRescinded)
def offer_rescinded(world: World, name: str) -> Batch:
    offer: Offer = world.offer(1)
    world.turn(leased.OffersArrived(offers=(offer,)))
    return one(leased.OfferRescinded(offer_id=offer.id))


@case(leased.InverseOffersArrived)
def inverse_offers(world: World, name: str) -> Batch:
    return one(leased.InverseOffersArrived(offers=((name, agent_name(1), world.now),)))


@case(cluster_manager.StatusUpdate)
def a_task_starts(world: World, name: str) -> Batch:
    world.turn(requests.CreateApplication(version=version(SPACE, name, 1)))
    report, *others = world.answers()
    assert isinstance(report, cluster_manager.StatusUpdate)
    world.turn(*others)
    return one(report)


@case(cluster_manager.StatusUpdate)
def a_report_that_changes_nothing(world: World, name: str) -> Batch:
    (group,) = running(world, name)
    return tuple(world.reports(group, "RUNNING"))


@case(cluster_manager.StatusUpdate)
def a_task_fails(world: World, name: str) -> Batch:
    (group,) = running(world, name)
    return tuple(world.reports(group, "FAILED"))


@case(cluster_manager.StatusUpdate)
def a_task_of_a_service_fails(world: World, name: str) -> Batch:
    (group,) = running(world, name)
    port = ServicePort(name="http", service_port=80)
    ask(world, requests.PutService(service=Service(namespace=SPACE, name=name, selector={"app": name}, ports=(port,))))
    return tuple(world.reports(group, "FAILED"))


@case(cluster_manager.StatusUpdate)
def a_task_of_a_deployment_fails(world: World, name: str) -> Batch:
    deployed(world, name)
    (group,) = world.core.state.groups_of(f"{SPACE}/{name}").values()
    return tuple(world.reports(group, "FAILED"))


@case(cluster_manager.StatusUpdate)
def a_task_of_a_daemonset_fails(world: World, name: str) -> Batch:
    everywhere(world, name)
    group = next(iter(world.core.state.groups_of(f"{SPACE}/{name}").values()))
    return tuple(world.reports(group, "FAILED"))


@case(cluster_manager.StatusUpdate)
def a_task_is_unreachable(world: World, name: str) -> Batch:
    (group,) = running(world, name)
    return tuple(world.reports(group, "UNREACHABLE"))


@case(cluster_manager.StatusUpdate)
def a_task_nobody_knows(world: World, name: str) -> Batch:
    return one(world.report("1.0.0.none.none.cluster", agent_name(1), "RUNNING"))


@case(cluster_manager.TasksReported)
def a_steady_report(world: World, name: str) -> Batch:
    (group,) = running(world, name, containers=CHECKED)
    task = group.tasks[0].id
    return one(
        cluster_manager.TasksReported(
            agent_id=group.agent_id, executor_id=group.id, tasks=((task, detail(healthy=True)),)
        )
    )


@case(cluster_manager.MessageAnswered)
def a_message_is_answered(world: World, name: str) -> Batch:
    (group,) = running(world, name)
    ask(world, requests.CreateCommand(namespace=SPACE, name=name, type="command", body={"command": ["true"]}))
    (message,) = world.core.state.open_messages_of(group.id)
    return one(
        cluster_manager.MessageAnswered(
            agent_id=group.agent_id, executor_id=group.id, message_id=message, status="success", message="done"
        )
    )


@case(cluster_manager.OutputReported)
def a_failed_task_has_said_something(world: World, name: str) -> Batch:
    (group,) = running(world, name)
    return one(
        cluster_manager.OutputReported(
            agent_id=group.agent_id, executor_id=group.id, task_id=group.tasks[0].id, data=bytes(1000)
        )
    )


@case(inputs.TermBegan)
def a_term_begins(world: World, name: str) -> Batch:
    return one(inputs.TermBegan(scheduler="http://127.0.0.1:31000", epoch=7, cause="takeover"))


@case(inputs.HealthReported)
def a_prober_reports(world: World, name: str) -> Batch:
    (group,) = running(world, name, containers=CHECKED)
    return one(inputs.HealthReported(task_id=group.tasks[0].id, type="REMOTE_TCP", healthy=False, message="refused"))


@case(cluster_manager.ExecutorTerminated)
def an_executor_terminates(world: World, name: str) -> Batch:
    (group,) = running(world, name)
    return one(cluster_manager.ExecutorTerminated(agent_id=group.agent_id, executor_id=group.id, status=9))


@case(cluster_manager.AgentRemoved)
def an_agent_is_removed(world: World, name: str) -> Batch:
    number = int(name.rpartition("-")[2]) + 10
    world.after = lambda: world.agent_back(number)
    return one(cluster_manager.AgentRemoved(agent_id=agent_name(number)))


@case(cluster_manager.LaunchFailed)
def an_accept_is_refused(world: World, name: str) -> Batch:
    world.turn(requests.CreateApplication(version=version(SPACE, name, 1)))
    (group,) = world.core.state.groups_of(f"{SPACE}/{name}")
    world.turn(*[event for event in world.answers() if isinstance(event, leased.OffersArrived)])
    return one(cluster_manager.LaunchFailed(taskgroups=(group,), reason="offer is gone", certain=True))


@case(cluster_manager.AgentsListed, per_agent)
def agents_are_listed(world: World, name: str) -> Batch:
    return one(cluster_manager.AgentsListed(agents=listed(range(world.agents))))


@case(cluster_manager.AgentsListed, per_agent)
def an_agent_is_missing_from_the_list(world: World, name: str) -> Batch:
    everybody = cluster_manager.AgentsListed(agents=listed(range(world.agents)))
    world.turn(everybody)
    world.after = lambda: world.turn(everybody)
    return one(cluster_manager.AgentsListed(agents=listed(range(world.agents - 1))))


# --- time -----------------------------------------------------------------------------------------------------


@case(inputs.Tick)
def nothing_happens(world: World, name: str) -> Batch:
    return ()


# --- applications ---------------------------------------------------------------------------------------------


@case(requests.CreateApplication)
def create_application(world: World, name: str) -> Batch:
    return one(requests.CreateApplication(version=version(SPACE, name, 1)))


@case(requests.CreateApplication)
def plan_of_an_application(world: World, name: str) -> Batch:
    return one(requests.CreateApplication(version=version(SPACE, name, 1), dry_run=True))


@case(requests.PlanRequests)
def plan_of_two_applications(world: World, name: str) -> Batch:
    asked = [requests.CreateApplication(version=version(SPACE, f"{name}-{n}", 1), dry_run=True) for n in range(2)]
    return one(requests.PlanRequests(requests=tuple(asked)))


@case(requests.AskWhatIf)
def what_if_of_an_application_without_open_taskgroups(world: World, name: str) -> Batch:
    running(world, name)
    return one(requests.AskWhatIf(namespace=SPACE, name=name))


@case(requests.UpdateApplication)
def update_application(world: World, name: str) -> Batch:
    running(world, name)
    return one(requests.UpdateApplication(version=version(SPACE, name, 1, labels={"app": name, "revision": "2"})))


@case(requests.UpdateApplication)
def plan_of_an_update(world: World, name: str) -> Batch:
    running(world, name)
    changed = version(SPACE, name, 1, labels={"app": name, "revision": "2"})
    return one(requests.UpdateApplication(version=changed, dry_run=True))


@case(requests.RollbackApplication)
def roll_back_application(world: World, name: str) -> Batch:
    ask(world, update_application(world, name)[0])  # type: ignore[arg-type]
    return one(requests.RollbackApplication(namespace=SPACE, name=name))


@case(requests.ScaleApplication)
def scale_up(world: World, name: str) -> Batch:
    running(world, name)
    return one(requests.ScaleApplication(namespace=SPACE, name=name, instances=2))


@case(requests.ScaleApplication)
def scale_down(world: World, name: str) -> Batch:
    running(world, name, 2)
    return one(requests.ScaleApplication(namespace=SPACE, name=name, instances=1))


@case(requests.DeleteApplication)
def delete_application(world: World, name: str) -> Batch:
    running(world, name)
    return one(requests.DeleteApplication(namespace=SPACE, name=name))


@case(requests.RescheduleTaskGroup)
def reschedule(world: World, name: str) -> Batch:
    (group,) = running(world, name)
    return one(requests.RescheduleTaskGroup(taskgroup=group.id))


@case(requests.CancelTransaction)
def cancel(world: World, name: str) -> Batch:
    (group,) = running(world, name)
    world.turn(requests.RescheduleTaskGroup(taskgroup=group.id))
    (transaction,) = world.core.state.active_of(f"{SPACE}/{name}")
    world.answers()
    return one(requests.CancelTransaction(id=transaction))


@case(requests.ReportHealth)
def report_health(world: World, name: str) -> Batch:
    (group,) = running(world, name, containers=CHECKED)
    return one(requests.ReportHealth(task_id=group.tasks[0].id, type="REMOTE_TCP", healthy=False))


@case(requests.CreateCommand)
def create_command(world: World, name: str) -> Batch:
    running(world, name)
    return one(requests.CreateCommand(namespace=SPACE, name=name, type="command", body={"command": ["true"]}))


@case(requests.DeleteCommand)
def delete_command(world: World, name: str) -> Batch:
    running(world, name)
    ask(world, create_command_again(name))
    command = max(world.core.state.commands, key=lambda key: int(key.rpartition("-")[2]))
    return one(requests.DeleteCommand(id=command))


def create_command_again(name: str) -> requests.CreateCommand:
    return requests.CreateCommand(namespace=SPACE, name=name, type="command", body={"command": ["true"]})


# --- agents ---------------------------------------------------------------------------------------------------


@case(requests.SetAgent)
def set_agent(world: World, name: str) -> Batch:
    return one(requests.SetAgent(agent="10.0.0.3", strings={"zone": name}))


@case(requests.DeleteAgentSetting)
def delete_agent_setting(world: World, name: str) -> Batch:
    ask(world, requests.SetAgent(agent="10.0.0.3", strings={"zone": name}))
    return one(requests.DeleteAgentSetting(agent="10.0.0.3"))


@case(requests.DrainAgent)
def drain_agent(world: World, name: str) -> Batch:
    """Its taskgroups are the same few everywhere."""
    world.after = lambda: (
        ask(world, requests.SetAgent(agent="10.0.0.5", disabled=False)),
        ask(world, requests.DeleteAgentSetting(agent="10.0.0.5")),
    )
    return one(requests.DrainAgent(agent="10.0.0.5"))


@case(requests.PlanAgents)
def plan_agents(world: World, name: str) -> Batch:
    """Its taskgroups are the same few everywhere."""
    return one(requests.PlanAgents(agents=("10.0.0.5",), drain=True))


@case(requests.ResumeReplacements)
def resume_replacements(world: World, name: str) -> Batch:
    """No taskgroup is lost any more."""
    halt = LossHalt(since=world.now, agents=9, taskgroups=90, total=100)
    framework = world.core.state.framework
    world.core.state.apply("framework", "framework", msgspec.structs.replace(framework, halt=halt))
    return one(requests.ResumeReplacements())


def unknown_task(application: str) -> cluster_manager.StatusUpdate:
    """A task that runs and that the store does not know; its id is older than all records."""
    task = f"1500000000000000000.0.0.{application}.default.c"
    return cluster_manager.StatusUpdate(
        task_id=task, state=TaskState.RUNNING, agent_id=agent_name(3), uuid=application.encode()
    )


@case(cluster_manager.StatusUpdate)
def a_task_that_the_store_does_not_know(world: World, name: str) -> Batch:
    return one(unknown_task(f"old-{name}"))


@case(unknown.DecideUnknown)
def an_operator_decides_about_an_unknown_task(world: World, name: str) -> Batch:
    """The halt ends."""
    halt = UnknownHalt(since=world.now, taskgroups=2, total=100, newer=0)
    framework = world.core.state.framework
    world.core.state.apply("framework", "framework", msgspec.structs.replace(framework, unknown=halt))
    world.core.unknown_tasks.heard(unknown_task(f"ended-{name}"), ended=False, runs=True)
    world.turn(after=2 * QUIET)
    assert world.core.unknown_tasks.is_complete
    return one(unknown.DecideUnknown(decision="end"))


# --- deployments ----------------------------------------------------------------------------------------------


@case(requests.CreateDeployment)
def create_deployment(world: World, name: str) -> Batch:
    wanted = Deployment(namespace=SPACE, name=name, instances=1, selector={"app": name})
    return one(requests.CreateDeployment(deployment=wanted, version=version(SPACE, name, 1)))


@case(requests.CreateDeployment)
def adopt_an_application(world: World, name: str) -> Batch:
    running(world, name)
    wanted = Deployment(namespace=SPACE, name=name, instances=1, selector={"tier": "web", "app": name})
    return one(requests.CreateDeployment(deployment=wanted))


@case(requests.UpdateDeployment)
def update_deployment(world: World, name: str) -> Batch:
    deployed(world, name)
    wanted = Deployment(namespace=SPACE, name=name, instances=1, selector={"app": name})
    changed = version(SPACE, name, 1, labels={"app": name, "revision": "2"})
    return one(requests.UpdateDeployment(deployment=wanted, version=changed))


@case(requests.ControlDeployment)
def restart_deployment(world: World, name: str) -> Batch:
    deployed(world, name)
    return one(requests.ControlDeployment(namespace=SPACE, name=name, action="restart"))


@case(requests.RollbackDeployment)
def roll_back_deployment(world: World, name: str) -> Batch:
    ask(world, update_deployment(world, name)[0])  # type: ignore[arg-type]
    for _ in range(20):
        if world.core.state.deployments[f"{SPACE}/{name}"].status == "Running":
            break
        world.turn(after=0.01)
        world.rest()
    return one(requests.RollbackDeployment(namespace=SPACE, name=name))


@case(requests.ScaleDeployment)
def scale_deployment(world: World, name: str) -> Batch:
    deployed(world, name)
    return one(requests.ScaleDeployment(namespace=SPACE, name=name, instances=2))


@case(requests.DeleteDeployment)
def delete_deployment(world: World, name: str) -> Batch:
    deployed(world, name)
    return one(requests.DeleteDeployment(namespace=SPACE, name=name))


# --- daemonsets -----------------------------------------------------------------------------------------------


def _gone(world: World, name: str) -> None:
    """Daemonsets are asked about every change of an agent, so none may be left by an earlier case."""
    if f"{SPACE}/{name}" in world.core.state.daemonsets:
        ask(world, requests.DeleteDaemonset(namespace=SPACE, name=name))
    assert f"{SPACE}/{name}" not in world.core.state.daemonsets


@case(requests.CreateDaemonset, per_agent)
def create_daemonset(world: World, name: str) -> Batch:
    """Asks every agent whether it is for it."""
    world.after = lambda: _gone(world, name)
    daemonset = Daemonset(namespace=SPACE, name=name)
    return one(requests.CreateDaemonset(daemonset=daemonset, version=version(SPACE, name, 1, constraints=HERE)))


@case(requests.UpdateDaemonset, per_agent)
def update_daemonset(world: World, name: str) -> Batch:
    everywhere(world, name)
    changed = version(SPACE, name, 1, constraints=HERE, labels={"app": name, "revision": "2"})
    return one(requests.UpdateDaemonset(daemonset=Daemonset(namespace=SPACE, name=name), version=changed))


@case(requests.RollbackDaemonset, per_agent)
def roll_back_daemonset(world: World, name: str) -> Batch:
    ask(world, update_daemonset(world, name)[0])  # type: ignore[arg-type]
    return one(requests.RollbackDaemonset(namespace=SPACE, name=name))


@case(requests.RestartDaemonset, per_agent)
def restart_daemonset(world: World, name: str) -> Batch:
    everywhere(world, name)
    return one(requests.RestartDaemonset(namespace=SPACE, name=name))


@case(requests.DeleteDaemonset)
def delete_daemonset(world: World, name: str) -> Batch:
    everywhere(world, name)
    return one(requests.DeleteDaemonset(namespace=SPACE, name=name))


# --- what surrounds applications ------------------------------------------------------------------------------


@case(requests.PutConfigMap)
def put_config_map(world: World, name: str) -> Batch:
    return one(requests.PutConfigMap(config_map=ConfigMap(namespace=SPACE, name=name, items={"a": ConfigItem()})))


@case(requests.DeleteConfigMap)
def delete_config_map(world: World, name: str) -> Batch:
    ask(world, put_config_map(world, name)[0])  # type: ignore[arg-type]
    return one(requests.DeleteConfigMap(namespace=SPACE, name=name))


@case(requests.PutSecret)
def put_secret(world: World, name: str) -> Batch:
    return one(requests.PutSecret(secret=Secret(namespace=SPACE, name=name, items={"a": "YQ=="})))


@case(requests.DeleteSecret)
def delete_secret(world: World, name: str) -> Batch:
    ask(world, put_secret(world, name)[0])  # type: ignore[arg-type]
    return one(requests.DeleteSecret(namespace=SPACE, name=name))


@case(requests.PutService)
def put_service(world: World, name: str) -> Batch:
    running(world, name)
    port = ServicePort(name="http", service_port=80)
    selector = {"app": name, "tier": "web"}
    return one(requests.PutService(service=Service(namespace=SPACE, name=name, selector=selector, ports=(port,))))


@case(requests.DeleteService)
def delete_service(world: World, name: str) -> Batch:
    ask(world, put_service(world, name)[0])  # type: ignore[arg-type]
    return one(requests.DeleteService(namespace=SPACE, name=name))


@case(requests.PutNamespace)
def put_namespace(world: World, name: str) -> Batch:
    return one(requests.PutNamespace(namespace=Namespace(name=name)))


@case(requests.CreateApplication)
def create_application_below_a_quota(world: World, name: str) -> Batch:
    """The first quota of all: the wants of its namespace are summed up, and those of no other."""
    ask(world, requests.PutNamespace(namespace=Namespace(name=name, quota=Quota(taskgroups=5))))
    world.after = lambda: (
        ask(world, requests.DeleteApplication(namespace=name, name=name)),
        ask(world, requests.DeleteNamespace(name=name)),
    )
    return one(requests.CreateApplication(version=version(name, name, 1)))


@case(requests.DeleteNamespace)
def delete_namespace(world: World, name: str) -> Batch:
    ask(world, put_namespace(world, name)[0])  # type: ignore[arg-type]
    return one(requests.DeleteNamespace(name=name))


@case(requests.PutQueue)
def put_queue(world: World, name: str) -> Batch:
    return one(requests.PutQueue(queue=Queue(name=name)))


@case(requests.PutPriorityClass)
def put_priority_class(world: World, name: str) -> Batch:
    return one(requests.PutPriorityClass(priority_class=PriorityClass(name=name)))


@case(requests.DeletePriorityClass)
def delete_priority_class(world: World, name: str) -> Batch:
    ask(world, put_priority_class(world, name)[0])  # type: ignore[arg-type]
    return one(requests.DeletePriorityClass(name=name))


@case(requests.PutPodGroup)
def put_pod_group(world: World, name: str) -> Batch:
    return one(requests.PutPodGroup(pod_group=PodGroup(namespace=SPACE, name=name, min_member=2)))


@case(requests.CreateApplication)
def create_application_in_a_group(world: World, name: str) -> Batch:
    ask(world, put_pod_group(world, name)[0])  # type: ignore[arg-type]
    grouped = version(SPACE, name, 2, annotations={GROUP_ANNOTATION: name})
    return one(requests.CreateApplication(version=grouped))


@case(requests.DeletePodGroup)
def delete_pod_group(world: World, name: str) -> Batch:
    ask(world, put_pod_group(world, name)[0])  # type: ignore[arg-type]
    return one(requests.DeletePodGroup(namespace=SPACE, name=name))


@case(requests.DeleteQueue)
def delete_queue(world: World, name: str) -> Batch:
    ask(world, put_queue(world, name)[0])  # type: ignore[arg-type]
    return one(requests.DeleteQueue(name=name))


@case(requests.PutWebhook)
def put_webhook(world: World, name: str) -> Batch:
    return one(requests.PutWebhook(webhook=Webhook(namespace=SPACE, name=name)))


@case(requests.DeleteWebhook)
def delete_webhook(world: World, name: str) -> Batch:
    ask(world, put_webhook(world, name)[0])  # type: ignore[arg-type]
    return one(requests.DeleteWebhook(namespace=SPACE, name=name))


@case(requests.PutCustomKind)
def put_custom_kind(world: World, name: str) -> Batch:
    return one(requests.PutCustomKind(custom_kind=CustomKind(name=name)))


@case(requests.DeleteCustomKind)
def delete_custom_kind(world: World, name: str) -> Batch:
    ask(world, put_custom_kind(world, name)[0])  # type: ignore[arg-type]
    return one(requests.DeleteCustomKind(name=name))


@case(requests.PutCustomObject)
def put_custom_object(world: World, name: str) -> Batch:
    return one(requests.PutCustomObject(custom_object=CustomObject(type="Kind1", namespace=SPACE, name=name)))


@case(requests.DeleteCustomObject)
def delete_custom_object(world: World, name: str) -> Batch:
    ask(world, put_custom_object(world, name)[0])  # type: ignore[arg-type]
    return one(requests.DeleteCustomObject(type="Kind1", namespace=SPACE, name=name))


# --- from application managers --------------------------------------------------------------------------------


def managed_task(application: str, name: str) -> ManagedTask:
    unit = f"{application}-{name}"
    defined = msgspec.structs.replace(
        version(SPACE, unit, 1), annotations={ANNOTATION_OF_TASK: f"{application}/{name}"}
    )
    request = {"cpus": CONTAINER.requests.cpus, "mem": CONTAINER.requests.mem}
    return ManagedTask(namespace=SPACE, application=application, name=name, unit=unit, version=defined, request=request)


@case(managed.AddManagedApplication)
def add_managed_application(world: World, name: str) -> Batch:
    groups = (MemberGroup(name="w", min_member=2, request={"cpus": 100, "mem": 32_000}),)
    application = ManagedApplication(namespace=SPACE, name=name, manager="spool", task_groups=groups)
    return one(managed.AddManagedApplication(application=application))


@case(managed.AddManagedTask)
def add_managed_task(world: World, name: str) -> Batch:
    ask(
        world,
        managed.AddManagedApplication(application=ManagedApplication(namespace=SPACE, name=name, manager="spool")),
    )
    return one(managed.AddManagedTask(task=managed_task(name, "t")))


@case(managed.EndManagedTask)
def end_managed_task(world: World, name: str) -> Batch:
    ask(world, add_managed_task(world, name)[0])  # type: ignore[arg-type]
    assert f"{SPACE}/{name}-t" in world.core.state.applications
    return one(managed.EndManagedTask(namespace=SPACE, application=name, name="t"))


@case(managed.EndManagedApplication)
def end_managed_application(world: World, name: str) -> Batch:
    ask(world, add_managed_application(world, name)[0])  # type: ignore[arg-type]
    return one(managed.EndManagedApplication(namespace=SPACE, name=name))
