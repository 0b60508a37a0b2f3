from bcs_scheduler.mesos.proto import mesos_pb2 as _mesos_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Call(_message.Message):
    __slots__ = ("type", "reserve_resources", "unreserve_resources", "teardown", "mark_agent_gone")
    class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNKNOWN: _ClassVar[Call.Type]
        GET_HEALTH: _ClassVar[Call.Type]
        GET_VERSION: _ClassVar[Call.Type]
        GET_STATE: _ClassVar[Call.Type]
        GET_AGENTS: _ClassVar[Call.Type]
        GET_FRAMEWORKS: _ClassVar[Call.Type]
        GET_EXECUTORS: _ClassVar[Call.Type]
        GET_TASKS: _ClassVar[Call.Type]
        GET_MASTER: _ClassVar[Call.Type]
        RESERVE_RESOURCES: _ClassVar[Call.Type]
        UNRESERVE_RESOURCES: _ClassVar[Call.Type]
        TEARDOWN: _ClassVar[Call.Type]
        MARK_AGENT_GONE: _ClassVar[Call.Type]
    UNKNOWN: Call.Type
    GET_HEALTH: Call.Type
    GET_VERSION: Call.Type
    GET_STATE: Call.Type
    GET_AGENTS: Call.Type
    GET_FRAMEWORKS: Call.Type
    GET_EXECUTORS: Call.Type
    GET_TASKS: Call.Type
    GET_MASTER: Call.Type
    RESERVE_RESOURCES: Call.Type
    UNRESERVE_RESOURCES: Call.Type
    TEARDOWN: Call.Type
    MARK_AGENT_GONE: Call.Type
    class Teardown(_message.Message):
        __slots__ = ("framework_id",)
        FRAMEWORK_ID_FIELD_NUMBER: _ClassVar[int]
        framework_id: _mesos_pb2.FrameworkID
        def __init__(self, framework_id: _Optional[_Union[_mesos_pb2.FrameworkID, _Mapping]] = ...) -> None: ...
    class MarkAgentGone(_message.Message):
        __slots__ = ("agent_id",)
        AGENT_ID_FIELD_NUMBER: _ClassVar[int]
        agent_id: _mesos_pb2.AgentID
        def __init__(self, agent_id: _Optional[_Union[_mesos_pb2.AgentID, _Mapping]] = ...) -> None: ...
    class ReserveResources(_message.Message):
        __slots__ = ("agent_id", "source", "resources")
        AGENT_ID_FIELD_NUMBER: _ClassVar[int]
        SOURCE_FIELD_NUMBER: _ClassVar[int]
        RESOURCES_FIELD_NUMBER: _ClassVar[int]
        agent_id: _mesos_pb2.AgentID
        source: _containers.RepeatedCompositeFieldContainer[_mesos_pb2.Resource]
        resources: _containers.RepeatedCompositeFieldContainer[_mesos_pb2.Resource]
        def __init__(self, agent_id: _Optional[_Union[_mesos_pb2.AgentID, _Mapping]] = ..., source: _Optional[_Iterable[_Union[_mesos_pb2.Resource, _Mapping]]] = ..., resources: _Optional[_Iterable[_Union[_mesos_pb2.Resource, _Mapping]]] = ...) -> None: ...
    class UnreserveResources(_message.Message):
        __slots__ = ("agent_id", "resources")
        AGENT_ID_FIELD_NUMBER: _ClassVar[int]
        RESOURCES_FIELD_NUMBER: _ClassVar[int]
        agent_id: _mesos_pb2.AgentID
        resources: _containers.RepeatedCompositeFieldContainer[_mesos_pb2.Resource]
        def __init__(self, agent_id: _Optional[_Union[_mesos_pb2.AgentID, _Mapping]] = ..., resources: _Optional[_Iterable[_Union[_mesos_pb2.Resource, _Mapping]]] = ...) -> None: ...
    TYPE_FIELD_NUMBER: _ClassVar[int]
    RESERVE_RESOURCES_FIELD_NUMBER: _ClassVar[int]
    UNRESERVE_RESOURCES_FIELD_NUMBER: _ClassVar[int]
    TEARDOWN_FIELD_NUMBER: _ClassVar[int]
    MARK_AGENT_GONE_FIELD_NUMBER: _ClassVar[int]
    type: Call.Type
    reserve_resources: Call.ReserveResources
    unreserve_resources: Call.UnreserveResources
    teardown: Call.Teardown
    mark_agent_gone: Call.MarkAgentGone
    def __init__(self, type: _Optional[_Union[Call.Type, str]] = ..., reserve_resources: _Optional[_Union[Call.ReserveResources, _Mapping]] = ..., unreserve_resources: _Optional[_Union[Call.UnreserveResources, _Mapping]] = ..., teardown: _Optional[_Union[Call.Teardown, _Mapping]] = ..., mark_agent_gone: _Optional[_Union[Call.MarkAgentGone, _Mapping]] = ...) -> None: ...

class Response(_message.Message):
    __slots__ = ("type", "get_health", "get_version", "get_state", "get_agents", "get_frameworks", "get_executors", "get_tasks", "get_master")
    class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNKNOWN: _ClassVar[Response.Type]
        GET_HEALTH: _ClassVar[Response.Type]
        GET_VERSION: _ClassVar[Response.Type]
        GET_STATE: _ClassVar[Response.Type]
        GET_AGENTS: _ClassVar[Response.Type]
        GET_FRAMEWORKS: _ClassVar[Response.Type]
        GET_EXECUTORS: _ClassVar[Response.Type]
        GET_TASKS: _ClassVar[Response.Type]
        GET_MASTER: _ClassVar[Response.Type]
    UNKNOWN: Response.Type
    GET_HEALTH: Response.Type
    GET_VERSION: Response.Type
    GET_STATE: Response.Type
    GET_AGENTS: Response.Type
    GET_FRAMEWORKS: Response.Type
    GET_EXECUTORS: Response.Type
    GET_TASKS: Response.Type
    GET_MASTER: Response.Type
    class GetHealth(_message.Message):
        __slots__ = ("healthy",)
        HEALTHY_FIELD_NUMBER: _ClassVar[int]
        healthy: bool
        def __init__(self, healthy: _Optional[bool] = ...) -> None: ...
    class VersionInfo(_message.Message):
        __slots__ = ("version", "build_time")
        VERSION_FIELD_NUMBER: _ClassVar[int]
        BUILD_TIME_FIELD_NUMBER: _ClassVar[int]
        version: str
        build_time: float
        def __init__(self, version: _Optional[str] = ..., build_time: _Optional[float] = ...) -> None: ...
    class GetVersion(_message.Message):
        __slots__ = ("version_info",)
        VERSION_INFO_FIELD_NUMBER: _ClassVar[int]
        version_info: Response.VersionInfo
        def __init__(self, version_info: _Optional[_Union[Response.VersionInfo, _Mapping]] = ...) -> None: ...
    class GetState(_message.Message):
        __slots__ = ("get_tasks", "get_executors", "get_frameworks", "get_agents")
        GET_TASKS_FIELD_NUMBER: _ClassVar[int]
        GET_EXECUTORS_FIELD_NUMBER: _ClassVar[int]
        GET_FRAMEWORKS_FIELD_NUMBER: _ClassVar[int]
        GET_AGENTS_FIELD_NUMBER: _ClassVar[int]
        get_tasks: Response.GetTasks
        get_executors: Response.GetExecutors
        get_frameworks: Response.GetFrameworks
        get_agents: Response.GetAgents
        def __init__(self, get_tasks: _Optional[_Union[Response.GetTasks, _Mapping]] = ..., get_executors: _Optional[_Union[Response.GetExecutors, _Mapping]] = ..., get_frameworks: _Optional[_Union[Response.GetFrameworks, _Mapping]] = ..., get_agents: _Optional[_Union[Response.GetAgents, _Mapping]] = ...) -> None: ...
    class GetAgents(_message.Message):
        __slots__ = ("agents", "recovered_agents")
        class Agent(_message.Message):
            __slots__ = ("agent_info", "active", "version", "pid", "registered_time", "reregistered_time", "total_resources", "allocated_resources", "offered_resources", "capabilities", "deactivated")
            AGENT_INFO_FIELD_NUMBER: _ClassVar[int]
            ACTIVE_FIELD_NUMBER: _ClassVar[int]
            VERSION_FIELD_NUMBER: _ClassVar[int]
            PID_FIELD_NUMBER: _ClassVar[int]
            REGISTERED_TIME_FIELD_NUMBER: _ClassVar[int]
            REREGISTERED_TIME_FIELD_NUMBER: _ClassVar[int]
            TOTAL_RESOURCES_FIELD_NUMBER: _ClassVar[int]
            ALLOCATED_RESOURCES_FIELD_NUMBER: _ClassVar[int]
            OFFERED_RESOURCES_FIELD_NUMBER: _ClassVar[int]
            CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
            DEACTIVATED_FIELD_NUMBER: _ClassVar[int]
            agent_info: _mesos_pb2.AgentInfo
            active: bool
            version: str
            pid: str
            registered_time: _mesos_pb2.TimeInfo
            reregistered_time: _mesos_pb2.TimeInfo
            total_resources: _containers.RepeatedCompositeFieldContainer[_mesos_pb2.Resource]
            allocated_resources: _containers.RepeatedCompositeFieldContainer[_mesos_pb2.Resource]
            offered_resources: _containers.RepeatedCompositeFieldContainer[_mesos_pb2.Resource]
            capabilities: _containers.RepeatedCompositeFieldContainer[_mesos_pb2.AgentInfo.Capability]
            deactivated: bool
            def __init__(self, agent_info: _Optional[_Union[_mesos_pb2.AgentInfo, _Mapping]] = ..., active: _Optional[bool] = ..., version: _Optional[str] = ..., pid: _Optional[str] = ..., registered_time: _Optional[_Union[_mesos_pb2.TimeInfo, _Mapping]] = ..., reregistered_time: _Optional[_Union[_mesos_pb2.TimeInfo, _Mapping]] = ..., total_resources: _Optional[_Iterable[_Union[_mesos_pb2.Resource, _Mapping]]] = ..., allocated_resources: _Optional[_Iterable[_Union[_mesos_pb2.Resource, _Mapping]]] = ..., offered_resources: _Optional[_Iterable[_Union[_mesos_pb2.Resource, _Mapping]]] = ..., capabilities: _Optional[_Iterable[_Union[_mesos_pb2.AgentInfo.Capability, _Mapping]]] = ..., deactivated: _Optional[bool] = ...) -> None: ...
        AGENTS_FIELD_NUMBER: _ClassVar[int]
        RECOVERED_AGENTS_FIELD_NUMBER: _ClassVar[int]
        agents: _containers.RepeatedCompositeFieldContainer[Response.GetAgents.Agent]
        recovered_agents: _containers.RepeatedCompositeFieldContainer[_mesos_pb2.AgentInfo]
        def __init__(self, agents: _Optional[_Iterable[_Union[Response.GetAgents.Agent, _Mapping]]] = ..., recovered_agents: _Optional[_Iterable[_Union[_mesos_pb2.AgentInfo, _Mapping]]] = ...) -> None: ...
    class GetFrameworks(_message.Message):
        __slots__ = ("frameworks", "completed_frameworks")
        class Framework(_message.Message):
            __slots__ = ("framework_info", "active", "connected", "registered_time", "reregistered_time", "unregistered_time", "offers", "inverse_offers", "allocated_resources", "offered_resources", "recovered")
            FRAMEWORK_INFO_FIELD_NUMBER: _ClassVar[int]
            ACTIVE_FIELD_NUMBER: _ClassVar[int]
            CONNECTED_FIELD_NUMBER: _ClassVar[int]
            REGISTERED_TIME_FIELD_NUMBER: _ClassVar[int]
            REREGISTERED_TIME_FIELD_NUMBER: _ClassVar[int]
            UNREGISTERED_TIME_FIELD_NUMBER: _ClassVar[int]
            OFFERS_FIELD_NUMBER: _ClassVar[int]
            INVERSE_OFFERS_FIELD_NUMBER: _ClassVar[int]
            ALLOCATED_RESOURCES_FIELD_NUMBER: _ClassVar[int]
            OFFERED_RESOURCES_FIELD_NUMBER: _ClassVar[int]
            RECOVERED_FIELD_NUMBER: _ClassVar[int]
            framework_info: _mesos_pb2.FrameworkInfo
            active: bool
            connected: bool
            registered_time: _mesos_pb2.TimeInfo
            reregistered_time: _mesos_pb2.TimeInfo
            unregistered_time: _mesos_pb2.TimeInfo
            offers: _containers.RepeatedCompositeFieldContainer[_mesos_pb2.Offer]
            inverse_offers: _containers.RepeatedCompositeFieldContainer[_mesos_pb2.InverseOffer]
            allocated_resources: _containers.RepeatedCompositeFieldContainer[_mesos_pb2.Resource]
            offered_resources: _containers.RepeatedCompositeFieldContainer[_mesos_pb2.Resource]
            recovered: bool
            def __init__(self, framework_info: _Optional[_Union[_mesos_pb2.FrameworkInfo, _Mapping]] = ..., active: _Optional[bool] = ..., connected: _Optional[bool] = ..., registered_time: _Optional[_Union[_mesos_pb2.TimeInfo, _Mapping]] = ..., reregistered_time: _Optional[_Union[_mesos_pb2.TimeInfo, _Mapping]] = ..., unregistered_time: _Optional[_Union[_mesos_pb2.TimeInfo, _Mapping]] = ..., offers: _Optional[_Iterable[_Union[_mesos_pb2.Offer, _Mapping]]] = ..., inverse_offers: _Optional[_Iterable[_Union[_mesos_pb2.InverseOffer, _Mapping]]] = ..., allocated_resources: _Optional[_Iterable[_Union[_mesos_pb2.Resource, _Mapping]]] = ..., offered_resources: _Optional[_Iterable[_Union[_mesos_pb2.Resource, _Mapping]]] = ..., recovered: _Optional[bool] = ...) -> None: ...
        FRAMEWORKS_FIELD_NUMBER: _ClassVar[int]
        COMPLETED_FRAMEWORKS_FIELD_NUMBER: _ClassVar[int]
        frameworks: _containers.RepeatedCompositeFieldContainer[Response.GetFrameworks.Framework]
        completed_frameworks: _containers.RepeatedCompositeFieldContainer[Response.GetFrameworks.Framework]
        def __init__(self, frameworks: _Optional[_Iterable[_Union[Response.GetFrameworks.Framework, _Mapping]]] = ..., completed_frameworks: _Optional[_Iterable[_Union[Response.GetFrameworks.Framework, _Mapping]]] = ...) -> None: ...
    class GetExecutors(_message.Message):
        __slots__ = ("executors",)
        class Executor(_message.Message):
            __slots__ = ("executor_info", "agent_id")
            EXECUTOR_INFO_FIELD_NUMBER: _ClassVar[int]
            AGENT_ID_FIELD_NUMBER: _ClassVar[int]
            executor_info: _mesos_pb2.ExecutorInfo
            agent_id: _mesos_pb2.AgentID
            def __init__(self, executor_info: _Optional[_Union[_mesos_pb2.ExecutorInfo, _Mapping]] = ..., agent_id: _Optional[_Union[_mesos_pb2.AgentID, _Mapping]] = ...) -> None: ...
        EXECUTORS_FIELD_NUMBER: _ClassVar[int]
        executors: _containers.RepeatedCompositeFieldContainer[Response.GetExecutors.Executor]
        def __init__(self, executors: _Optional[_Iterable[_Union[Response.GetExecutors.Executor, _Mapping]]] = ...) -> None: ...
    class GetTasks(_message.Message):
        __slots__ = ("tasks", "completed_tasks", "unreachable_tasks")
        TASKS_FIELD_NUMBER: _ClassVar[int]
        COMPLETED_TASKS_FIELD_NUMBER: _ClassVar[int]
        UNREACHABLE_TASKS_FIELD_NUMBER: _ClassVar[int]
        tasks: _containers.RepeatedCompositeFieldContainer[_mesos_pb2.Task]
        completed_tasks: _containers.RepeatedCompositeFieldContainer[_mesos_pb2.Task]
        unreachable_tasks: _containers.RepeatedCompositeFieldContainer[_mesos_pb2.Task]
        def __init__(self, tasks: _Optional[_Iterable[_Union[_mesos_pb2.Task, _Mapping]]] = ..., completed_tasks: _Optional[_Iterable[_Union[_mesos_pb2.Task, _Mapping]]] = ..., unreachable_tasks: _Optional[_Iterable[_Union[_mesos_pb2.Task, _Mapping]]] = ...) -> None: ...
    class GetMaster(_message.Message):
        __slots__ = ("master_info", "start_time", "elected_time")
        MASTER_INFO_FIELD_NUMBER: _ClassVar[int]
        START_TIME_FIELD_NUMBER: _ClassVar[int]
        ELECTED_TIME_FIELD_NUMBER: _ClassVar[int]
        master_info: _mesos_pb2.MasterInfo
        start_time: float
        elected_time: float
        def __init__(self, master_info: _Optional[_Union[_mesos_pb2.MasterInfo, _Mapping]] = ..., start_time: _Optional[float] = ..., elected_time: _Optional[float] = ...) -> None: ...
    TYPE_FIELD_NUMBER: _ClassVar[int]
    GET_HEALTH_FIELD_NUMBER: _ClassVar[int]
    GET_VERSION_FIELD_NUMBER: _ClassVar[int]
    GET_STATE_FIELD_NUMBER: _ClassVar[int]
    GET_AGENTS_FIELD_NUMBER: _ClassVar[int]
    GET_FRAMEWORKS_FIELD_NUMBER: _ClassVar[int]
    GET_EXECUTORS_FIELD_NUMBER: _ClassVar[int]
    GET_TASKS_FIELD_NUMBER: _ClassVar[int]
    GET_MASTER_FIELD_NUMBER: _ClassVar[int]
    type: Response.Type
    get_health: Response.GetHealth
    get_version: Response.GetVersion
    get_state: Response.GetState
    get_agents: Response.GetAgents
    get_frameworks: Response.GetFrameworks
    get_executors: Response.GetExecutors
    get_tasks: Response.GetTasks
    get_master: Response.GetMaster
    def __init__(self, type: _Optional[_Union[Response.Type, str]] = ..., get_health: _Optional[_Union[Response.GetHealth, _Mapping]] = ..., get_version: _Optional[_Union[Response.GetVersion, _Mapping]] = ..., get_state: _Optional[_Union[Response.GetState, _Mapping]] = ..., get_agents: _Optional[_Union[Response.GetAgents, _Mapping]] = ..., get_frameworks: _Optional[_Union[Response.GetFrameworks, _Mapping]] = ..., get_executors: _Optional[_Union[Response.GetExecutors, _Mapping]] = ..., get_tasks: _Optional[_Union[Response.GetTasks, _Mapping]] = ..., get_master: _Optional[_Union[Response.GetMaster, _Mapping]] = ...) -> None: ...
