"""Reasons of events: the change of an object, as one code of a closed set. The message of the event has the details.

The names have one style: CamelCase, the object first where it is not clear, and a participle. `docs/api.md` lists all
of them; tests/unit/test_reasons.py compares the list with this table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

EventReason = Literal[
    "InternalError", "TransitionRefused", "StateInvalid",
    "TransactionQueued", "TransactionStarted", "TransactionWaiting", "TransactionFinished", "TransactionFailed",
    "TransactionTimedOut", "TransactionCancelled", "TransactionSuperseded", "RestartFinished",
    "TaskGroupPlaced", "TaskGroupStaging", "TaskGroupStarting", "TaskGroupRunning", "TaskGroupRestarting",
    "TaskGroupEnding", "TaskGroupKilling", "TaskGroupFinished", "TaskGroupKilled", "TaskGroupFailed", "TaskGroupError",
    "TaskGroupLost", "TaskGroupUnknown", "TaskGroupReplaced", "TaskGroupRestarted", "TaskGroupRelaunched",
    "TaskGroupHealthy", "TaskGroupUnhealthy", "TaskGroupRemoved", "TaskGroupNotWanted", "TaskGroupGivenUp",
    "TaskGroupEvicted", "ApplicationPreempting", "ApplicationBlocked", "TaskGroupRebalanced", "RebalanceFinished",
    "TaskNotWanted", "TaskReportIgnored",
    "ApplicationDeploying", "ApplicationRunning", "ApplicationAbnormal", "ApplicationError", "ApplicationFinished",
    "ApplicationPending", "ApplicationStopped", "ApplicationDeleted",
    "DeploymentCreated", "DeploymentAdopted", "DeploymentChanged", "DeploymentScaled", "DeploymentLaunched",
    "DeploymentStandIn", "DeploymentStandInEnded",
    "DeploymentLaunching", "DeploymentDeleting", "DeploymentDeleted", "LimitsChanging", "LimitsChanged",
    "UpdateStarted", "StepStarted", "StepEnded", "CanaryPassed", "RemovalReduced", "UpdatePausing", "UpdatePaused",
    "UpdateResumed", "UpdateSuspended", "UpdateCancelled", "UpdateGoingBack", "UpdateWentBack", "UpdateFinished",
    "RevisionQueued", "RevisionRefused",
    "DaemonsetCreated", "DaemonsetChanged", "DaemonsetUpdated", "DaemonsetRolledBack", "DaemonsetRestarted",
    "DaemonsetAgentsChanged", "DaemonsetStarting", "DaemonsetRunning", "DaemonsetAbnormal", "DaemonsetUpdating",
    "DaemonsetStuck", "DaemonsetDeleted",
    "ServiceCreated", "ServiceUpdated", "ServiceDeleted", "ServiceAvailable", "ServiceUnavailable", "ServiceTruncated",
    "NamespaceCreated", "NamespaceUpdated", "NamespaceDeleted", "QueueCreated", "QueueUpdated", "QueueDeleted",
    "QueueTreeUpdated", "QueueHalted", "QueueStarted", "QueueTreeFileIgnored", "QueueTreeUnreadable",
    "PodGroupCreated", "PodGroupUpdated", "PodGroupDeleted",
    "PriorityClassCreated", "PriorityClassUpdated", "PriorityClassDeleted",
    "ReservationStarted", "ReservationComplete", "ReservationTimedOut", "ReservationRejected", "ReservationEnded",
    "GroupReservationStarted", "GroupReservationComplete", "GroupReservationEnded",
    "PlaceholderIncompatible", "ManagedApplicationChanged", "ManagedSumsWrong", "NoOutstandingApplications",
    "ConfigMapCreated", "ConfigMapUpdated", "ConfigMapDeleted", "SecretCreated", "SecretUpdated", "SecretDeleted",
    "WebhookCreated", "WebhookUpdated", "WebhookDeleted", "CustomKindRegistered", "CustomKindDeleted",
    "CustomObjectCreated", "CustomObjectUpdated", "CustomObjectDeleted", "CommandAccepted",
    "AgentJoined", "AgentLeft", "AgentDisabled", "AgentEnabled", "AgentTainted", "AgentSettingsChanged",
    "AgentSettingsForgotten", "AgentSettingsTooLarge", "DrainStarted", "DrainFinished", "DrainFailed",
    "DrainCancelled", "DrainBlocked",
    "FrameworkSubscribed", "FrameworkDisconnected", "FrameworkRemoved", "LeaderTookOver", "TimesMoved",
    "ReplacementsHalted", "ReplacementsResumed", "UnknownTasksFound", "UnknownTasksDecided",
    "PolicyPluginFailed",
]  # fmt: skip
Level = Literal["info", "warning", "error"]


class Meaning(NamedTuple):
    """The properties of one reason.

    `kinds`: kinds of the objects that events of this reason are about; empty = any.
    `level`: level of the event, unless the caller gives another one. `event`: False = only a line in the log, no event.
    `log_level`: level of the log line, unless the caller gives another one.
    """

    kinds: tuple[str, ...]
    text: str
    level: Level = "info"
    event: bool = True
    log_level: Level = "info"


_QUIET: frozenset[EventReason] = frozenset(
    {
        "TransactionFailed", "TransactionTimedOut", "TaskGroupFailed", "TaskGroupError", "TaskGroupLost",
        "TaskGroupUnknown", "ApplicationAbnormal", "ApplicationError", "FrameworkDisconnected", "FrameworkRemoved",
    }
)  # fmt: skip
"""Reasons of warnings and errors that users must see as events, but that the log has at level info: no operator has to
act."""


KEPT: Mapping[str, tuple[EventReason, EventReason, EventReason]] = {
    "service": ("ServiceCreated", "ServiceUpdated", "ServiceDeleted"),
    "namespace": ("NamespaceCreated", "NamespaceUpdated", "NamespaceDeleted"),
    "queue": ("QueueCreated", "QueueUpdated", "QueueDeleted"),
    "priorityclass": ("PriorityClassCreated", "PriorityClassUpdated", "PriorityClassDeleted"),
    "podgroup": ("PodGroupCreated", "PodGroupUpdated", "PodGroupDeleted"),
    "configmap": ("ConfigMapCreated", "ConfigMapUpdated", "ConfigMapDeleted"),
    "secret": ("SecretCreated", "SecretUpdated", "SecretDeleted"),
    "webhook": ("WebhookCreated", "WebhookUpdated", "WebhookDeleted"),
    "customobject": ("CustomObjectCreated", "CustomObjectUpdated", "CustomObjectDeleted"),
}
"""Reasons of objects that are only stored, by kind: created, updated, deleted."""


def _of(
    kind: str, *rows: tuple[EventReason, str] | tuple[EventReason, str, Level]
) -> Iterator[tuple[EventReason, Meaning]]:
    for reason, text, *level in rows:
        event_level: Level = level[0] if level else "info"
        yield reason, Meaning((kind,), text, event_level, True, "info" if reason in _QUIET else event_level)


def _logged(kind: str, *rows: tuple[EventReason, str]) -> Iterator[tuple[EventReason, Meaning]]:
    for reason, text in rows:
        yield reason, Meaning((kind,), text, event=False)


def _kept(kind: str, name: str) -> Iterator[tuple[EventReason, Meaning]]:
    created, updated, deleted = KEPT[kind]
    return _of(
        kind,
        (created, f"{name} was created."),
        (updated, f"{name} was changed."),
        (deleted, f"{name} was deleted."),
    )


def _all() -> Iterator[tuple[EventReason, Meaning]]:
    yield (
        "InternalError",
        Meaning(
            (),
            "Processing the object failed unexpectedly and was undone. Report it.",
            "error",
            True,
            "error",
        ),
    )
    yield (
        "TransitionRefused",
        Meaning((), "A forbidden change of status was undone. Report it.", "error", True,
                "error"),
    )  # fmt: skip
    yield "StateInvalid", Meaning(("core",), "Records contradict each other.", "error", False, "error")
    yield from _of(
        "transaction",
        ("TransactionQueued", "The request waits until the operation on its object has ended."),
        ("TransactionStarted", "An operation was accepted."),
        ("TransactionWaiting", "The operation waits for a missing configmap or secret, or for a reservation."),
        ("TransactionFinished", "The operation has succeeded."),
        ("TransactionFailed", "The operation cannot be carried out.", "warning"),
        ("TransactionTimedOut", "The operation has timed out; the message names the missing conditions.",
         "warning"),
        ("TransactionCancelled", "The operation was cancelled, or superseded by another one."),
        ("TransactionSuperseded", "A newer operation of the same application has superseded the operation."),
    )  # fmt: skip
    yield from _logged("transaction", ("RestartFinished", "A restart by policy has replaced its taskgroup."))
    yield from _of(
        "taskgroup",
        ("TaskGroupPlaced", "The taskgroup has a place on an agent and is launched."),
        ("TaskGroupRunning", "All tasks of the taskgroup run."),
        ("TaskGroupEnding", "The scheduler ends the taskgroup; the message has the reason."),
        ("TaskGroupFinished", "All tasks of the taskgroup have ended successfully."),
        ("TaskGroupKilled", "The taskgroup was killed. A warning if the scheduler did not request the kill."),
        ("TaskGroupFailed", "A task has failed.", "warning"),
        ("TaskGroupError", "The cluster manager refused a task as invalid.", "warning"),
        ("TaskGroupLost", "The taskgroup was lost, or its agent is unreachable.", "warning"),
        ("TaskGroupUnknown", "The states of its tasks contradict each other.", "warning"),
        ("TaskGroupRestarted", "A new taskgroup replaces an ended taskgroup."),
        ("TaskGroupRelaunched", "The taskgroup is launched again because a launch did not happen. Not a restart."),
        ("TaskGroupHealthy", "All health checks of a task pass."),
        ("TaskGroupUnhealthy", "A health check of a task fails.", "warning"),
        ("TaskGroupEvicted", "The policy gives the room of the taskgroup to another application.", "warning"),
        ("TaskGroupRebalanced", "The taskgroup moves to another agent to pack or spread the cluster."),
        ("TaskGroupGivenUp", "The scheduler has given up the kill of a removed taskgroup: no report for too long."),
    )  # fmt: skip
    yield from _logged(
        "taskgroup",
        ("TaskGroupStaging", "Its tasks are being prepared."),
        ("TaskGroupStarting", "Its tasks are starting."),
        ("TaskGroupRestarting", "The executor restarts a task."),
        ("TaskGroupKilling", "Its tasks are being killed."),
        ("TaskGroupReplaced", "The record of the new taskgroup replaces the old one."),
        ("TaskGroupRemoved", "The record was removed."),
        ("TaskGroupNotWanted", "An executor reported a taskgroup without a record and is shut down."),
    )
    yield from _logged(
        "task",
        ("TaskNotWanted", "A task without a record was reported; the task is killed."),
        ("TaskReportIgnored", "A report has an unknown state."),
    )
    yield from _of(
        "application",
        ("ApplicationDeploying", "Taskgroups are staging or starting."),
        ("ApplicationRunning", "The desired number of taskgroups runs."),
        ("ApplicationAbnormal", "Taskgroups are missing, lost or failed.", "warning"),
        ("ApplicationPending", "Taskgroups wait for a place.", "warning"),
        ("ApplicationStopped", "The application is scaled to 0."),
        ("ApplicationPreempting", "Taskgroups of others are ended to make room for the application."),
        (
            "ApplicationBlocked",
            "Its queue is below its guarantee or share, and no work is ended for it. The message names the obstacle.",
            "warning",
        ),
        ("ReservationStarted", "Placeholders are launched, which hold room for the application."),
        ("ReservationComplete", "All placeholders hold room, and the taskgroups take their places."),
        ("ReservationTimedOut", "The placeholders of the application did not find their room in time.", "warning"),
        ("ReservationEnded", "The reservation has ended before all placeholders of its group had room.", "warning"),
        ("ReservationRejected", "The queue cannot take a reservation of this size.", "warning"),
        ("PlaceholderIncompatible", "A placeholder cannot be used for the taskgroups of its group.", "warning"),
        ("ManagedApplicationChanged", "The state of an application of a manager has changed."),
        ("ManagedSumsWrong", "The numbers of a reservation contradict its placeholders. Report it.", "error"),
        ("ApplicationError", "A taskgroup is invalid.", "warning"),
        ("ApplicationFinished", "All taskgroups have finished."),
        ("ApplicationDeleted", "All taskgroups have ended, and the application is deleted."),
    )
    yield from _deployments()
    yield from _of(
        "daemonset",
        ("DaemonsetCreated", "The daemonset was created."),
        ("DaemonsetChanged", "Its settings have changed; running taskgroups stay unchanged."),
        ("DaemonsetUpdated", "A new definition was accepted; its taskgroups are replaced."),
        ("DaemonsetRolledBack", "An earlier version was made the newest; its taskgroups are replaced."),
        ("DaemonsetRestarted", "A user requested the replacement of all taskgroups."),
        ("DaemonsetAgentsChanged", "The number of selected agents has changed."),
        ("DaemonsetStarting", "Some selected agents have no ready taskgroup."),
        ("DaemonsetRunning", "Every selected agent has a ready taskgroup."),
        ("DaemonsetAbnormal", "Taskgroups have ended or are unreachable."),
        ("DaemonsetUpdating", "Taskgroups are replaced by a newer version."),
        ("DaemonsetStuck", "The update makes no progress and needs an operator.", "warning"),
        ("DaemonsetDeleted", "All taskgroups have ended, and the daemonset is deleted."),
    )
    yield from _kept("service", "The service")
    yield from _of(
        "service",
        ("ServiceAvailable", "The service has ready members again."),
        ("ServiceUnavailable", "No member of the service is ready.", "warning"),
        ("ServiceTruncated", "The service has more members than its endpoint can hold.", "warning"),
    )
    yield from _kept("namespace", "The namespace document")
    yield from _kept("queue", "The queue")
    yield from _of(
        "queuetree",
        ("QueueTreeUpdated", "The tree of queues has another revision, which counts from now on."),
        ("QueueHalted", "A queue of the tree was stopped, or drains."),
        ("QueueStarted", "A queue of the tree takes applications again."),
        ("QueueTreeFileIgnored", "The stored tree counts; the file of the settings differs from it.", "warning"),
        ("QueueTreeUnreadable", "A stored revision of the tree cannot be read by this version.", "error"),
    )
    yield from _kept("priorityclass", "The priority class")
    yield from _kept("podgroup", "The pod group")
    yield from _of(
        "podgroup",
        ("GroupReservationStarted", "Placeholders are launched, which hold room for the members of the group."),
        ("GroupReservationComplete", "All placeholders of the group hold room, and its members start."),
        ("GroupReservationEnded", "The reservation has ended without all its room, or begins anew.", "warning"),
    )
    yield from _kept("configmap", "The configmap")
    yield from _kept("secret", "The secret")
    yield from _kept("webhook", "The admission webhook")
    yield from _of(
        "customkind",
        ("CustomKindRegistered", "A kind of custom resources was registered."),
        ("CustomKindDeleted", "The kind is not registered any more."),
    )
    yield from _kept("customobject", "The custom resource")
    yield from _of("command", ("CommandAccepted", "A command was accepted for taskgroups."))
    yield from _of(
        "agent",
        ("AgentJoined", "The cluster has a new agent."),
        ("AgentLeft", "The agent has left the cluster.", "warning"),
        ("AgentDisabled", "The agent is cordoned: no taskgroup is placed there."),
        ("AgentEnabled", "The agent is uncordoned and accepts taskgroups again."),
        ("AgentTainted", "The taints of the agent have changed."),
        ("AgentSettingsChanged", "Attributes, extended resources or sockets of the agent were set."),
        ("AgentSettingsForgotten", "All settings of the agent were removed."),
        ("AgentSettingsTooLarge", "Settings under another name of the agent exceed the limit together with its own.",
         "warning"),
        ("DrainStarted", "Taskgroups are moved away from the agent."),
        ("DrainFinished", "No taskgroups are left on the agent."),
        ("DrainFailed", "The drain has ended with taskgroups left.", "warning"),
        ("DrainCancelled", "An operator has ended the drain."),
        ("DrainBlocked", "No taskgroup of the drain can move now; the message has the causes.",
         "warning"),
    )  # fmt: skip
    yield from _of(
        "framework",
        ("FrameworkSubscribed", "The scheduler is connected to the cluster manager."),
        ("FrameworkDisconnected", "The connection to the cluster manager was lost.", "warning"),
        ("LeaderTookOver", "A scheduler has become the leader; the message has its address and its term."),
        ("RebalanceFinished", "A rebalancing of the cluster has begun its moves, or has found none."),
        ("FrameworkRemoved", "The cluster manager has removed the framework.", "error"),
        (
            "ReplacementsHalted",
            "A large part of the cluster was lost at once; lost taskgroups are not replaced.",
            "error",
        ),
        ("ReplacementsResumed", "Lost taskgroups are replaced again."),
        (
            "UnknownTasksFound",
            "Tasks run that the store does not know; nothing is launched until an operator has decided about them.",
            "error",
        ),
        ("UnknownTasksDecided", "An operator has decided about tasks that the store does not know."),
        ("TimesMoved", "Records were far ahead of the clock; their times were moved.", "warning"),
        ("PolicyPluginFailed", "A plug-in of the policy failed or was too slow.", "warning"),
    )
    yield (
        "NoOutstandingApplications",
        Meaning(("framework",), "No managed application has had work for two minutes.", event=False),
    )


def _deployments() -> Iterator[tuple[EventReason, Meaning]]:
    return _of(
        "deployment",
        ("DeploymentCreated", "The deployment was created."),
        ("DeploymentAdopted", "The deployment has taken over an application."),
        ("DeploymentChanged", "Its document has changed; running taskgroups stay unchanged."),
        ("DeploymentScaled", "The number of taskgroups has changed."),
        ("DeploymentStandIn", "Additional taskgroups start before a drain ends present ones."),
        ("DeploymentStandInEnded", "The additional taskgroups for a drain end."),
        ("DeploymentLaunched", "The launch of its taskgroups has ended."),
        ("DeploymentLaunching", "Missing taskgroups are launched again."),
        ("DeploymentDeleting", "Its applications are being deleted."),
        ("DeploymentDeleted", "Its applications are deleted."),
        ("LimitsChanging", "Limits change in place."),
        ("LimitsChanged", "All executors have received the new limits. A warning if some failed."),
        ("UpdateStarted", "A rolling update begins."),
        ("StepStarted", "A step of the update, or the second half of a step, begins."),
        ("StepEnded", "A step of the update has ended."),
        ("CanaryPassed", "The taskgroups of the canary were ready for the required time."),
        ("RemovalReduced", "The update removes fewer taskgroups because others have failed."),
        ("UpdatePausing", "The update pauses after the present step."),
        ("UpdatePaused", "The update is paused."),
        ("UpdateResumed", "The update continues."),
        ("UpdateSuspended", "The update cannot continue by itself.", "warning"),
        ("UpdateCancelled", "The update, or the queued revision, was cancelled."),
        ("UpdateGoingBack", "The update is undone because a step has failed.", "warning"),
        ("UpdateWentBack", "The update has been undone."),
        ("UpdateFinished", "The update is complete."),
        ("RevisionQueued", "Another revision follows after the present update is undone."),
        ("RevisionRefused", "The queued revision cannot be carried out.", "warning"),
    )  # fmt: skip


REASONS: Mapping[EventReason, Meaning] = dict(_all())
"""Every reason with its meaning, by kind of object."""


# --- which reason stands for a status -----------------------------------------------------------------------------

TASKGROUP_TURNED: Mapping[str, EventReason] = {
    "Staging": "TaskGroupStaging",
    "Starting": "TaskGroupStarting",
    "Running": "TaskGroupRunning",
    "Restarting": "TaskGroupRestarting",
    "Killing": "TaskGroupKilling",
    "Killed": "TaskGroupKilled",
    "Finish": "TaskGroupFinished",
    "Failed": "TaskGroupFailed",
    "Error": "TaskGroupError",
    "Lost": "TaskGroupLost",
    "Unknown": "TaskGroupUnknown",
}
"""Reasons by the new status of a taskgroup."""
APPLICATION_TURNED: Mapping[str, EventReason] = {
    "Deploying": "ApplicationDeploying",
    "Running": "ApplicationRunning",
    "Abnormal": "ApplicationAbnormal",
    "Error": "ApplicationError",
    "Finish": "ApplicationFinished",
    "Pending": "ApplicationPending",
    "Stopped": "ApplicationStopped",
}
"""Reasons by the status of an application that is computed from its taskgroups."""
DAEMONSET_TURNED: Mapping[str, EventReason] = {
    "Starting": "DaemonsetStarting",
    "Running": "DaemonsetRunning",
    "Abnormal": "DaemonsetAbnormal",
    "Updating": "DaemonsetUpdating",
}
"""Reasons by the status of a daemonset that is computed from its taskgroups."""
TRANSACTION_ENDED: Mapping[str, EventReason] = {
    "FINISH": "TransactionFinished",
    "FAIL": "TransactionFailed",
    "TIMEOUT": "TransactionTimedOut",
    "CANCEL": "TransactionCancelled",
    "SUPERSEDED": "TransactionSuperseded",
}
"""Reasons by the verdict of a transaction."""
