from bcs_scheduler.mesos.proto import mesos_pb2 as _mesos_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Event(_message.Message):
    __slots__ = ("type", "subscribed", "acknowledged", "launch", "kill", "message", "error", "launch_group")
    class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNKNOWN: _ClassVar[Event.Type]
        SUBSCRIBED: _ClassVar[Event.Type]
        LAUNCH: _ClassVar[Event.Type]
        KILL: _ClassVar[Event.Type]
        ACKNOWLEDGED: _ClassVar[Event.Type]
        MESSAGE: _ClassVar[Event.Type]
        ERROR: _ClassVar[Event.Type]
        SHUTDOWN: _ClassVar[Event.Type]
        LAUNCH_GROUP: _ClassVar[Event.Type]
        HEARTBEAT: _ClassVar[Event.Type]
    UNKNOWN: Event.Type
    SUBSCRIBED: Event.Type
    LAUNCH: Event.Type
    KILL: Event.Type
    ACKNOWLEDGED: Event.Type
    MESSAGE: Event.Type
    ERROR: Event.Type
    SHUTDOWN: Event.Type
    LAUNCH_GROUP: Event.Type
    HEARTBEAT: Event.Type
    class Subscribed(_message.Message):
        __slots__ = ("executor_info", "framework_info", "agent_info", "container_id")
        EXECUTOR_INFO_FIELD_NUMBER: _ClassVar[int]
        FRAMEWORK_INFO_FIELD_NUMBER: _ClassVar[int]
        AGENT_INFO_FIELD_NUMBER: _ClassVar[int]
        CONTAINER_ID_FIELD_NUMBER: _ClassVar[int]
        executor_info: _mesos_pb2.ExecutorInfo
        framework_info: _mesos_pb2.FrameworkInfo
        agent_info: _mesos_pb2.AgentInfo
        container_id: _mesos_pb2.ContainerID
        def __init__(self, executor_info: _Optional[_Union[_mesos_pb2.ExecutorInfo, _Mapping]] = ..., framework_info: _Optional[_Union[_mesos_pb2.FrameworkInfo, _Mapping]] = ..., agent_info: _Optional[_Union[_mesos_pb2.AgentInfo, _Mapping]] = ..., container_id: _Optional[_Union[_mesos_pb2.ContainerID, _Mapping]] = ...) -> None: ...
    class Launch(_message.Message):
        __slots__ = ("task",)
        TASK_FIELD_NUMBER: _ClassVar[int]
        task: _mesos_pb2.TaskInfo
        def __init__(self, task: _Optional[_Union[_mesos_pb2.TaskInfo, _Mapping]] = ...) -> None: ...
    class LaunchGroup(_message.Message):
        __slots__ = ("task_group",)
        TASK_GROUP_FIELD_NUMBER: _ClassVar[int]
        task_group: _mesos_pb2.TaskGroupInfo
        def __init__(self, task_group: _Optional[_Union[_mesos_pb2.TaskGroupInfo, _Mapping]] = ...) -> None: ...
    class Kill(_message.Message):
        __slots__ = ("task_id", "kill_policy")
        TASK_ID_FIELD_NUMBER: _ClassVar[int]
        KILL_POLICY_FIELD_NUMBER: _ClassVar[int]
        task_id: _mesos_pb2.TaskID
        kill_policy: _mesos_pb2.KillPolicy
        def __init__(self, task_id: _Optional[_Union[_mesos_pb2.TaskID, _Mapping]] = ..., kill_policy: _Optional[_Union[_mesos_pb2.KillPolicy, _Mapping]] = ...) -> None: ...
    class Acknowledged(_message.Message):
        __slots__ = ("task_id", "uuid")
        TASK_ID_FIELD_NUMBER: _ClassVar[int]
        UUID_FIELD_NUMBER: _ClassVar[int]
        task_id: _mesos_pb2.TaskID
        uuid: bytes
        def __init__(self, task_id: _Optional[_Union[_mesos_pb2.TaskID, _Mapping]] = ..., uuid: _Optional[bytes] = ...) -> None: ...
    class Message(_message.Message):
        __slots__ = ("data",)
        DATA_FIELD_NUMBER: _ClassVar[int]
        data: bytes
        def __init__(self, data: _Optional[bytes] = ...) -> None: ...
    class Error(_message.Message):
        __slots__ = ("message",)
        MESSAGE_FIELD_NUMBER: _ClassVar[int]
        message: str
        def __init__(self, message: _Optional[str] = ...) -> None: ...
    TYPE_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBED_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    LAUNCH_FIELD_NUMBER: _ClassVar[int]
    KILL_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LAUNCH_GROUP_FIELD_NUMBER: _ClassVar[int]
    type: Event.Type
    subscribed: Event.Subscribed
    acknowledged: Event.Acknowledged
    launch: Event.Launch
    kill: Event.Kill
    message: Event.Message
    error: Event.Error
    launch_group: Event.LaunchGroup
    def __init__(self, type: _Optional[_Union[Event.Type, str]] = ..., subscribed: _Optional[_Union[Event.Subscribed, _Mapping]] = ..., acknowledged: _Optional[_Union[Event.Acknowledged, _Mapping]] = ..., launch: _Optional[_Union[Event.Launch, _Mapping]] = ..., kill: _Optional[_Union[Event.Kill, _Mapping]] = ..., message: _Optional[_Union[Event.Message, _Mapping]] = ..., error: _Optional[_Union[Event.Error, _Mapping]] = ..., launch_group: _Optional[_Union[Event.LaunchGroup, _Mapping]] = ...) -> None: ...

class Call(_message.Message):
    __slots__ = ("executor_id", "framework_id", "type", "subscribe", "update", "message")
    class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNKNOWN: _ClassVar[Call.Type]
        SUBSCRIBE: _ClassVar[Call.Type]
        UPDATE: _ClassVar[Call.Type]
        MESSAGE: _ClassVar[Call.Type]
        HEARTBEAT: _ClassVar[Call.Type]
    UNKNOWN: Call.Type
    SUBSCRIBE: Call.Type
    UPDATE: Call.Type
    MESSAGE: Call.Type
    HEARTBEAT: Call.Type
    class Subscribe(_message.Message):
        __slots__ = ("unacknowledged_tasks", "unacknowledged_updates")
        UNACKNOWLEDGED_TASKS_FIELD_NUMBER: _ClassVar[int]
        UNACKNOWLEDGED_UPDATES_FIELD_NUMBER: _ClassVar[int]
        unacknowledged_tasks: _containers.RepeatedCompositeFieldContainer[_mesos_pb2.TaskInfo]
        unacknowledged_updates: _containers.RepeatedCompositeFieldContainer[Call.Update]
        def __init__(self, unacknowledged_tasks: _Optional[_Iterable[_Union[_mesos_pb2.TaskInfo, _Mapping]]] = ..., unacknowledged_updates: _Optional[_Iterable[_Union[Call.Update, _Mapping]]] = ...) -> None: ...
    class Update(_message.Message):
        __slots__ = ("status",)
        STATUS_FIELD_NUMBER: _ClassVar[int]
        status: _mesos_pb2.TaskStatus
        def __init__(self, status: _Optional[_Union[_mesos_pb2.TaskStatus, _Mapping]] = ...) -> None: ...
    class Message(_message.Message):
        __slots__ = ("data",)
        DATA_FIELD_NUMBER: _ClassVar[int]
        data: bytes
        def __init__(self, data: _Optional[bytes] = ...) -> None: ...
    EXECUTOR_ID_FIELD_NUMBER: _ClassVar[int]
    FRAMEWORK_ID_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBE_FIELD_NUMBER: _ClassVar[int]
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    executor_id: _mesos_pb2.ExecutorID
    framework_id: _mesos_pb2.FrameworkID
    type: Call.Type
    subscribe: Call.Subscribe
    update: Call.Update
    message: Call.Message
    def __init__(self, executor_id: _Optional[_Union[_mesos_pb2.ExecutorID, _Mapping]] = ..., framework_id: _Optional[_Union[_mesos_pb2.FrameworkID, _Mapping]] = ..., type: _Optional[_Union[Call.Type, str]] = ..., subscribe: _Optional[_Union[Call.Subscribe, _Mapping]] = ..., update: _Optional[_Union[Call.Update, _Mapping]] = ..., message: _Optional[_Union[Call.Message, _Mapping]] = ...) -> None: ...
