"""Reasons of events: the change of an object, as one code of a closed set. The message of the event has the details.

The names have one style: CamelCase, the object first where it is not clear, and a participle. `docs/api.md` lists all
of them; tests/unit/test_reasons.py compares the list with this table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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

    `kinds`: kinds of the objects that events of this reason are about; empty = any. `former`: names in version 0.1.
    `level`: level of the event, unless the caller gives another one. `event`: False = only a line in the log, no event.
    `log_level`: level of the log line, unless the caller gives another one.
    """

    kinds: tuple[str, ...]
    text: str
    former: tuple[str, ...]
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


def _of(
    kind: str, *rows: tuple[EventReason, str, str] | tuple[EventReason, str, str, Level]
) -> Iterator[tuple[EventReason, Meaning]]:
    for reason, text, former, *level in rows:
        event_level: Level = level[0] if level else "info"
        names = (former,) if former else ()
        yield reason, Meaning((kind,), text, names, event_level, True, "info" if reason in _QUIET else event_level)


def _logged(kind: str, *rows: tuple[EventReason, str, str]) -> Iterator[tuple[EventReason, Meaning]]:
    for reason, text, former in rows:
        yield reason, Meaning((kind,), text, (former,), event=False)


def _kept(
    kind: str, created: EventReason, updated: EventReason, deleted: EventReason, name: str
) -> Iterator[tuple[EventReason, Meaning]]:
    """Reasons of objects that are only stored."""
    return _of(
        kind,
        (created, f"{name} was created.", "created"),
        (updated, f"{name} was changed.", "updated"),
        (deleted, f"{name} was deleted.", "deleted"),
    )


def _all() -> Iterator[tuple[EventReason, Meaning]]:
    yield (
        "InternalError",
        Meaning(
            (),
            "Processing the object failed unexpectedly and was undone. Report it.",
            ("error",),
            "error",
            True,
            "error",
        ),
    )
    yield (
        "TransitionRefused",
        Meaning((), "A forbidden change of status was undone. Report it.", ("error",), "error", True,
                "error"),
    )  # fmt: skip
    yield "StateInvalid", Meaning(("core",), "Records contradict each other.", ("error",), "error", False, "error")
    yield from _of(
        "transaction",
        ("TransactionQueued", "The request waits until the operation on its object has ended.", "queued"),
        ("TransactionStarted", "An operation was accepted.", "begin"),
        ("TransactionWaiting", "The operation waits for a missing configmap or secret, or for a reservation.",
         "waiting"),
        ("TransactionFinished", "The operation has succeeded.", "finish"),
        ("TransactionFailed", "The operation cannot be carried out.", "fail", "warning"),
        ("TransactionTimedOut", "The operation has timed out; the message names the missing conditions.", "timeout",
         "warning"),
        ("TransactionCancelled", "The operation was cancelled, or superseded by another one.", "cancel"),
        ("TransactionSuperseded", "A newer operation of the same application has superseded the operation.", ""),
    )  # fmt: skip
    yield from _logged(
        "transaction", ("RestartFinished", "A restart by policy has replaced its taskgroup.", "replaced")
    )
    yield from _of(
        "taskgroup",
        ("TaskGroupPlaced", "The taskgroup has a place on an agent and is launched.", "placed"),
        ("TaskGroupRunning", "All tasks of the taskgroup run.", "Running"),
        ("TaskGroupEnding", "The scheduler ends the taskgroup; the message has the reason.", "kill"),
        ("TaskGroupFinished", "All tasks of the taskgroup have ended successfully.", "Finish"),
        ("TaskGroupKilled", "The taskgroup was killed. A warning if the scheduler did not request the kill.", "Killed"),
        ("TaskGroupFailed", "A task has failed.", "Failed", "warning"),
        ("TaskGroupError", "The cluster manager refused a task as invalid.", "Error", "warning"),
        ("TaskGroupLost", "The taskgroup was lost, or its agent is unreachable.", "Lost", "warning"),
        ("TaskGroupUnknown", "The states of its tasks contradict each other.", "Unknown", "warning"),
        ("TaskGroupRestarted", "A new taskgroup replaces an ended taskgroup.", "restarted"),
        ("TaskGroupRelaunched", "The taskgroup is launched again because a launch did not happen. Not a restart.",
         "relaunched"),
        ("TaskGroupHealthy", "All health checks of a task pass.", "healthy"),
        ("TaskGroupUnhealthy", "A health check of a task fails.", "unhealthy", "warning"),
        ("TaskGroupEvicted", "The policy gives the room of the taskgroup to another application.", "", "warning"),
        ("TaskGroupRebalanced", "The taskgroup moves to another agent to pack or spread the cluster.", ""),
        ("TaskGroupGivenUp", "The scheduler has given up the kill of a removed taskgroup: no report for too long.",
         "given up"),
    )  # fmt: skip
    yield from _logged(
        "taskgroup",
        ("TaskGroupStaging", "Its tasks are being prepared.", "Staging"),
        ("TaskGroupStarting", "Its tasks are starting.", "Starting"),
        ("TaskGroupRestarting", "The executor restarts a task.", "Restarting"),
        ("TaskGroupKilling", "Its tasks are being killed.", "Killing"),
        ("TaskGroupReplaced", "The record of the new taskgroup replaces the old one.", "replaced"),
        ("TaskGroupRemoved", "The record was removed.", "removed"),
        ("TaskGroupNotWanted", "An executor reported a taskgroup without a record and is shut down.", "unknown"),
    )
    yield from _logged(
        "task",
        ("TaskNotWanted", "A task without a record was reported; the task is killed.", "unknown"),
        ("TaskReportIgnored", "A report has an unknown state.", "ignored"),
    )
    yield from _of(
        "application",
        ("ApplicationDeploying", "Taskgroups are staging or starting.", "Deploying"),
        ("ApplicationRunning", "The desired number of taskgroups runs.", "Running"),
        ("ApplicationAbnormal", "Taskgroups are missing, lost or failed.", "Abnormal", "warning"),
        ("ApplicationPending", "Taskgroups wait for a place.", "", "warning"),
        ("ApplicationStopped", "The application is scaled to 0.", ""),
        ("ApplicationPreempting", "Taskgroups of others are ended to make room for the application.", ""),
        (
            "ApplicationBlocked",
            "Its queue is below its guarantee or share, and no work is ended for it. The message names the obstacle.",
            "",
            "warning",
        ),
        ("ReservationStarted", "Placeholders are launched, which hold room for the application.", ""),
        ("ReservationComplete", "All placeholders hold room, and the taskgroups take their places.", ""),
        ("ReservationTimedOut", "The placeholders of the application did not find their room in time.", "", "warning"),
        ("ReservationEnded", "The reservation has ended before all placeholders of its group had room.", "", "warning"),
        ("ReservationRejected", "The queue cannot take a reservation of this size.", "", "warning"),
        ("PlaceholderIncompatible", "A placeholder cannot be used for the taskgroups of its group.", "", "warning"),
        ("ManagedApplicationChanged", "The state of an application of a manager has changed.", ""),
        ("ManagedSumsWrong", "The numbers of a reservation contradict its placeholders. Report it.", "", "error"),
        ("ApplicationError", "A taskgroup is invalid.", "Error", "warning"),
        ("ApplicationFinished", "All taskgroups have finished.", "Finish"),
        ("ApplicationDeleted", "All taskgroups have ended, and the application is deleted.", "deleted"),
    )
    yield from _deployments()
    yield from _of(
        "daemonset",
        ("DaemonsetCreated", "The daemonset was created.", "created"),
        ("DaemonsetChanged", "Its settings have changed; running taskgroups stay unchanged.", "updated"),
        ("DaemonsetUpdated", "A new definition was accepted; its taskgroups are replaced.", "updated"),
        ("DaemonsetRolledBack", "An earlier version was made the newest; its taskgroups are replaced.", "rolled"),
        ("DaemonsetRestarted", "A user requested the replacement of all taskgroups.", "restarted"),
        ("DaemonsetAgentsChanged", "The number of selected agents has changed.", "agents"),
        ("DaemonsetStarting", "Some selected agents have no ready taskgroup.", "Starting"),
        ("DaemonsetRunning", "Every selected agent has a ready taskgroup.", "Running"),
        ("DaemonsetAbnormal", "Taskgroups have ended or are unreachable.", "Abnormal"),
        ("DaemonsetUpdating", "Taskgroups are replaced by a newer version.", "Updating"),
        ("DaemonsetStuck", "The update makes no progress and needs an operator.", "stuck", "warning"),
        ("DaemonsetDeleted", "All taskgroups have ended, and the daemonset is deleted.", "deleted"),
    )
    yield from _kept("service", "ServiceCreated", "ServiceUpdated", "ServiceDeleted", "The service")
    yield from _of(
        "service",
        ("ServiceAvailable", "The service has ready members again.", "available"),
        ("ServiceUnavailable", "No member of the service is ready.", "unavailable", "warning"),
        ("ServiceTruncated", "The service has more members than its endpoint can hold.", "truncated", "warning"),
    )
    yield from _kept("namespace", "NamespaceCreated", "NamespaceUpdated", "NamespaceDeleted", "The namespace document")
    yield from _kept("queue", "QueueCreated", "QueueUpdated", "QueueDeleted", "The queue")
    yield from _of(
        "queuetree",
        ("QueueTreeUpdated", "The tree of queues has another revision, which counts from now on.", ""),
        ("QueueHalted", "A queue of the tree was stopped, or drains.", ""),
        ("QueueStarted", "A queue of the tree takes applications again.", ""),
        ("QueueTreeFileIgnored", "The stored tree counts; the file of the settings differs from it.", "", "warning"),
        ("QueueTreeUnreadable", "A stored revision of the tree cannot be read by this version.", "", "error"),
    )
    yield from _kept(
        "priorityclass", "PriorityClassCreated", "PriorityClassUpdated", "PriorityClassDeleted", "The priority class"
    )
    yield from _kept("podgroup", "PodGroupCreated", "PodGroupUpdated", "PodGroupDeleted", "The pod group")
    yield from _of(
        "podgroup",
        ("GroupReservationStarted", "Placeholders are launched, which hold room for the members of the group.", ""),
        ("GroupReservationComplete", "All placeholders of the group hold room, and its members start.", ""),
        ("GroupReservationEnded", "The reservation has ended without all its room, or begins anew.", "", "warning"),
    )
    yield from _kept("configmap", "ConfigMapCreated", "ConfigMapUpdated", "ConfigMapDeleted", "The configmap")
    yield from _kept("secret", "SecretCreated", "SecretUpdated", "SecretDeleted", "The secret")
    yield from _kept("webhook", "WebhookCreated", "WebhookUpdated", "WebhookDeleted", "The admission webhook")
    yield from _of(
        "customkind",
        ("CustomKindRegistered", "A kind of custom resources was registered.", "registered"),
        ("CustomKindDeleted", "The kind is not registered any more.", "deleted"),
    )
    yield from _kept(
        "customobject", "CustomObjectCreated", "CustomObjectUpdated", "CustomObjectDeleted", "The custom resource"
    )
    yield from _of("command", ("CommandAccepted", "A command was accepted for taskgroups.", "accepted"))
    yield from _of(
        "agent",
        ("AgentJoined", "The cluster has a new agent.", "joined"),
        ("AgentLeft", "The agent has left the cluster.", "left", "warning"),
        ("AgentDisabled", "The agent is cordoned: no taskgroup is placed there.", "disabled"),
        ("AgentEnabled", "The agent is uncordoned and accepts taskgroups again.", "enabled"),
        ("AgentTainted", "The taints of the agent have changed.", "tainted"),
        ("AgentSettingsChanged", "Attributes, extended resources or sockets of the agent were set.", "set"),
        ("AgentSettingsForgotten", "All settings of the agent were removed.", "forgotten"),
        ("AgentSettingsTooLarge", "Settings under another name of the agent exceed the limit together with its own.",
         "too large", "warning"),
        ("DrainStarted", "Taskgroups are moved away from the agent.", "drain"),
        ("DrainFinished", "No taskgroups are left on the agent.", "drained"),
        ("DrainFailed", "The drain has ended with taskgroups left.", "drain failed", "warning"),
        ("DrainCancelled", "An operator has ended the drain.", "drain ended"),
        ("DrainBlocked", "No taskgroup of the drain can move now; the message has the causes.", "drain blocked",
         "warning"),
    )  # fmt: skip
    yield from _of(
        "framework",
        ("FrameworkSubscribed", "The scheduler is connected to the cluster manager.", "subscribed"),
        ("FrameworkDisconnected", "The connection to the cluster manager was lost.", "disconnected", "warning"),
        ("LeaderTookOver", "A scheduler has become the leader; the message has its address and its term.", ""),
        ("RebalanceFinished", "A rebalancing of the cluster has begun its moves, or has found none.", ""),
        ("FrameworkRemoved", "The cluster manager has removed the framework.", "removed", "error"),
        (
            "ReplacementsHalted",
            "A large part of the cluster was lost at once; lost taskgroups are not replaced.",
            "",
            "error",
        ),
        ("ReplacementsResumed", "Lost taskgroups are replaced again.", ""),
        (
            "UnknownTasksFound",
            "Tasks run that the store does not know; nothing is launched until an operator has decided about them.",
            "",
            "error",
        ),
        ("UnknownTasksDecided", "An operator has decided about tasks that the store does not know.", ""),
        ("TimesMoved", "Records were far ahead of the clock; their times were moved.", "times-moved", "warning"),
        ("PolicyPluginFailed", "A plug-in of the policy failed or was too slow.", "", "warning"),
    )
    yield (
        "NoOutstandingApplications",
        Meaning(("framework",), "No managed application has had work for two minutes.", (), event=False),
    )


def _deployments() -> Iterator[tuple[EventReason, Meaning]]:
    return _of(
        "deployment",
        ("DeploymentCreated", "The deployment was created.", "created"),
        ("DeploymentAdopted", "The deployment has taken over an application.", "adopted"),
        ("DeploymentChanged", "Its document has changed; running taskgroups stay unchanged.", "changed"),
        ("DeploymentScaled", "The number of taskgroups has changed.", "scaled"),
        ("DeploymentStandIn", "Additional taskgroups start before a drain ends present ones.", "stand_in"),
        ("DeploymentStandInEnded", "The additional taskgroups for a drain end.", "stand_in_ended"),
        ("DeploymentLaunched", "The launch of its taskgroups has ended.", "launched"),
        ("DeploymentLaunching", "Missing taskgroups are launched again.", "launching"),
        ("DeploymentDeleting", "Its applications are being deleted.", "deleting"),
        ("DeploymentDeleted", "Its applications are deleted.", "deleted"),
        ("LimitsChanging", "Limits change in place.", "limits"),
        ("LimitsChanged", "All executors have received the new limits. A warning if some failed.",
         "limits-changed"),
        ("UpdateStarted", "A rolling update begins.", "update"),
        ("StepStarted", "A step of the update, or the second half of a step, begins.", "step"),
        ("StepEnded", "A step of the update has ended.", "step-ended"),
        ("CanaryPassed", "The taskgroups of the canary were ready for the required time.", "canary"),
        ("RemovalReduced", "The update removes fewer taskgroups because others have failed.", "spared"),
        ("UpdatePausing", "The update pauses after the present step.", "pausing"),
        ("UpdatePaused", "The update is paused.", "paused"),
        ("UpdateResumed", "The update continues.", "resumed"),
        ("UpdateSuspended", "The update cannot continue by itself.", "suspended", "warning"),
        ("UpdateCancelled", "The update, or the queued revision, was cancelled.", "cancelled"),
        ("UpdateGoingBack", "The update is undone because a step has failed.", "back", "warning"),
        ("UpdateWentBack", "The update has been undone.", "went-back"),
        ("UpdateFinished", "The update is complete.", "updated"),
        ("RevisionQueued", "Another revision follows after the present update is undone.", "follows"),
        ("RevisionRefused", "The queued revision cannot be carried out.", "refused", "warning"),
    )  # fmt: skip


REASONS: Mapping[EventReason, Meaning] = dict(_all())
"""Every reason with its meaning, by kind of object."""


def former_name(reason: EventReason) -> str:
    """Returns the name that the reason had in version 0.1, which metrics keep; the present name for a newer reason."""
    former = REASONS[reason].former
    return former[0] if former else reason


def reasons_named(names: Iterable[str]) -> frozenset[str]:
    """Returns the reasons that a filter with these names selects. A name of version 0.1 selects all reasons that had
    this name, of objects of any kind."""
    given = frozenset(names)
    return given | {reason for reason, meaning in REASONS.items() if not given.isdisjoint(meaning.former)}


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
KEPT: Mapping[str, tuple[EventReason, EventReason, EventReason]] = {
    "configmap": ("ConfigMapCreated", "ConfigMapUpdated", "ConfigMapDeleted"),
    "secret": ("SecretCreated", "SecretUpdated", "SecretDeleted"),
    "webhook": ("WebhookCreated", "WebhookUpdated", "WebhookDeleted"),
    "customobject": ("CustomObjectCreated", "CustomObjectUpdated", "CustomObjectDeleted"),
}
"""Created, updated, deleted: by kind, where one function stores objects of several kinds."""
