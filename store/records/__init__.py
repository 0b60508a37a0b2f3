"""Every persisted object as a frozen struct. This package exports all of them; `KINDS` is the register of their kinds.

A record is immutable; a change replaces it. Times are Unix seconds (float) unless the name says otherwise;
0.0 means "not yet". `kind` names the table, `key` is unique within it.
"""

from __future__ import annotations

from store.codes import DrainPhase as DrainPhase
from store.codes import EndCause as EndCause
from store.codes import NoteCode as NoteCode
from store.records.managed import ANNOTATION_OF_PLACEHOLDER as ANNOTATION_OF_PLACEHOLDER
from store.records.managed import ANNOTATION_OF_TASK as ANNOTATION_OF_TASK
from store.records.managed import ManagedApplication as ManagedApplication
from store.records.managed import ManagedTask as ManagedTask
from store.records.managed import MemberGroup as MemberGroup
from store.records.managed import Placeholder as Placeholder
from store.records.managed import StateChange as StateChange
from store.records.managed import TaskOutcome as TaskOutcome
from store.records.messages import Command as Command
from store.records.messages import CommandType as CommandType
from store.records.messages import ConfigItem as ConfigItem
from store.records.messages import ConfigMap as ConfigMap
from store.records.messages import Message as Message
from store.records.messages import MessageResult as MessageResult
from store.records.messages import MessageStatus as MessageStatus
from store.records.messages import Secret as Secret
from store.records.objects import CRITICAL_CLASSES as CRITICAL_CLASSES
from store.records.objects import DEFAULT_PARTITION as DEFAULT_PARTITION
from store.records.objects import DEFAULT_QUEUE as DEFAULT_QUEUE
from store.records.objects import CustomKind as CustomKind
from store.records.objects import CustomObject as CustomObject
from store.records.objects import Event as Event
from store.records.objects import EventLog as EventLog
from store.records.objects import Hook as Hook
from store.records.objects import Limits as Limits
from store.records.objects import Namespace as Namespace
from store.records.objects import PodGroup as PodGroup
from store.records.objects import PriorityClass as PriorityClass
from store.records.objects import Queue as Queue
from store.records.objects import QueueHalt as QueueHalt
from store.records.objects import QueueTree as QueueTree
from store.records.objects import Quota as Quota
from store.records.objects import Webhook as Webhook
from store.records.record import SCHEMA as SCHEMA
from store.records.record import Record as Record
from store.records.running import GROUP_ANNOTATION as GROUP_ANNOTATION
from store.records.running import AgentSetting as AgentSetting
from store.records.running import Application as Application
from store.records.running import ApplicationStatus as ApplicationStatus
from store.records.running import ApplicationType as ApplicationType
from store.records.running import BoundPort as BoundPort
from store.records.running import CheckResult as CheckResult
from store.records.running import Drain as Drain
from store.records.running import FailedOutput as FailedOutput
from store.records.running import Framework as Framework
from store.records.running import IdGap as IdGap
from store.records.running import LossHalt as LossHalt
from store.records.running import OrphanedTask as OrphanedTask
from store.records.running import Task as Task
from store.records.running import TaskGroup as TaskGroup
from store.records.running import TaskGroupStatus as TaskGroupStatus
from store.records.running import TaskStatus as TaskStatus
from store.records.running import UnknownHalt as UnknownHalt
from store.records.services import Endpoint as Endpoint
from store.records.services import Member as Member
from store.records.services import MemberPort as MemberPort
from store.records.services import Service as Service
from store.records.services import ServicePort as ServicePort
from store.records.transactions import DeletePayload as DeletePayload
from store.records.transactions import Note as Note
from store.records.transactions import Payload as Payload
from store.records.transactions import Queued as Queued
from store.records.transactions import ReschedulePayload as ReschedulePayload
from store.records.transactions import RollingPayload as RollingPayload
from store.records.transactions import Transaction as Transaction
from store.records.transactions import TransactionKind as TransactionKind
from store.records.transactions import TransactionStatus as TransactionStatus
from store.records.transactions import UpdatePayload as UpdatePayload
from store.records.version import FORM_OF_PLACEHOLDER as FORM_OF_PLACEHOLDER
from store.records.version import Executor as Executor
from store.records.version import PreemptionPolicy as PreemptionPolicy
from store.records.version import PriorityFrom as PriorityFrom
from store.records.version import Version as Version
from store.records.workloads import Canary as Canary
from store.records.workloads import Daemonset as Daemonset
from store.records.workloads import Deployment as Deployment
from store.records.workloads import Revision as Revision
from store.records.workloads import Rolling as Rolling
from store.records.workloads import Strategy as Strategy

KINDS: dict[str, type[Record]] = {
    cls.kind: cls
    for cls in (
        Framework,
        Application,
        Version,
        TaskGroup,
        OrphanedTask,
        FailedOutput,
        Transaction,
        AgentSetting,
        ConfigMap,
        Secret,
        Command,
        Message,
        Deployment,
        Revision,
        Daemonset,
        Service,
        Endpoint,
        Namespace,
        Queue,
        QueueTree,
        PriorityClass,
        PodGroup,
        ManagedApplication,
        ManagedTask,
        Placeholder,
        Webhook,
        CustomKind,
        CustomObject,
        EventLog,
    )
}
"""Record class by kind, for every kind that a store may hold."""
