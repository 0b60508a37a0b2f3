"""Requests of the API about applications, about the objects that own or use applications or belong to them, about the
objects of placement policies, and for plans.

Each is answered by exactly one Reply, like every Request. Records in requests come from documents: names, labels and
definitions are filled in; times and all fields that the scheduler sets later are not. `create` says whether the object
must not (True) or must (False) exist; None = either.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from bcs_scheduler.core.interface.inputs import Input
from offers.rebalancing import Goal
from store.ids import object_key
from store.records import (
    CommandType,
    ConfigMap,
    CustomKind,
    CustomObject,
    Daemonset,
    Deployment,
    Namespace,
    PodGroup,
    PriorityClass,
    Queue,
    Secret,
    Service,
    Version,
    Webhook,
)
from transactions.conflicts import OnConflict


class Request(Input, frozen=True, kw_only=True):
    """Asked by a user. Answered by exactly one Reply effect with the same token. With `dry_run` nothing changes and the
    answer is the plan."""

    token: int = 0
    dry_run: bool = False


class OfObject(Request, frozen=True, kw_only=True):
    """A request about one object, by its namespace and name."""

    namespace: str
    name: str


class Creation(Request, frozen=True, kw_only=True):
    """A request that creates a workload. `user`: name of the caller, empty = not known; `user_groups`: the groups of
    the caller."""

    user: str = ""
    user_groups: tuple[str, ...] = ()


class CreateApplication(Creation, frozen=True, kw_only=True):
    """Creates an application. `version` comes from the document and has no name yet."""

    version: Version
    type: Literal["application", "process"] = "application"


class UpdateApplication(Request, frozen=True, kw_only=True):
    """Replaces the definition. `instances`: number of taskgroups to update (None = all). If the document names no
    number of instances, `version.instances` is 0 and the application keeps its present number."""

    version: Version
    instances: int | None = None
    size: int | None = None
    """Number of taskgroups that the application wants from now on, 0 to stop it; None: as the version says."""
    max_unavailable: int | None = None
    resources_only: bool = False
    """Changes nothing but limits, in place: a command of type resources informs the running taskgroups."""
    requests_left_out: tuple[frozenset[str], ...] = ()
    """Names of the requests that the document leaves out, one set per container. With `resources_only` they stay as
    they are. Empty: the document has all of them."""
    on_conflict: OnConflict = "fail"
    """Treatment of an operation that already works on the application."""


class RollbackApplication(OfObject, frozen=True, kw_only=True):
    """Updates to a stored version (None = the one before the newest)."""

    version: str | None = None
    instances: int | None = None
    on_conflict: OnConflict = "fail"


class ScaleApplication(OfObject, frozen=True, kw_only=True):
    """Changes the number of taskgroups. `inner`: asked by the scheduler for a rolling update."""

    instances: int
    inner: bool = False
    on_conflict: OnConflict = "fail"


class DeleteApplication(OfObject, frozen=True, kw_only=True):
    """Ends all taskgroups and removes the application. `enforce`: do not wait for unreachable agents."""

    enforce: bool = False


class RescheduleTaskGroup(Request, frozen=True, kw_only=True):
    """Replaces one taskgroup. `host_retain`: seconds for which only the present host is acceptable."""

    taskgroup: str
    host_retain: float = 0.0


class CancelTransaction(Request, frozen=True, kw_only=True):
    """Ends an active transaction; the changes that it has made stay."""

    id: str


class SetAgent(Request, frozen=True, kw_only=True):
    """Changes the settings of one agent; None leaves a part as it is. `force`: also for an agent that is not known, so
    that the settings apply as soon as an agent of this name is listed."""

    agent: str
    force: bool = False
    disabled: bool | None = None
    strings: dict[str, str] | None = None
    scalars: dict[str, float] | None = None
    merge: bool = False
    """`strings` and `scalars` are added to the present ones. Otherwise they replace all of them."""
    taints: dict[str, str] | None = None
    extended: dict[str, int] | None = None
    """Upserted by name."""
    sockets: dict[str, str] | None = None


class DeleteAgentSetting(Request, frozen=True, kw_only=True):
    """Removes everything that operators have set about an agent."""

    agent: str


class Put(Request, frozen=True, kw_only=True):
    """Creates or replaces an object from its document; times are filled in. `create`: the object must not exist (True)
    or must exist (False); None = either. `expected`: the resource version that the object must have
    (bcs_scheduler.core.requests.concurrency); empty = any."""

    create: bool | None = None
    expected: str = ""


class PutConfigMap(Put, frozen=True, kw_only=True):
    """Creates or replaces a configmap."""

    config_map: ConfigMap


class DeleteConfigMap(OfObject, frozen=True, kw_only=True):
    """Removes a configmap; running tasks keep its contents."""


class PutSecret(Put, frozen=True, kw_only=True):
    """Creates or replaces a secret."""

    secret: Secret


class DeleteSecret(OfObject, frozen=True, kw_only=True):
    """Removes a secret; running tasks keep its contents."""


class CreateCommand(OfObject, frozen=True, kw_only=True):
    """Gives a command to the executors of an application's taskgroups: writes a Command and its Messages.

    `owner`: kind of the object that `name` names; a deployment means the taskgroups of both its applications.
    `taskgroups`: ids of taskgroups of this object; empty = all its taskgroups. `body` by type as in
    docs/executor-protocol.md, already validated. `reserve`: seconds the outcome stays readable.
    """

    type: CommandType
    owner: Literal["application", "deployment"] = "application"
    body: dict[str, Any] = msgspec.field(default_factory=dict)
    taskgroups: tuple[str, ...] = ()
    image: str = ""
    timeout: float = 60.0
    reserve: float = 86400.0

    def __repr__(self) -> str:
        return f"CreateCommand({object_key(self.namespace, self.name)}, {self.type})"


class DeleteCommand(Request, frozen=True, kw_only=True):
    """Deletes a command and its messages; work in progress on agents continues."""

    id: str


class ReportHealth(Request, frozen=True, kw_only=True):
    """The result of a REMOTE check of a task, from an outside module."""

    task_id: str
    type: Literal["REMOTE_HTTP", "REMOTE_TCP"]
    healthy: bool
    message: str = ""


# --- deployments ----------------------------------------------------------------------------------------------


class CreateDeployment(Creation, frozen=True, kw_only=True):
    """Creates a deployment. `version` None: the deployment adopts the one application that its selector matches."""

    deployment: Deployment
    version: Version | None = None
    type: Literal["application", "process"] = "application"


class UpdateDeployment(Request, frozen=True, kw_only=True):
    """Starts a rolling update to `version`, or with `resources_only` changes limits in place. A document that differs
    in nothing but the strategy or the number of taskgroups starts no update; labels belong to the definition of
    taskgroups.

    `deployment.instances` 0: the document leaves the number out, so the core keeps the number at the time of the
    request; during an update, the number of the update. Only the core knows this number, because a scale may be in the
    inbox."""

    deployment: Deployment
    version: Version
    size: int | None = None
    """Number of taskgroups that the deployment wants from now on, 0 to stop it; None: as the deployment says."""
    resources_only: bool = False
    requests_left_out: tuple[frozenset[str], ...] = ()
    """Names of the requests that the document leaves out, as in UpdateApplication."""
    on_conflict: OnConflict = "fail"
    """Treatment of an update that is in progress to another definition: a superseded update is undone, and this one
    follows."""


class ControlDeployment(OfObject, frozen=True, kw_only=True):
    """Pauses, resumes, cancels or restarts. `restart` is a rolling update to the same definition."""

    action: Literal["pause", "resume", "cancel", "restart"]


class RollbackDeployment(OfObject, frozen=True, kw_only=True):
    """A rolling update to a kept revision; None = the one before the present one. During an update: back to where it
    began, as a cancel."""

    revision: int | None = None


class ScaleDeployment(OfObject, frozen=True, kw_only=True):
    """Changes the number of taskgroups of a deployment."""

    instances: int
    on_conflict: OnConflict = "fail"
    """Treatment of an update that is in progress: with `supersede`, it continues with the new number."""


class DeleteDeployment(OfObject, frozen=True, kw_only=True):
    """Ends all taskgroups and removes the deployment. `enforce`: do not wait for unreachable agents."""

    enforce: bool = False


# --- daemonsets -----------------------------------------------------------------------------------------------


class CreateDaemonset(Creation, frozen=True, kw_only=True):
    """Creates a daemonset. `version` comes from the same document as `daemonset` and has no name yet."""

    daemonset: Daemonset
    version: Version


class UpdateDaemonset(Request, frozen=True, kw_only=True):
    """Replaces the definition of a daemonset; `version` has no name yet."""

    daemonset: Daemonset
    version: Version


class RollbackDaemonset(OfObject, frozen=True, kw_only=True):
    """Updates a daemonset to a stored version; None = the version before the newest."""

    version: str | None = None


class RestartDaemonset(OfObject, frozen=True, kw_only=True):
    """Replaces its taskgroups within its bound, with the same definition."""


class DeleteDaemonset(OfObject, frozen=True, kw_only=True):
    """Ends all taskgroups and removes the daemonset. `enforce`: do not wait for unreachable agents."""

    enforce: bool = False


# --- services, namespaces, queues, webhooks, custom resources -------------------------------------------------


class PutService(Put, frozen=True, kw_only=True):
    """Creates or replaces a service."""

    service: Service


class DeleteService(OfObject, frozen=True, kw_only=True):
    """Removes a service with its endpoint; taskgroups stay."""


class PutNamespace(Put, frozen=True, kw_only=True):
    """Creates or replaces the settings of a namespace."""

    namespace: Namespace


class DeleteNamespace(Request, frozen=True, kw_only=True):
    """Forgets its settings. Refused while anything is in it."""

    name: str


class PutQueue(Put, frozen=True, kw_only=True):
    """Creates or replaces the settings of a queue."""

    queue: Queue


class DeleteQueue(Request, frozen=True, kw_only=True):
    """Removes a queue. Refused for the default queue, and while namespaces belong to the queue."""

    name: str


class PutWebhook(Put, frozen=True, kw_only=True):
    """Creates or replaces an admission webhook."""

    webhook: Webhook


class DeleteWebhook(OfObject, frozen=True, kw_only=True):
    """Removes an admission webhook."""


class PutCustomKind(Request, frozen=True, kw_only=True):
    """Registers a kind. `create`: the kind must not be registered (True), or must be registered, and its registration
    is replaced (False); None = either, and a registered kind stays as it is."""

    custom_kind: CustomKind
    create: bool | None = None


class DeleteCustomKind(Request, frozen=True, kw_only=True):
    """Refused while there are objects of it."""

    name: str


class PutCustomObject(Put, frozen=True, kw_only=True):
    """Creates or replaces an object of a registered kind."""

    custom_object: CustomObject


class DeleteCustomObject(Request, frozen=True, kw_only=True):
    """Removes an object of a registered kind."""

    type: str
    namespace: str
    name: str


# --- agents ---------------------------------------------------------------------------------------------------


class DrainAgent(Request, frozen=True, kw_only=True):
    """Disables the agent and moves its taskgroups elsewhere, within the bounds of their owners. `timeout`: seconds;
    0 = no end. Asked for again, it changes the bounds of the drain that runs."""

    agent: str
    at_once: int = 1
    daemonsets: bool = False
    timeout: float = 0.0


class ResumeReplacements(Request, frozen=True, kw_only=True):
    """Ends the halt after a large loss: lost taskgroups are replaced. Refused if there is no halt."""


class PutPriorityClass(Put, frozen=True, kw_only=True):
    """Creates or replaces a priority class. Value and preemption policy of an existing class cannot change."""

    priority_class: PriorityClass


class DeletePriorityClass(Request, frozen=True, kw_only=True):
    """Removes a priority class; versions keep the number."""

    name: str


class PutPodGroup(Put, frozen=True, kw_only=True):
    """Creates or replaces a group of applications."""

    pod_group: PodGroup


class DeletePodGroup(OfObject, frozen=True, kw_only=True):
    """Removes a group. Refused while applications name the group."""


class ChangeTree(Request, frozen=True, kw_only=True):
    """A change of a tree of queues. `author`: name of the caller. `expected`: number of the revision that must count at
    present; None = any. `partition`: name of the partition of roles with the tree; empty = the only one, or
    `default`."""

    author: str = ""
    partition: str = ""
    expected: int | None = None


class PutQueueTree(ChangeTree, frozen=True, kw_only=True):
    """Makes a document the next revision. `document`: JSON in the shape of YuniKorn's queue configuration."""

    document: str
    why: str = "applied"
    """Origin of the revision, for users."""


class RollbackQueueTree(ChangeTree, frozen=True, kw_only=True):
    """Makes the document of a kept revision the next revision; None = that of the one before the present one."""

    revision: int | None = None


class SetQueueState(ChangeTree, frozen=True, kw_only=True):
    """Stops, drains or starts a queue, by its full name."""

    queue: str
    state: Literal["Stopped", "Draining", "Active"]


class PlanAgents(Request, frozen=True, kw_only=True):
    """The effect of a cordon (or a drain) of several agents together. Always a dry run. `agents`: keys of their
    settings. `drain`: their taskgroups are moved, too."""

    agents: tuple[str, ...]
    drain: bool = False
    dry_run: bool = True


class Rebalance(Request, frozen=True, kw_only=True):
    """Moves taskgroups toward fewer agents (pack) or more even agents (spread). `moves`: their greatest number.
    `gain`: least gain of a move (difference of squared shares)."""

    goal: Goal = "spread"
    moves: int = 10
    gain: float = 0.01


class AskWhatIf(OfObject, frozen=True, kw_only=True):
    """Asks which changes would give the open taskgroups of an application places. Refused (not_found) if the
    application does not exist."""

    changes: bool = True
    """False: only the estimate of the time until room is free is wanted."""


class PlanRequests(Request, frozen=True, kw_only=True):
    """The effect of several requests together, in their order: later ones see the records and the room that earlier
    ones take. Always a dry run. A request that is refused does not end the plan."""

    requests: tuple[Request, ...]
    dry_run: bool = True
