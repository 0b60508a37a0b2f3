"""Every answer below the prefixes of the original is written here: the status, the envelope, and the data in the form
of the original, chosen by the type of the view or, for data without a type of its own, by the route.

A view of a type that the original does not have is passed on as it is. tests/unit/test_answers_of_the_original.py
compares the types and routes with those of the API.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from bcs_scheduler.api.http.errors import NOT_LEADING, ApiError
from bcs_scheduler.api.http.operation import BASE, Answer, Answered, Call, Listing, Operation
from bcs_scheduler.api.objects.custom import CustomObjectView
from bcs_scheduler.api.objects.webhooks import WebhookView
from bcs_scheduler.api.original import forms
from bcs_scheduler.api.original.forms import Json, text_of, whole
from bcs_scheduler.api.views.agents import AgentView, ClusterResource, SettingView
from bcs_scheduler.api.views.applications import ApplicationView
from bcs_scheduler.api.views.base import KeptMeta, Meta
from bcs_scheduler.api.views.deployments import DeploymentView, SideView, StrategyView
from bcs_scheduler.api.views.messages import TYPES, CommandView, MessageView, show_message
from bcs_scheduler.api.views.taskgroups import PortMapping, TaskGroupView, TaskView
from bcs_scheduler.api.views.transactions import TransactionView
from bcs_scheduler.api.views.versions import VersionView
from bcs_scheduler.wire.problems import FieldWarning
from bcs_scheduler.wire.redaction import hide
from bcs_scheduler.wire.times import rfc3339
from store.ids import TaskId, object_key
from store.records import Version
from store.records.definition import Amounts, Container
from store.state.reader import StateReader

SHOWN_PROBLEMS = 10
"""Problems, and warnings, of a document that the message names."""
KILLED = -1
"""Exit code of a command that was killed before it ended."""
_NO_CONTAINER = Container()


# --- envelope -------------------------------------------------------------------------------------------------


def status_of(status: int, method: str, reason: str | None = None) -> int:
    """The HTTP status for an answer that has `status` elsewhere: always 200, because clients of the original read the
    code of the envelope, and show nothing of an answer with another status. Not 200 are the answer to HEAD, which has
    no envelope, and the way to the leader, which HTTP libraries follow by themselves."""
    return status if method == "HEAD" or reason == NOT_LEADING else 200


def message_of(warnings: Sequence[FieldWarning]) -> str:
    """The message of a success: clients of the original show no other part of an answer to their users."""
    if not warnings:
        return "success"
    return f"success; {_listed('warning', [_warning(one) for one in warnings])}"


def _warning(warning: FieldWarning) -> str:
    hint = f" ({warning.hint})" if warning.hint else ""
    return f"{warning.path}: {warning.message}{hint}"


def _listed(word: str, texts: Sequence[str]) -> str:
    more = f"; {len(texts) - SHOWN_PROBLEMS} more" if len(texts) > SHOWN_PROBLEMS else ""
    return f"{word}{'s' if len(texts) > 1 else ''}: {'; '.join(texts[:SHOWN_PROBLEMS])}{more}"


def refusal(error: ApiError) -> dict[str, object]:
    """The envelope of a refusal. The message names every problem."""
    envelope = error.envelope()
    if len(error.problems) > 1 and error.reason == "invalid":
        texts = [f"{problem.path}: {problem.message}" for problem in error.problems]
        envelope["message"] = _listed("problem", texts)
    return envelope


# --- data -----------------------------------------------------------------------------------------------------


def written(operation: Operation, call: Call, answered: Answered) -> Answered:
    """The answer of the operation in the form of the original."""
    if not isinstance(answered, Answer | Listing):
        return answered
    writer = Writer(call.state())
    by_route = ROUTES.get((operation.method, operation.path.removeprefix(BASE)))

    def show(value: Any) -> Any:
        return by_route(writer, value) if by_route is not None else writer.value(value)

    if isinstance(answered, Listing):
        return Listing(map(show, answered.items))
    return answered._replace(
        data=[show(one) for one in answered.data] if type(answered.data) is list else show(answered.data)
    )


@dataclass(slots=True)
class Writer:
    """Writes the views of one answer. Parts of versions are made once for all their taskgroups."""

    state: StateReader
    _versions: dict[tuple[str, str], Version] = field(default_factory=dict)
    _definitions: dict[tuple[str, str, int], Json] = field(default_factory=dict)

    def value(self, value: Any) -> Any:
        """A view, or any other value, in the form of the original."""
        if isinstance(value, msgspec.Raw):
            raise TypeError("a view must not be encoded before it is written for the original")
        write = FORMS.get(type(value))
        return write(self, value) if write is not None else value

    def version(self, key: str, name: str) -> Version | None:
        return self.state.version(key, name) if name else None

    # --- workloads --------------------------------------------------------------------------------------------

    def application(self, view: ApplicationView) -> Json:
        pods = [] if view.pods is msgspec.UNSET else [{"name": pod.name} for pod in view.pods]
        return {
            "Kind": view.kind,
            "ID": view.id,
            "Name": view.name,
            "ObjectMeta": meta(view.object_meta),
            "DefineInstances": view.define_instances,
            "Instances": view.instances,
            "RunningInstances": view.running_instances,
            "RunAs": view.run_as,
            "ClusterId": view.cluster_id,
            "Status": view.status,
            "SubStatus": view.sub_status,
            "LastStatus": view.last_status,
            "Created": view.created,
            "UpdateTime": view.update_time,
            "LastUpdateTime": view.last_update_time,
            "Mode": view.mode,
            "Message": view.message,
            "Pods": pods,
        }

    def stored_version(self, view: VersionView) -> Json | None:
        record = self.version(object_key(view.run_as, view.id), view.name)
        return forms.version(record) if record is not None else None

    def taskgroup(self, view: TaskGroupView) -> Json:
        tasks = [self._task(task, view.version_name) for task in view.taskgroup]
        return {
            "Kind": view.kind,
            "ID": view.id,
            "Name": view.name,
            "AppID": view.app_id,
            "RunAs": view.run_as,
            "ObjectMeta": meta(view.object_meta),
            "InstanceID": view.instance_id,
            "AgentID": view.agent_id,
            "ExecutorID": view.executor_id,
            "HostName": view.host_name,
            "Attributes": [msgspec.to_builtins(attribute) for attribute in view.attributes],
            "Status": view.status,
            "LastStatus": view.last_status,
            "Message": view.message,
            "StartTime": view.start_time,
            "UpdateTime": view.update_time,
            "LastUpdateTime": view.last_update_time,
            "Taskgroup": tasks,
            "KillPolicy": forms.kill_policy(view.kill_policy),
            "RestartPolicy": forms.restart_policy(view.restart_policy),
            "VersionName": view.version_name,
            "ReschededTimes": view.resched_times,
            "LastReschedTime": view.last_resched_time,
            "LaunchResource": forms.resources(view.launch_resource),
            "CurrResource": forms.resources(view.curr_resource),
            "BcsEventMsg": None,
        }

    def task(self, view: TaskView) -> Json:
        identity = TaskId.parse(view.id)
        group = self.state.taskgroups.get(str(identity.taskgroup)) if identity is not None else None
        return self._task(view, group.version if group is not None else "")

    def _task(self, view: TaskView, version: str) -> Json:
        identity = TaskId.parse(view.id)
        ports = [_port(port) for port in view.port_mappings]
        return {
            **self._definition(view, version, identity.number if identity is not None else 0),
            "ID": view.id,
            "Name": view.name,
            "Hostame": view.hostame,
            "PortMappings": ports,
            "HealthCheckStatus": [
                {"type": check.type, "result": check.result, "message": check.message}
                for check in view.health_check_status
            ],
            "Healthy": view.healthy,
            "IsChecked": view.is_checked,
            "ConsecutiveFailureTimes": view.consecutive_failure_times,
            "LocalMaxConsecutiveFailures": view.local_max_consecutive_failures,
            "OfferId": "",
            "AgentId": view.agent_id,
            "AgentHostname": view.agent_hostname,
            "AgentIPAddress": view.agent_ip_address,
            "Status": view.status,
            "LastStatus": view.last_status,
            "Message": view.message,
            "UpdateTime": view.update_time,
            "LastUpdateTime": view.last_update_time,
            "StatusData": _status_data(view),
        }

    def _definition(self, view: TaskView, version: str, number: int) -> Json:
        """The part of a task that is the same in all taskgroups of its version."""
        key = object_key(view.run_as, view.app_id)
        known = self._definitions.get((key, version, number))
        if known is not None:
            return known
        record = self.version(key, version) or Version(namespace=view.run_as, application=view.app_id)
        container = record.containers[number] if number < len(record.containers) else _NO_CONTAINER
        made = {
            "Kind": view.kind,
            "AppId": view.app_id,
            "RunAs": view.run_as,
            "Command": view.command,
            "Arguments": view.arguments,
            "Image": view.image,
            "ImagePullUser": container.image_pull_user,
            "ImagePullPasswd": hide(container.image_pull_password),
            "Network": view.network,
            "NetworkType": view.network_type,
            "Privileged": container.privileged,
            "Parameters": forms.parameters(container),
            "ForcePullImage": container.image_pull_policy == "Always",
            "Volumes": forms.volumes(container.volumes),
            "Env": forms.environment(container),
            "Labels": view.labels,
            "DataClass": forms.data_class(record, container),
            "KillPolicy": forms.kill_policy(view.kill_policy),
            "Uris": forms.uris(container.uris),
            "NetLimit": forms.net_limit(record),
            "Cpuset": False,
            "HealthChecks": forms.health_checks(container.health_checks),
        }
        self._definitions[(key, version, number)] = made
        return made

    def deployment(self, view: DeploymentView) -> Json:
        return {
            "metadata": meta(view.metadata),
            "selector": view.selector,
            "strategy": _strategy(view.strategy),
            "status": view.status,
            "application": _side(view.application),
            "application_ext": _side(view.application_ext),
            "last_rolling_time": view.last_rolling_time,
            "curr_rolling_operation": view.curr_rolling_operation,
            "is_in_rolling": view.is_in_rolling,
            "check_time": view.check_time,
            "message": view.message,
            "raw_json": _parsed(view.raw_json),
            "raw_json_backup": _parsed(view.raw_json_backup),
        }

    def transaction(self, view: TransactionView) -> Json:
        key = object_key(view.namespace, view.object_name)
        record = self.version(key, view.version)
        ((name, data),) = ((name, data) for name, data in view.cur_op.items() if name != "opType")
        if "version" in data or name == "opRescheduleData":
            data = {**data, "version": forms.version(record) if record is not None else None}
        needed = _needed(record)
        match name:
            case "opLaunchData":
                data = {**data, "schedulerNum": 0, "resource": needed, "reason": view.message}
            case "opScaleData":
                down = len(self.state.groups_of(key)) > view.target
                data = {**data, "schedulerNum": 0, "needResource": needed, "isDown": down}
            case "opUpdateData":
                data = {**data, "resource": needed, "taskgroups": [], "isUpdateResource": False}
            case "opRescheduleData":
                data = {**data, "resource": needed, "schedulerNum": 0}
        return {
            "transactionID": view.transaction_id,
            "objectKind": view.object_kind,
            "objectName": view.object_name,
            "namespace": view.namespace,
            "status": view.status,
            "message": view.message,
            "createTime": view.create_time,
            "checkInterval": view.check_interval,
            "delayTime": view.delay_time,
            "childTransactionID": view.child_transaction_id,
            "preOp": None,
            "curOp": {"opType": view.cur_op["opType"], name: data},
        }

    # --- documents for executors ------------------------------------------------------------------------------

    def command(self, view: CommandView) -> Json:
        spec = view.spec
        target = spec.get("commandTargetRef", {})
        return {
            "id": view.id,
            "createTime": view.create_time,
            "spec": {
                "commandTargetRef": {key: target.get(key, "") for key in ("kind", "namespace", "name", "image")},
                "taskgroups": spec.get("taskgroups", []),
                "command": spec.get("command", []),
                "env": spec.get("env", []),
                "user": spec.get("user", ""),
                "workingDir": spec.get("workingDir", ""),
                "privileged": spec.get("privileged", False),
                "reserveTime": spec.get("reserveTime", 0),
            },
            "status": {
                "taskgroups": [
                    {
                        "taskgroupId": group.taskgroup_id,
                        "tasks": [
                            {
                                "taskId": task.task_id,
                                "status": task.status,
                                "message": task.message,
                                "commInspect": {
                                    "exitCode": KILLED if output.exit_code is None else output.exit_code,
                                    "stdout": output.stdout,
                                    "stderr": output.stderr,
                                }
                                if (output := task.comm_inspect) is not None
                                else None,
                            }
                            for task in group.tasks
                        ],
                    }
                    for group in view.status.taskgroups
                ]
            },
        }

    def command_id(self, data: Any) -> Any:
        """The id of a command that was started; the plan of a dry run as it is."""
        return data.get("commandID", data) if isinstance(data, dict) else data

    def sent_message(self, data: Any) -> Any:
        """The message to the one taskgroup of the request; the plan of a dry run as it is."""
        messages = data.get("messages", ()) if isinstance(data, dict) else ()
        found = self.state.messages.get(messages[0]["messageID"]) if messages else None
        if found is None:
            return data
        return self.message(show_message(found, self.state.commands.get(found.command)))

    def nothing(self, data: Any) -> None:
        """Null: every taskgroup has been sent the message, or the request is refused."""

    def message(self, view: MessageView) -> Json:
        body = {"CommitTask": {"Tasks": [{"TaskId": None, "Image": view.body.get("target", "")}]}}
        return {
            "Id": view.create_time,
            "Type": view.type,
            "TaskGroupId": view.task_group_id,
            "TaskID": None,
            **(body if view.type == TYPES["commit"] else {}),
            "Status": view.status,
            "Message": view.message,
            "CompleteTime": view.complete_time,
            "CreateTime": view.create_time,
        }

    # --- cluster ----------------------------------------------------------------------------------------------

    def cluster(self, view: ClusterResource) -> Json:
        return {**_totals(view), "agents": [self.agent(agent) for agent in view.agents]}

    def agent(self, view: AgentView) -> Json:
        return {
            **_totals(view),
            "hostname": view.hostname,
            "ip": view.ip,
            "disabled": view.disabled,
            "host_attributes": [_attribute(attribute) for attribute in view.host_attributes],
            "attributes": [_attribute(attribute) for attribute in view.attributes],
            "registered_time": view.registered_time,
            "reregistered_time": view.reregistered_time,
        }

    def setting(self, view: SettingView) -> Json:
        return {
            "innerIP": view.inner_ip,
            "disabled": view.disabled,
            "strings": view.strings,
            "scalars": {name: {"value": float(item["value"])} for name, item in view.scalars.items()},
            "noSchedule": view.no_schedule,
            "pods": view.pods,
            "ExtendedResources": view.extended_resources,
        }

    def offer(self, offer: Mapping[str, Any]) -> Json:
        names = ("id", "framework_id", "agent_id", "hostname", "resources", "attributes", "deltaResource")
        attributes = [_attribute(attribute) for attribute in offer["attributes"]]
        return {**{name: offer[name] for name in names}, "url": None, "attributes": attributes}

    def servers(self, view: Any) -> Json:
        named = {
            name: [
                {
                    "ip": server.ip,
                    "ipv6": "",
                    "port": server.port,
                    "grpc_port": 0,
                    "metric_port": server.port,
                    "hostname": server.hostname,
                    "scheme": server.scheme,
                    "version": server.version,
                    "cluster": server.cluster,
                    "pid": 0,
                    "external_ip": "",
                    "external_ipv6": "",
                    "external_port": 0,
                }
                for server in getattr(view, name)
            ]
            for name in ("mesosscheduler", "mesosmaster")
        }
        return dict(named)

    # --- objects ----------------------------------------------------------------------------------------------

    def definition(self, document: Any) -> Json:
        return forms.definition(document)

    def webhook(self, view: WebhookView) -> Json:
        return {
            "apiVersion": view.api_version,
            "kind": view.kind,
            "metadata": meta(view.metadata),
            "resourcesRef": {"operation": view.resources_ref.operation, "kind": view.resources_ref.kind},
            "admissionWebhooks": [
                {
                    "name": hook.name,
                    "failurePolicy": hook.failure_policy,
                    "clientConfig": {
                        "url": hook.client_config.url,
                        "caBundle": hook.client_config.ca_bundle,
                        "namespace": "",
                        "name": "",
                        "path": "",
                        "port": 0,
                    },
                    "namespaceSelector": {
                        "operator": hook.namespace_selector.operator,
                        "values": hook.namespace_selector.values,
                    }
                    if hook.namespace_selector is not None
                    else None,
                }
                for hook in view.admission_webhooks
            ],
        }

    def custom_object(self, view: CustomObjectView) -> Json:
        return {
            "apiVersion": view.api_version,
            "kind": view.kind,
            "metadata": meta(view.metadata),
            "spec": view.spec,
            "status": view.status,
        }


def meta(view: Meta | KeptMeta) -> Json:
    return forms.metadata(view.name, view.namespace, view.creation_timestamp, view.labels, view.annotations)


def _needed(record: Version | None) -> Json:
    """The resources of one taskgroup."""
    requests = [container.requests for container in record.containers] if record is not None else []
    return forms.amounts(
        Amounts(
            cpus=sum(one.cpus for one in requests),
            mem=sum(one.mem for one in requests),
            disk=sum(one.disk for one in requests),
        )
    )


def _port(port: PortMapping) -> Json:
    return {
        "Name": port.name,
        "Protocol": port.protocol,
        "ContainerPort": port.container_port,
        "HostPort": port.host_port,
    }


def _status_data(view: TaskView) -> str:
    """The report of the executor as JSON text. Ports are text there."""
    data = {
        "ID": view.container_id or view.id,
        "Name": view.name,
        "Pid": view.pid,
        "StartAt": rfc3339(view.start_time),
        "FinishAt": rfc3339(view.finish_time),
        "Status": view.status,
        "Healthy": view.healthy,
        "IsChecked": view.is_checked,
        "ConsecutiveFailureTimes": view.consecutive_failure_times,
        "ExitCode": view.exit_code or 0,
        "Hostname": view.agent_hostname,
        "NetworkMode": view.network,
        "IPAddress": view.container_ip,
        "NodeAddress": view.agent_ip_address,
        "Ports": [
            {
                "Name": port.name,
                "Protocol": port.protocol,
                "ContainerPort": str(port.container_port),
                "HostPort": str(port.host_port),
            }
            for port in view.port_mappings
        ],
        "Message": view.message,
        "Resource": forms.resources(view.resources),
        "BcsMessage": None,
        "OOMKilled": view.oom_killed,
    }
    return text_of(data)


def _strategy(view: StrategyView) -> Json:
    rolling = view.rollingupdate
    return {
        "type": view.type,
        "rollingupdate": {
            "maxUnavilable": rolling.max_unavilable,
            "maxSurge": rolling.max_surge,
            "upgradeDuration": whole(rolling.upgrade_duration),
            "rollingOrder": rolling.rolling_order,
            "rollingManually": rolling.rolling_manually,
        },
    }


def _side(view: SideView | None) -> Json | None:
    if view is None:
        return None
    return {
        "name": view.name,
        "curr_target_instances": view.curr_target_instances,
        "CurrentRollingInstances": view.current_rolling_instances,
    }


def _parsed(raw: str) -> Json | None:
    """A document that a view holds as text, already without passwords."""
    return forms.definition(msgspec.json.decode(raw)) if raw else None


def _totals(view: ClusterResource | AgentView) -> Json:
    names = ("disktotal", "memtotal", "cputotal", "diskused", "memused", "cpuused")
    return {name: float(getattr(view, name)) for name in names}


def _attribute(attribute: Mapping[str, Any]) -> Json:
    """Scalars are floating-point numbers there."""
    if "scalar" not in attribute:
        return dict(attribute)
    return {**attribute, "scalar": {"value": float(attribute["scalar"]["value"])}}


FORMS: Mapping[type, Callable[[Writer, Any], Any]] = {
    ApplicationView: Writer.application,
    VersionView: Writer.stored_version,
    TaskGroupView: Writer.taskgroup,
    TaskView: Writer.task,
    DeploymentView: Writer.deployment,
    TransactionView: Writer.transaction,
    CommandView: Writer.command,
    MessageView: Writer.message,
    ClusterResource: Writer.cluster,
    AgentView: Writer.agent,
    SettingView: Writer.setting,
    WebhookView: Writer.webhook,
    CustomObjectView: Writer.custom_object,
}
"""The form of the original by the type of a view."""
_COMMANDS = ("/command/application/{ns}/{name}", "/command/deployment/{ns}/{name}")
_GROUP = "/namespaces/{ns}/applications/{name}/taskgroups/{taskgroup}"
ROUTES: Mapping[tuple[str, str], Callable[[Writer, Any], Any]] = {
    **{("GET", f"/definition/{kind}/{{ns}}/{{name}}"): Writer.definition for kind in ("application", "deployment")},
    **{("POST", path): Writer.command_id for path in _COMMANDS},
    **{
        ("POST", f"{path}/{verb}"): Writer.sent_message
        for path in (_GROUP, "/taskgroup/{taskgroup}")
        for verb in ("restart", "reload")
    },
    ("POST", "/image/commit/{taskgroup}"): Writer.sent_message,
    **{
        ("POST", path): Writer.nothing
        for path in (
            "/namespaces/{ns}/applications/{name}/message",
            f"{_GROUP}/message",
            "/apps/{ns}/{name}/message",
            "/apps/{ns}/{name}/message/{taskgroup}",
        )
    },
    ("GET", "/cluster/endpoints"): Writer.servers,
    ("GET", "/cluster/current/offers"): Writer.offer,
}
"""The form of the original by method and path of the operation, where the data has no view of its own."""
