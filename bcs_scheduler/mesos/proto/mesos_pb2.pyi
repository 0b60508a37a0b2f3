from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TaskState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TASK_STARTING: _ClassVar[TaskState]
    TASK_RUNNING: _ClassVar[TaskState]
    TASK_FINISHED: _ClassVar[TaskState]
    TASK_FAILED: _ClassVar[TaskState]
    TASK_KILLED: _ClassVar[TaskState]
    TASK_LOST: _ClassVar[TaskState]
    TASK_STAGING: _ClassVar[TaskState]
    TASK_ERROR: _ClassVar[TaskState]
    TASK_KILLING: _ClassVar[TaskState]
    TASK_DROPPED: _ClassVar[TaskState]
    TASK_UNREACHABLE: _ClassVar[TaskState]
    TASK_GONE: _ClassVar[TaskState]
    TASK_GONE_BY_OPERATOR: _ClassVar[TaskState]
    TASK_UNKNOWN: _ClassVar[TaskState]

class OperationState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OPERATION_UNSUPPORTED: _ClassVar[OperationState]
    OPERATION_PENDING: _ClassVar[OperationState]
    OPERATION_FINISHED: _ClassVar[OperationState]
    OPERATION_FAILED: _ClassVar[OperationState]
    OPERATION_ERROR: _ClassVar[OperationState]
    OPERATION_DROPPED: _ClassVar[OperationState]
    OPERATION_UNREACHABLE: _ClassVar[OperationState]
    OPERATION_GONE_BY_OPERATOR: _ClassVar[OperationState]
    OPERATION_RECOVERING: _ClassVar[OperationState]
    OPERATION_UNKNOWN: _ClassVar[OperationState]
TASK_STARTING: TaskState
TASK_RUNNING: TaskState
TASK_FINISHED: TaskState
TASK_FAILED: TaskState
TASK_KILLED: TaskState
TASK_LOST: TaskState
TASK_STAGING: TaskState
TASK_ERROR: TaskState
TASK_KILLING: TaskState
TASK_DROPPED: TaskState
TASK_UNREACHABLE: TaskState
TASK_GONE: TaskState
TASK_GONE_BY_OPERATOR: TaskState
TASK_UNKNOWN: TaskState
OPERATION_UNSUPPORTED: OperationState
OPERATION_PENDING: OperationState
OPERATION_FINISHED: OperationState
OPERATION_FAILED: OperationState
OPERATION_ERROR: OperationState
OPERATION_DROPPED: OperationState
OPERATION_UNREACHABLE: OperationState
OPERATION_GONE_BY_OPERATOR: OperationState
OPERATION_RECOVERING: OperationState
OPERATION_UNKNOWN: OperationState

class FrameworkID(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: str
    def __init__(self, value: _Optional[str] = ...) -> None: ...

class OfferID(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: str
    def __init__(self, value: _Optional[str] = ...) -> None: ...

class AgentID(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: str
    def __init__(self, value: _Optional[str] = ...) -> None: ...

class TaskID(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: str
    def __init__(self, value: _Optional[str] = ...) -> None: ...

class ExecutorID(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: str
    def __init__(self, value: _Optional[str] = ...) -> None: ...

class ContainerID(_message.Message):
    __slots__ = ("value", "parent")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    value: str
    parent: ContainerID
    def __init__(self, value: _Optional[str] = ..., parent: _Optional[_Union[ContainerID, _Mapping]] = ...) -> None: ...

class ResourceProviderID(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: str
    def __init__(self, value: _Optional[str] = ...) -> None: ...

class OperationID(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: str
    def __init__(self, value: _Optional[str] = ...) -> None: ...

class TimeInfo(_message.Message):
    __slots__ = ("nanoseconds",)
    NANOSECONDS_FIELD_NUMBER: _ClassVar[int]
    nanoseconds: int
    def __init__(self, nanoseconds: _Optional[int] = ...) -> None: ...

class DurationInfo(_message.Message):
    __slots__ = ("nanoseconds",)
    NANOSECONDS_FIELD_NUMBER: _ClassVar[int]
    nanoseconds: int
    def __init__(self, nanoseconds: _Optional[int] = ...) -> None: ...

class Address(_message.Message):
    __slots__ = ("hostname", "ip", "port")
    HOSTNAME_FIELD_NUMBER: _ClassVar[int]
    IP_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    hostname: str
    ip: str
    port: int
    def __init__(self, hostname: _Optional[str] = ..., ip: _Optional[str] = ..., port: _Optional[int] = ...) -> None: ...

class Parameter(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class URL(_message.Message):
    __slots__ = ("scheme", "address", "path", "query", "fragment")
    SCHEME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    scheme: str
    address: Address
    path: str
    query: _containers.RepeatedCompositeFieldContainer[Parameter]
    fragment: str
    def __init__(self, scheme: _Optional[str] = ..., address: _Optional[_Union[Address, _Mapping]] = ..., path: _Optional[str] = ..., query: _Optional[_Iterable[_Union[Parameter, _Mapping]]] = ..., fragment: _Optional[str] = ...) -> None: ...

class Unavailability(_message.Message):
    __slots__ = ("start", "duration")
    START_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    start: TimeInfo
    duration: DurationInfo
    def __init__(self, start: _Optional[_Union[TimeInfo, _Mapping]] = ..., duration: _Optional[_Union[DurationInfo, _Mapping]] = ...) -> None: ...

class Label(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class Labels(_message.Message):
    __slots__ = ("labels",)
    LABELS_FIELD_NUMBER: _ClassVar[int]
    labels: _containers.RepeatedCompositeFieldContainer[Label]
    def __init__(self, labels: _Optional[_Iterable[_Union[Label, _Mapping]]] = ...) -> None: ...

class FrameworkInfo(_message.Message):
    __slots__ = ("user", "name", "id", "failover_timeout", "checkpoint", "role", "hostname", "principal", "webui_url", "capabilities", "labels", "roles")
    class Capability(_message.Message):
        __slots__ = ("type",)
        class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
            __slots__ = ()
            UNKNOWN: _ClassVar[FrameworkInfo.Capability.Type]
            REVOCABLE_RESOURCES: _ClassVar[FrameworkInfo.Capability.Type]
            TASK_KILLING_STATE: _ClassVar[FrameworkInfo.Capability.Type]
            GPU_RESOURCES: _ClassVar[FrameworkInfo.Capability.Type]
            SHARED_RESOURCES: _ClassVar[FrameworkInfo.Capability.Type]
            PARTITION_AWARE: _ClassVar[FrameworkInfo.Capability.Type]
            MULTI_ROLE: _ClassVar[FrameworkInfo.Capability.Type]
            RESERVATION_REFINEMENT: _ClassVar[FrameworkInfo.Capability.Type]
            REGION_AWARE: _ClassVar[FrameworkInfo.Capability.Type]
        UNKNOWN: FrameworkInfo.Capability.Type
        REVOCABLE_RESOURCES: FrameworkInfo.Capability.Type
        TASK_KILLING_STATE: FrameworkInfo.Capability.Type
        GPU_RESOURCES: FrameworkInfo.Capability.Type
        SHARED_RESOURCES: FrameworkInfo.Capability.Type
        PARTITION_AWARE: FrameworkInfo.Capability.Type
        MULTI_ROLE: FrameworkInfo.Capability.Type
        RESERVATION_REFINEMENT: FrameworkInfo.Capability.Type
        REGION_AWARE: FrameworkInfo.Capability.Type
        TYPE_FIELD_NUMBER: _ClassVar[int]
        type: FrameworkInfo.Capability.Type
        def __init__(self, type: _Optional[_Union[FrameworkInfo.Capability.Type, str]] = ...) -> None: ...
    USER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    FAILOVER_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    HOSTNAME_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    WEBUI_URL_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    user: str
    name: str
    id: FrameworkID
    failover_timeout: float
    checkpoint: bool
    role: str
    hostname: str
    principal: str
    webui_url: str
    capabilities: _containers.RepeatedCompositeFieldContainer[FrameworkInfo.Capability]
    labels: Labels
    roles: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, user: _Optional[str] = ..., name: _Optional[str] = ..., id: _Optional[_Union[FrameworkID, _Mapping]] = ..., failover_timeout: _Optional[float] = ..., checkpoint: _Optional[bool] = ..., role: _Optional[str] = ..., hostname: _Optional[str] = ..., principal: _Optional[str] = ..., webui_url: _Optional[str] = ..., capabilities: _Optional[_Iterable[_Union[FrameworkInfo.Capability, _Mapping]]] = ..., labels: _Optional[_Union[Labels, _Mapping]] = ..., roles: _Optional[_Iterable[str]] = ...) -> None: ...

class DomainInfo(_message.Message):
    __slots__ = ("fault_domain",)
    class FaultDomain(_message.Message):
        __slots__ = ("region", "zone")
        class RegionInfo(_message.Message):
            __slots__ = ("name",)
            NAME_FIELD_NUMBER: _ClassVar[int]
            name: str
            def __init__(self, name: _Optional[str] = ...) -> None: ...
        class ZoneInfo(_message.Message):
            __slots__ = ("name",)
            NAME_FIELD_NUMBER: _ClassVar[int]
            name: str
            def __init__(self, name: _Optional[str] = ...) -> None: ...
        REGION_FIELD_NUMBER: _ClassVar[int]
        ZONE_FIELD_NUMBER: _ClassVar[int]
        region: DomainInfo.FaultDomain.RegionInfo
        zone: DomainInfo.FaultDomain.ZoneInfo
        def __init__(self, region: _Optional[_Union[DomainInfo.FaultDomain.RegionInfo, _Mapping]] = ..., zone: _Optional[_Union[DomainInfo.FaultDomain.ZoneInfo, _Mapping]] = ...) -> None: ...
    FAULT_DOMAIN_FIELD_NUMBER: _ClassVar[int]
    fault_domain: DomainInfo.FaultDomain
    def __init__(self, fault_domain: _Optional[_Union[DomainInfo.FaultDomain, _Mapping]] = ...) -> None: ...

class MasterInfo(_message.Message):
    __slots__ = ("id", "ip", "port", "pid", "hostname", "version", "address", "domain", "capabilities")
    class Capability(_message.Message):
        __slots__ = ("type",)
        class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
            __slots__ = ()
            UNKNOWN: _ClassVar[MasterInfo.Capability.Type]
            AGENT_UPDATE: _ClassVar[MasterInfo.Capability.Type]
            AGENT_DRAINING: _ClassVar[MasterInfo.Capability.Type]
            QUOTA_V2: _ClassVar[MasterInfo.Capability.Type]
        UNKNOWN: MasterInfo.Capability.Type
        AGENT_UPDATE: MasterInfo.Capability.Type
        AGENT_DRAINING: MasterInfo.Capability.Type
        QUOTA_V2: MasterInfo.Capability.Type
        TYPE_FIELD_NUMBER: _ClassVar[int]
        type: MasterInfo.Capability.Type
        def __init__(self, type: _Optional[_Union[MasterInfo.Capability.Type, str]] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    IP_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    HOSTNAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    id: str
    ip: int
    port: int
    pid: str
    hostname: str
    version: str
    address: Address
    domain: DomainInfo
    capabilities: _containers.RepeatedCompositeFieldContainer[MasterInfo.Capability]
    def __init__(self, id: _Optional[str] = ..., ip: _Optional[int] = ..., port: _Optional[int] = ..., pid: _Optional[str] = ..., hostname: _Optional[str] = ..., version: _Optional[str] = ..., address: _Optional[_Union[Address, _Mapping]] = ..., domain: _Optional[_Union[DomainInfo, _Mapping]] = ..., capabilities: _Optional[_Iterable[_Union[MasterInfo.Capability, _Mapping]]] = ...) -> None: ...

class AgentInfo(_message.Message):
    __slots__ = ("hostname", "resources", "attributes", "id", "port", "domain")
    class Capability(_message.Message):
        __slots__ = ("type",)
        class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
            __slots__ = ()
            UNKNOWN: _ClassVar[AgentInfo.Capability.Type]
            MULTI_ROLE: _ClassVar[AgentInfo.Capability.Type]
            HIERARCHICAL_ROLE: _ClassVar[AgentInfo.Capability.Type]
            RESERVATION_REFINEMENT: _ClassVar[AgentInfo.Capability.Type]
            RESOURCE_PROVIDER: _ClassVar[AgentInfo.Capability.Type]
            RESIZE_VOLUME: _ClassVar[AgentInfo.Capability.Type]
            AGENT_OPERATION_FEEDBACK: _ClassVar[AgentInfo.Capability.Type]
            AGENT_DRAINING: _ClassVar[AgentInfo.Capability.Type]
            TASK_RESOURCE_LIMITS: _ClassVar[AgentInfo.Capability.Type]
        UNKNOWN: AgentInfo.Capability.Type
        MULTI_ROLE: AgentInfo.Capability.Type
        HIERARCHICAL_ROLE: AgentInfo.Capability.Type
        RESERVATION_REFINEMENT: AgentInfo.Capability.Type
        RESOURCE_PROVIDER: AgentInfo.Capability.Type
        RESIZE_VOLUME: AgentInfo.Capability.Type
        AGENT_OPERATION_FEEDBACK: AgentInfo.Capability.Type
        AGENT_DRAINING: AgentInfo.Capability.Type
        TASK_RESOURCE_LIMITS: AgentInfo.Capability.Type
        TYPE_FIELD_NUMBER: _ClassVar[int]
        type: AgentInfo.Capability.Type
        def __init__(self, type: _Optional[_Union[AgentInfo.Capability.Type, str]] = ...) -> None: ...
    HOSTNAME_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    hostname: str
    resources: _containers.RepeatedCompositeFieldContainer[Resource]
    attributes: _containers.RepeatedCompositeFieldContainer[Attribute]
    id: AgentID
    port: int
    domain: DomainInfo
    def __init__(self, hostname: _Optional[str] = ..., resources: _Optional[_Iterable[_Union[Resource, _Mapping]]] = ..., attributes: _Optional[_Iterable[_Union[Attribute, _Mapping]]] = ..., id: _Optional[_Union[AgentID, _Mapping]] = ..., port: _Optional[int] = ..., domain: _Optional[_Union[DomainInfo, _Mapping]] = ...) -> None: ...

class Value(_message.Message):
    __slots__ = ("type", "scalar", "ranges", "set", "text")
    class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        SCALAR: _ClassVar[Value.Type]
        RANGES: _ClassVar[Value.Type]
        SET: _ClassVar[Value.Type]
        TEXT: _ClassVar[Value.Type]
    SCALAR: Value.Type
    RANGES: Value.Type
    SET: Value.Type
    TEXT: Value.Type
    class Scalar(_message.Message):
        __slots__ = ("value",)
        VALUE_FIELD_NUMBER: _ClassVar[int]
        value: float
        def __init__(self, value: _Optional[float] = ...) -> None: ...
    class Range(_message.Message):
        __slots__ = ("begin", "end")
        BEGIN_FIELD_NUMBER: _ClassVar[int]
        END_FIELD_NUMBER: _ClassVar[int]
        begin: int
        end: int
        def __init__(self, begin: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...
    class Ranges(_message.Message):
        __slots__ = ("range",)
        RANGE_FIELD_NUMBER: _ClassVar[int]
        range: _containers.RepeatedCompositeFieldContainer[Value.Range]
        def __init__(self, range: _Optional[_Iterable[_Union[Value.Range, _Mapping]]] = ...) -> None: ...
    class Set(_message.Message):
        __slots__ = ("item",)
        ITEM_FIELD_NUMBER: _ClassVar[int]
        item: _containers.RepeatedScalarFieldContainer[str]
        def __init__(self, item: _Optional[_Iterable[str]] = ...) -> None: ...
    class Text(_message.Message):
        __slots__ = ("value",)
        VALUE_FIELD_NUMBER: _ClassVar[int]
        value: str
        def __init__(self, value: _Optional[str] = ...) -> None: ...
    TYPE_FIELD_NUMBER: _ClassVar[int]
    SCALAR_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    SET_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    type: Value.Type
    scalar: Value.Scalar
    ranges: Value.Ranges
    set: Value.Set
    text: Value.Text
    def __init__(self, type: _Optional[_Union[Value.Type, str]] = ..., scalar: _Optional[_Union[Value.Scalar, _Mapping]] = ..., ranges: _Optional[_Union[Value.Ranges, _Mapping]] = ..., set: _Optional[_Union[Value.Set, _Mapping]] = ..., text: _Optional[_Union[Value.Text, _Mapping]] = ...) -> None: ...

class Attribute(_message.Message):
    __slots__ = ("name", "type", "scalar", "ranges", "text", "set")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    SCALAR_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    SET_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: Value.Type
    scalar: Value.Scalar
    ranges: Value.Ranges
    text: Value.Text
    set: Value.Set
    def __init__(self, name: _Optional[str] = ..., type: _Optional[_Union[Value.Type, str]] = ..., scalar: _Optional[_Union[Value.Scalar, _Mapping]] = ..., ranges: _Optional[_Union[Value.Ranges, _Mapping]] = ..., text: _Optional[_Union[Value.Text, _Mapping]] = ..., set: _Optional[_Union[Value.Set, _Mapping]] = ...) -> None: ...

class Resource(_message.Message):
    __slots__ = ("name", "type", "scalar", "ranges", "set", "role", "disk", "reservation", "revocable", "shared", "allocation_info", "provider_id", "reservations")
    class AllocationInfo(_message.Message):
        __slots__ = ("role",)
        ROLE_FIELD_NUMBER: _ClassVar[int]
        role: str
        def __init__(self, role: _Optional[str] = ...) -> None: ...
    class ReservationInfo(_message.Message):
        __slots__ = ("principal", "labels", "role", "type")
        class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
            __slots__ = ()
            UNKNOWN: _ClassVar[Resource.ReservationInfo.Type]
            STATIC: _ClassVar[Resource.ReservationInfo.Type]
            DYNAMIC: _ClassVar[Resource.ReservationInfo.Type]
        UNKNOWN: Resource.ReservationInfo.Type
        STATIC: Resource.ReservationInfo.Type
        DYNAMIC: Resource.ReservationInfo.Type
        PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
        LABELS_FIELD_NUMBER: _ClassVar[int]
        ROLE_FIELD_NUMBER: _ClassVar[int]
        TYPE_FIELD_NUMBER: _ClassVar[int]
        principal: str
        labels: Labels
        role: str
        type: Resource.ReservationInfo.Type
        def __init__(self, principal: _Optional[str] = ..., labels: _Optional[_Union[Labels, _Mapping]] = ..., role: _Optional[str] = ..., type: _Optional[_Union[Resource.ReservationInfo.Type, str]] = ...) -> None: ...
    class DiskInfo(_message.Message):
        __slots__ = ("persistence", "volume", "source")
        class Persistence(_message.Message):
            __slots__ = ("id", "principal")
            ID_FIELD_NUMBER: _ClassVar[int]
            PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
            id: str
            principal: str
            def __init__(self, id: _Optional[str] = ..., principal: _Optional[str] = ...) -> None: ...
        class Source(_message.Message):
            __slots__ = ("type", "path", "mount", "id", "profile", "vendor")
            class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
                __slots__ = ()
                UNKNOWN: _ClassVar[Resource.DiskInfo.Source.Type]
                PATH: _ClassVar[Resource.DiskInfo.Source.Type]
                MOUNT: _ClassVar[Resource.DiskInfo.Source.Type]
                BLOCK: _ClassVar[Resource.DiskInfo.Source.Type]
                RAW: _ClassVar[Resource.DiskInfo.Source.Type]
            UNKNOWN: Resource.DiskInfo.Source.Type
            PATH: Resource.DiskInfo.Source.Type
            MOUNT: Resource.DiskInfo.Source.Type
            BLOCK: Resource.DiskInfo.Source.Type
            RAW: Resource.DiskInfo.Source.Type
            class Path(_message.Message):
                __slots__ = ("root",)
                ROOT_FIELD_NUMBER: _ClassVar[int]
                root: str
                def __init__(self, root: _Optional[str] = ...) -> None: ...
            class Mount(_message.Message):
                __slots__ = ("root",)
                ROOT_FIELD_NUMBER: _ClassVar[int]
                root: str
                def __init__(self, root: _Optional[str] = ...) -> None: ...
            TYPE_FIELD_NUMBER: _ClassVar[int]
            PATH_FIELD_NUMBER: _ClassVar[int]
            MOUNT_FIELD_NUMBER: _ClassVar[int]
            ID_FIELD_NUMBER: _ClassVar[int]
            PROFILE_FIELD_NUMBER: _ClassVar[int]
            VENDOR_FIELD_NUMBER: _ClassVar[int]
            type: Resource.DiskInfo.Source.Type
            path: Resource.DiskInfo.Source.Path
            mount: Resource.DiskInfo.Source.Mount
            id: str
            profile: str
            vendor: str
            def __init__(self, type: _Optional[_Union[Resource.DiskInfo.Source.Type, str]] = ..., path: _Optional[_Union[Resource.DiskInfo.Source.Path, _Mapping]] = ..., mount: _Optional[_Union[Resource.DiskInfo.Source.Mount, _Mapping]] = ..., id: _Optional[str] = ..., profile: _Optional[str] = ..., vendor: _Optional[str] = ...) -> None: ...
        PERSISTENCE_FIELD_NUMBER: _ClassVar[int]
        VOLUME_FIELD_NUMBER: _ClassVar[int]
        SOURCE_FIELD_NUMBER: _ClassVar[int]
        persistence: Resource.DiskInfo.Persistence
        volume: Volume
        source: Resource.DiskInfo.Source
        def __init__(self, persistence: _Optional[_Union[Resource.DiskInfo.Persistence, _Mapping]] = ..., volume: _Optional[_Union[Volume, _Mapping]] = ..., source: _Optional[_Union[Resource.DiskInfo.Source, _Mapping]] = ...) -> None: ...
    class RevocableInfo(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class SharedInfo(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    SCALAR_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    SET_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    DISK_FIELD_NUMBER: _ClassVar[int]
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    REVOCABLE_FIELD_NUMBER: _ClassVar[int]
    SHARED_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_INFO_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_ID_FIELD_NUMBER: _ClassVar[int]
    RESERVATIONS_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: Value.Type
    scalar: Value.Scalar
    ranges: Value.Ranges
    set: Value.Set
    role: str
    disk: Resource.DiskInfo
    reservation: Resource.ReservationInfo
    revocable: Resource.RevocableInfo
    shared: Resource.SharedInfo
    allocation_info: Resource.AllocationInfo
    provider_id: ResourceProviderID
    reservations: _containers.RepeatedCompositeFieldContainer[Resource.ReservationInfo]
    def __init__(self, name: _Optional[str] = ..., type: _Optional[_Union[Value.Type, str]] = ..., scalar: _Optional[_Union[Value.Scalar, _Mapping]] = ..., ranges: _Optional[_Union[Value.Ranges, _Mapping]] = ..., set: _Optional[_Union[Value.Set, _Mapping]] = ..., role: _Optional[str] = ..., disk: _Optional[_Union[Resource.DiskInfo, _Mapping]] = ..., reservation: _Optional[_Union[Resource.ReservationInfo, _Mapping]] = ..., revocable: _Optional[_Union[Resource.RevocableInfo, _Mapping]] = ..., shared: _Optional[_Union[Resource.SharedInfo, _Mapping]] = ..., allocation_info: _Optional[_Union[Resource.AllocationInfo, _Mapping]] = ..., provider_id: _Optional[_Union[ResourceProviderID, _Mapping]] = ..., reservations: _Optional[_Iterable[_Union[Resource.ReservationInfo, _Mapping]]] = ...) -> None: ...

class Offer(_message.Message):
    __slots__ = ("id", "framework_id", "agent_id", "hostname", "resources", "executor_ids", "attributes", "url", "unavailability", "allocation_info", "domain")
    class Operation(_message.Message):
        __slots__ = ("type", "launch", "reserve", "unreserve", "launch_group", "id")
        class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
            __slots__ = ()
            UNKNOWN: _ClassVar[Offer.Operation.Type]
            LAUNCH: _ClassVar[Offer.Operation.Type]
            RESERVE: _ClassVar[Offer.Operation.Type]
            UNRESERVE: _ClassVar[Offer.Operation.Type]
            CREATE: _ClassVar[Offer.Operation.Type]
            DESTROY: _ClassVar[Offer.Operation.Type]
            LAUNCH_GROUP: _ClassVar[Offer.Operation.Type]
            GROW_VOLUME: _ClassVar[Offer.Operation.Type]
            SHRINK_VOLUME: _ClassVar[Offer.Operation.Type]
            CREATE_DISK: _ClassVar[Offer.Operation.Type]
            DESTROY_DISK: _ClassVar[Offer.Operation.Type]
        UNKNOWN: Offer.Operation.Type
        LAUNCH: Offer.Operation.Type
        RESERVE: Offer.Operation.Type
        UNRESERVE: Offer.Operation.Type
        CREATE: Offer.Operation.Type
        DESTROY: Offer.Operation.Type
        LAUNCH_GROUP: Offer.Operation.Type
        GROW_VOLUME: Offer.Operation.Type
        SHRINK_VOLUME: Offer.Operation.Type
        CREATE_DISK: Offer.Operation.Type
        DESTROY_DISK: Offer.Operation.Type
        class Launch(_message.Message):
            __slots__ = ("task_infos",)
            TASK_INFOS_FIELD_NUMBER: _ClassVar[int]
            task_infos: _containers.RepeatedCompositeFieldContainer[TaskInfo]
            def __init__(self, task_infos: _Optional[_Iterable[_Union[TaskInfo, _Mapping]]] = ...) -> None: ...
        class LaunchGroup(_message.Message):
            __slots__ = ("executor", "task_group")
            EXECUTOR_FIELD_NUMBER: _ClassVar[int]
            TASK_GROUP_FIELD_NUMBER: _ClassVar[int]
            executor: ExecutorInfo
            task_group: TaskGroupInfo
            def __init__(self, executor: _Optional[_Union[ExecutorInfo, _Mapping]] = ..., task_group: _Optional[_Union[TaskGroupInfo, _Mapping]] = ...) -> None: ...
        class Reserve(_message.Message):
            __slots__ = ("resources", "source")
            RESOURCES_FIELD_NUMBER: _ClassVar[int]
            SOURCE_FIELD_NUMBER: _ClassVar[int]
            resources: _containers.RepeatedCompositeFieldContainer[Resource]
            source: _containers.RepeatedCompositeFieldContainer[Resource]
            def __init__(self, resources: _Optional[_Iterable[_Union[Resource, _Mapping]]] = ..., source: _Optional[_Iterable[_Union[Resource, _Mapping]]] = ...) -> None: ...
        class Unreserve(_message.Message):
            __slots__ = ("resources",)
            RESOURCES_FIELD_NUMBER: _ClassVar[int]
            resources: _containers.RepeatedCompositeFieldContainer[Resource]
            def __init__(self, resources: _Optional[_Iterable[_Union[Resource, _Mapping]]] = ...) -> None: ...
        TYPE_FIELD_NUMBER: _ClassVar[int]
        LAUNCH_FIELD_NUMBER: _ClassVar[int]
        RESERVE_FIELD_NUMBER: _ClassVar[int]
        UNRESERVE_FIELD_NUMBER: _ClassVar[int]
        LAUNCH_GROUP_FIELD_NUMBER: _ClassVar[int]
        ID_FIELD_NUMBER: _ClassVar[int]
        type: Offer.Operation.Type
        launch: Offer.Operation.Launch
        reserve: Offer.Operation.Reserve
        unreserve: Offer.Operation.Unreserve
        launch_group: Offer.Operation.LaunchGroup
        id: OperationID
        def __init__(self, type: _Optional[_Union[Offer.Operation.Type, str]] = ..., launch: _Optional[_Union[Offer.Operation.Launch, _Mapping]] = ..., reserve: _Optional[_Union[Offer.Operation.Reserve, _Mapping]] = ..., unreserve: _Optional[_Union[Offer.Operation.Unreserve, _Mapping]] = ..., launch_group: _Optional[_Union[Offer.Operation.LaunchGroup, _Mapping]] = ..., id: _Optional[_Union[OperationID, _Mapping]] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    FRAMEWORK_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    HOSTNAME_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_IDS_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    UNAVAILABILITY_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_INFO_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    id: OfferID
    framework_id: FrameworkID
    agent_id: AgentID
    hostname: str
    resources: _containers.RepeatedCompositeFieldContainer[Resource]
    executor_ids: _containers.RepeatedCompositeFieldContainer[ExecutorID]
    attributes: _containers.RepeatedCompositeFieldContainer[Attribute]
    url: URL
    unavailability: Unavailability
    allocation_info: Resource.AllocationInfo
    domain: DomainInfo
    def __init__(self, id: _Optional[_Union[OfferID, _Mapping]] = ..., framework_id: _Optional[_Union[FrameworkID, _Mapping]] = ..., agent_id: _Optional[_Union[AgentID, _Mapping]] = ..., hostname: _Optional[str] = ..., resources: _Optional[_Iterable[_Union[Resource, _Mapping]]] = ..., executor_ids: _Optional[_Iterable[_Union[ExecutorID, _Mapping]]] = ..., attributes: _Optional[_Iterable[_Union[Attribute, _Mapping]]] = ..., url: _Optional[_Union[URL, _Mapping]] = ..., unavailability: _Optional[_Union[Unavailability, _Mapping]] = ..., allocation_info: _Optional[_Union[Resource.AllocationInfo, _Mapping]] = ..., domain: _Optional[_Union[DomainInfo, _Mapping]] = ...) -> None: ...

class InverseOffer(_message.Message):
    __slots__ = ("id", "url", "framework_id", "agent_id", "unavailability", "resources")
    ID_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    FRAMEWORK_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    UNAVAILABILITY_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    id: OfferID
    url: URL
    framework_id: FrameworkID
    agent_id: AgentID
    unavailability: Unavailability
    resources: _containers.RepeatedCompositeFieldContainer[Resource]
    def __init__(self, id: _Optional[_Union[OfferID, _Mapping]] = ..., url: _Optional[_Union[URL, _Mapping]] = ..., framework_id: _Optional[_Union[FrameworkID, _Mapping]] = ..., agent_id: _Optional[_Union[AgentID, _Mapping]] = ..., unavailability: _Optional[_Union[Unavailability, _Mapping]] = ..., resources: _Optional[_Iterable[_Union[Resource, _Mapping]]] = ...) -> None: ...

class Filters(_message.Message):
    __slots__ = ("refuse_seconds",)
    REFUSE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    refuse_seconds: float
    def __init__(self, refuse_seconds: _Optional[float] = ...) -> None: ...

class Request(_message.Message):
    __slots__ = ("agent_id", "resources")
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    agent_id: AgentID
    resources: _containers.RepeatedCompositeFieldContainer[Resource]
    def __init__(self, agent_id: _Optional[_Union[AgentID, _Mapping]] = ..., resources: _Optional[_Iterable[_Union[Resource, _Mapping]]] = ...) -> None: ...

class Environment(_message.Message):
    __slots__ = ("variables",)
    class Variable(_message.Message):
        __slots__ = ("name", "value", "type")
        class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
            __slots__ = ()
            UNKNOWN: _ClassVar[Environment.Variable.Type]
            VALUE: _ClassVar[Environment.Variable.Type]
            SECRET: _ClassVar[Environment.Variable.Type]
        UNKNOWN: Environment.Variable.Type
        VALUE: Environment.Variable.Type
        SECRET: Environment.Variable.Type
        NAME_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        TYPE_FIELD_NUMBER: _ClassVar[int]
        name: str
        value: str
        type: Environment.Variable.Type
        def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ..., type: _Optional[_Union[Environment.Variable.Type, str]] = ...) -> None: ...
    VARIABLES_FIELD_NUMBER: _ClassVar[int]
    variables: _containers.RepeatedCompositeFieldContainer[Environment.Variable]
    def __init__(self, variables: _Optional[_Iterable[_Union[Environment.Variable, _Mapping]]] = ...) -> None: ...

class CommandInfo(_message.Message):
    __slots__ = ("uris", "environment", "value", "user", "shell", "arguments")
    class URI(_message.Message):
        __slots__ = ("value", "executable", "extract", "cache", "output_file")
        VALUE_FIELD_NUMBER: _ClassVar[int]
        EXECUTABLE_FIELD_NUMBER: _ClassVar[int]
        EXTRACT_FIELD_NUMBER: _ClassVar[int]
        CACHE_FIELD_NUMBER: _ClassVar[int]
        OUTPUT_FILE_FIELD_NUMBER: _ClassVar[int]
        value: str
        executable: bool
        extract: bool
        cache: bool
        output_file: str
        def __init__(self, value: _Optional[str] = ..., executable: _Optional[bool] = ..., extract: _Optional[bool] = ..., cache: _Optional[bool] = ..., output_file: _Optional[str] = ...) -> None: ...
    URIS_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    SHELL_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    uris: _containers.RepeatedCompositeFieldContainer[CommandInfo.URI]
    environment: Environment
    value: str
    user: str
    shell: bool
    arguments: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, uris: _Optional[_Iterable[_Union[CommandInfo.URI, _Mapping]]] = ..., environment: _Optional[_Union[Environment, _Mapping]] = ..., value: _Optional[str] = ..., user: _Optional[str] = ..., shell: _Optional[bool] = ..., arguments: _Optional[_Iterable[str]] = ...) -> None: ...

class Image(_message.Message):
    __slots__ = ("type", "docker", "cached")
    class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        APPC: _ClassVar[Image.Type]
        DOCKER: _ClassVar[Image.Type]
    APPC: Image.Type
    DOCKER: Image.Type
    class Docker(_message.Message):
        __slots__ = ("name",)
        NAME_FIELD_NUMBER: _ClassVar[int]
        name: str
        def __init__(self, name: _Optional[str] = ...) -> None: ...
    TYPE_FIELD_NUMBER: _ClassVar[int]
    DOCKER_FIELD_NUMBER: _ClassVar[int]
    CACHED_FIELD_NUMBER: _ClassVar[int]
    type: Image.Type
    docker: Image.Docker
    cached: bool
    def __init__(self, type: _Optional[_Union[Image.Type, str]] = ..., docker: _Optional[_Union[Image.Docker, _Mapping]] = ..., cached: _Optional[bool] = ...) -> None: ...

class Volume(_message.Message):
    __slots__ = ("container_path", "host_path", "mode", "image", "source")
    class Mode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        RW: _ClassVar[Volume.Mode]
        RO: _ClassVar[Volume.Mode]
    RW: Volume.Mode
    RO: Volume.Mode
    class Source(_message.Message):
        __slots__ = ("type", "sandbox_path", "host_path")
        class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
            __slots__ = ()
            UNKNOWN: _ClassVar[Volume.Source.Type]
            DOCKER_VOLUME: _ClassVar[Volume.Source.Type]
            SANDBOX_PATH: _ClassVar[Volume.Source.Type]
            SECRET: _ClassVar[Volume.Source.Type]
            HOST_PATH: _ClassVar[Volume.Source.Type]
            CSI_VOLUME: _ClassVar[Volume.Source.Type]
        UNKNOWN: Volume.Source.Type
        DOCKER_VOLUME: Volume.Source.Type
        SANDBOX_PATH: Volume.Source.Type
        SECRET: Volume.Source.Type
        HOST_PATH: Volume.Source.Type
        CSI_VOLUME: Volume.Source.Type
        class HostPath(_message.Message):
            __slots__ = ("path",)
            PATH_FIELD_NUMBER: _ClassVar[int]
            path: str
            def __init__(self, path: _Optional[str] = ...) -> None: ...
        class SandboxPath(_message.Message):
            __slots__ = ("type", "path")
            class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
                __slots__ = ()
                UNKNOWN: _ClassVar[Volume.Source.SandboxPath.Type]
                SELF: _ClassVar[Volume.Source.SandboxPath.Type]
                PARENT: _ClassVar[Volume.Source.SandboxPath.Type]
            UNKNOWN: Volume.Source.SandboxPath.Type
            SELF: Volume.Source.SandboxPath.Type
            PARENT: Volume.Source.SandboxPath.Type
            TYPE_FIELD_NUMBER: _ClassVar[int]
            PATH_FIELD_NUMBER: _ClassVar[int]
            type: Volume.Source.SandboxPath.Type
            path: str
            def __init__(self, type: _Optional[_Union[Volume.Source.SandboxPath.Type, str]] = ..., path: _Optional[str] = ...) -> None: ...
        TYPE_FIELD_NUMBER: _ClassVar[int]
        SANDBOX_PATH_FIELD_NUMBER: _ClassVar[int]
        HOST_PATH_FIELD_NUMBER: _ClassVar[int]
        type: Volume.Source.Type
        sandbox_path: Volume.Source.SandboxPath
        host_path: Volume.Source.HostPath
        def __init__(self, type: _Optional[_Union[Volume.Source.Type, str]] = ..., sandbox_path: _Optional[_Union[Volume.Source.SandboxPath, _Mapping]] = ..., host_path: _Optional[_Union[Volume.Source.HostPath, _Mapping]] = ...) -> None: ...
    CONTAINER_PATH_FIELD_NUMBER: _ClassVar[int]
    HOST_PATH_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    container_path: str
    host_path: str
    mode: Volume.Mode
    image: Image
    source: Volume.Source
    def __init__(self, container_path: _Optional[str] = ..., host_path: _Optional[str] = ..., mode: _Optional[_Union[Volume.Mode, str]] = ..., image: _Optional[_Union[Image, _Mapping]] = ..., source: _Optional[_Union[Volume.Source, _Mapping]] = ...) -> None: ...

class NetworkInfo(_message.Message):
    __slots__ = ("groups", "labels", "ip_addresses", "name", "port_mappings")
    class Protocol(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        IPv4: _ClassVar[NetworkInfo.Protocol]
        IPv6: _ClassVar[NetworkInfo.Protocol]
    IPv4: NetworkInfo.Protocol
    IPv6: NetworkInfo.Protocol
    class IPAddress(_message.Message):
        __slots__ = ("protocol", "ip_address")
        PROTOCOL_FIELD_NUMBER: _ClassVar[int]
        IP_ADDRESS_FIELD_NUMBER: _ClassVar[int]
        protocol: NetworkInfo.Protocol
        ip_address: str
        def __init__(self, protocol: _Optional[_Union[NetworkInfo.Protocol, str]] = ..., ip_address: _Optional[str] = ...) -> None: ...
    class PortMapping(_message.Message):
        __slots__ = ("host_port", "container_port", "protocol")
        HOST_PORT_FIELD_NUMBER: _ClassVar[int]
        CONTAINER_PORT_FIELD_NUMBER: _ClassVar[int]
        PROTOCOL_FIELD_NUMBER: _ClassVar[int]
        host_port: int
        container_port: int
        protocol: str
        def __init__(self, host_port: _Optional[int] = ..., container_port: _Optional[int] = ..., protocol: _Optional[str] = ...) -> None: ...
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    IP_ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PORT_MAPPINGS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedScalarFieldContainer[str]
    labels: Labels
    ip_addresses: _containers.RepeatedCompositeFieldContainer[NetworkInfo.IPAddress]
    name: str
    port_mappings: _containers.RepeatedCompositeFieldContainer[NetworkInfo.PortMapping]
    def __init__(self, groups: _Optional[_Iterable[str]] = ..., labels: _Optional[_Union[Labels, _Mapping]] = ..., ip_addresses: _Optional[_Iterable[_Union[NetworkInfo.IPAddress, _Mapping]]] = ..., name: _Optional[str] = ..., port_mappings: _Optional[_Iterable[_Union[NetworkInfo.PortMapping, _Mapping]]] = ...) -> None: ...

class ContainerInfo(_message.Message):
    __slots__ = ("type", "volumes", "docker", "hostname", "mesos", "network_infos", "tty_info")
    class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        DOCKER: _ClassVar[ContainerInfo.Type]
        MESOS: _ClassVar[ContainerInfo.Type]
    DOCKER: ContainerInfo.Type
    MESOS: ContainerInfo.Type
    class DockerInfo(_message.Message):
        __slots__ = ("image", "network", "port_mappings", "privileged", "parameters", "force_pull_image")
        class Network(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
            __slots__ = ()
            HOST: _ClassVar[ContainerInfo.DockerInfo.Network]
            BRIDGE: _ClassVar[ContainerInfo.DockerInfo.Network]
            NONE: _ClassVar[ContainerInfo.DockerInfo.Network]
            USER: _ClassVar[ContainerInfo.DockerInfo.Network]
        HOST: ContainerInfo.DockerInfo.Network
        BRIDGE: ContainerInfo.DockerInfo.Network
        NONE: ContainerInfo.DockerInfo.Network
        USER: ContainerInfo.DockerInfo.Network
        class PortMapping(_message.Message):
            __slots__ = ("host_port", "container_port", "protocol")
            HOST_PORT_FIELD_NUMBER: _ClassVar[int]
            CONTAINER_PORT_FIELD_NUMBER: _ClassVar[int]
            PROTOCOL_FIELD_NUMBER: _ClassVar[int]
            host_port: int
            container_port: int
            protocol: str
            def __init__(self, host_port: _Optional[int] = ..., container_port: _Optional[int] = ..., protocol: _Optional[str] = ...) -> None: ...
        IMAGE_FIELD_NUMBER: _ClassVar[int]
        NETWORK_FIELD_NUMBER: _ClassVar[int]
        PORT_MAPPINGS_FIELD_NUMBER: _ClassVar[int]
        PRIVILEGED_FIELD_NUMBER: _ClassVar[int]
        PARAMETERS_FIELD_NUMBER: _ClassVar[int]
        FORCE_PULL_IMAGE_FIELD_NUMBER: _ClassVar[int]
        image: str
        network: ContainerInfo.DockerInfo.Network
        port_mappings: _containers.RepeatedCompositeFieldContainer[ContainerInfo.DockerInfo.PortMapping]
        privileged: bool
        parameters: _containers.RepeatedCompositeFieldContainer[Parameter]
        force_pull_image: bool
        def __init__(self, image: _Optional[str] = ..., network: _Optional[_Union[ContainerInfo.DockerInfo.Network, str]] = ..., port_mappings: _Optional[_Iterable[_Union[ContainerInfo.DockerInfo.PortMapping, _Mapping]]] = ..., privileged: _Optional[bool] = ..., parameters: _Optional[_Iterable[_Union[Parameter, _Mapping]]] = ..., force_pull_image: _Optional[bool] = ...) -> None: ...
    class MesosInfo(_message.Message):
        __slots__ = ("image",)
        IMAGE_FIELD_NUMBER: _ClassVar[int]
        image: Image
        def __init__(self, image: _Optional[_Union[Image, _Mapping]] = ...) -> None: ...
    TYPE_FIELD_NUMBER: _ClassVar[int]
    VOLUMES_FIELD_NUMBER: _ClassVar[int]
    DOCKER_FIELD_NUMBER: _ClassVar[int]
    HOSTNAME_FIELD_NUMBER: _ClassVar[int]
    MESOS_FIELD_NUMBER: _ClassVar[int]
    NETWORK_INFOS_FIELD_NUMBER: _ClassVar[int]
    TTY_INFO_FIELD_NUMBER: _ClassVar[int]
    type: ContainerInfo.Type
    volumes: _containers.RepeatedCompositeFieldContainer[Volume]
    docker: ContainerInfo.DockerInfo
    hostname: str
    mesos: ContainerInfo.MesosInfo
    network_infos: _containers.RepeatedCompositeFieldContainer[NetworkInfo]
    tty_info: TTYInfo
    def __init__(self, type: _Optional[_Union[ContainerInfo.Type, str]] = ..., volumes: _Optional[_Iterable[_Union[Volume, _Mapping]]] = ..., docker: _Optional[_Union[ContainerInfo.DockerInfo, _Mapping]] = ..., hostname: _Optional[str] = ..., mesos: _Optional[_Union[ContainerInfo.MesosInfo, _Mapping]] = ..., network_infos: _Optional[_Iterable[_Union[NetworkInfo, _Mapping]]] = ..., tty_info: _Optional[_Union[TTYInfo, _Mapping]] = ...) -> None: ...

class TTYInfo(_message.Message):
    __slots__ = ("window_size",)
    class WindowSize(_message.Message):
        __slots__ = ("rows", "columns")
        ROWS_FIELD_NUMBER: _ClassVar[int]
        COLUMNS_FIELD_NUMBER: _ClassVar[int]
        rows: int
        columns: int
        def __init__(self, rows: _Optional[int] = ..., columns: _Optional[int] = ...) -> None: ...
    WINDOW_SIZE_FIELD_NUMBER: _ClassVar[int]
    window_size: TTYInfo.WindowSize
    def __init__(self, window_size: _Optional[_Union[TTYInfo.WindowSize, _Mapping]] = ...) -> None: ...

class ContainerStatus(_message.Message):
    __slots__ = ("network_infos", "executor_pid", "container_id")
    NETWORK_INFOS_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_PID_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_ID_FIELD_NUMBER: _ClassVar[int]
    network_infos: _containers.RepeatedCompositeFieldContainer[NetworkInfo]
    executor_pid: int
    container_id: ContainerID
    def __init__(self, network_infos: _Optional[_Iterable[_Union[NetworkInfo, _Mapping]]] = ..., executor_pid: _Optional[int] = ..., container_id: _Optional[_Union[ContainerID, _Mapping]] = ...) -> None: ...

class HealthCheck(_message.Message):
    __slots__ = ("http", "delay_seconds", "interval_seconds", "timeout_seconds", "consecutive_failures", "grace_period_seconds", "command", "type", "tcp")
    class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNKNOWN: _ClassVar[HealthCheck.Type]
        COMMAND: _ClassVar[HealthCheck.Type]
        HTTP: _ClassVar[HealthCheck.Type]
        TCP: _ClassVar[HealthCheck.Type]
    UNKNOWN: HealthCheck.Type
    COMMAND: HealthCheck.Type
    HTTP: HealthCheck.Type
    TCP: HealthCheck.Type
    class HTTPCheckInfo(_message.Message):
        __slots__ = ("port", "path", "scheme", "statuses", "protocol")
        PORT_FIELD_NUMBER: _ClassVar[int]
        PATH_FIELD_NUMBER: _ClassVar[int]
        SCHEME_FIELD_NUMBER: _ClassVar[int]
        STATUSES_FIELD_NUMBER: _ClassVar[int]
        PROTOCOL_FIELD_NUMBER: _ClassVar[int]
        port: int
        path: str
        scheme: str
        statuses: _containers.RepeatedScalarFieldContainer[int]
        protocol: NetworkInfo.Protocol
        def __init__(self, port: _Optional[int] = ..., path: _Optional[str] = ..., scheme: _Optional[str] = ..., statuses: _Optional[_Iterable[int]] = ..., protocol: _Optional[_Union[NetworkInfo.Protocol, str]] = ...) -> None: ...
    class TCPCheckInfo(_message.Message):
        __slots__ = ("port", "protocol")
        PORT_FIELD_NUMBER: _ClassVar[int]
        PROTOCOL_FIELD_NUMBER: _ClassVar[int]
        port: int
        protocol: NetworkInfo.Protocol
        def __init__(self, port: _Optional[int] = ..., protocol: _Optional[_Union[NetworkInfo.Protocol, str]] = ...) -> None: ...
    HTTP_FIELD_NUMBER: _ClassVar[int]
    DELAY_SECONDS_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    CONSECUTIVE_FAILURES_FIELD_NUMBER: _ClassVar[int]
    GRACE_PERIOD_SECONDS_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    TCP_FIELD_NUMBER: _ClassVar[int]
    http: HealthCheck.HTTPCheckInfo
    delay_seconds: float
    interval_seconds: float
    timeout_seconds: float
    consecutive_failures: int
    grace_period_seconds: float
    command: CommandInfo
    type: HealthCheck.Type
    tcp: HealthCheck.TCPCheckInfo
    def __init__(self, http: _Optional[_Union[HealthCheck.HTTPCheckInfo, _Mapping]] = ..., delay_seconds: _Optional[float] = ..., interval_seconds: _Optional[float] = ..., timeout_seconds: _Optional[float] = ..., consecutive_failures: _Optional[int] = ..., grace_period_seconds: _Optional[float] = ..., command: _Optional[_Union[CommandInfo, _Mapping]] = ..., type: _Optional[_Union[HealthCheck.Type, str]] = ..., tcp: _Optional[_Union[HealthCheck.TCPCheckInfo, _Mapping]] = ...) -> None: ...

class KillPolicy(_message.Message):
    __slots__ = ("grace_period",)
    GRACE_PERIOD_FIELD_NUMBER: _ClassVar[int]
    grace_period: DurationInfo
    def __init__(self, grace_period: _Optional[_Union[DurationInfo, _Mapping]] = ...) -> None: ...

class Port(_message.Message):
    __slots__ = ("number", "name", "protocol")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    number: int
    name: str
    protocol: str
    def __init__(self, number: _Optional[int] = ..., name: _Optional[str] = ..., protocol: _Optional[str] = ...) -> None: ...

class Ports(_message.Message):
    __slots__ = ("ports",)
    PORTS_FIELD_NUMBER: _ClassVar[int]
    ports: _containers.RepeatedCompositeFieldContainer[Port]
    def __init__(self, ports: _Optional[_Iterable[_Union[Port, _Mapping]]] = ...) -> None: ...

class DiscoveryInfo(_message.Message):
    __slots__ = ("visibility", "name", "ports", "labels")
    class Visibility(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        FRAMEWORK: _ClassVar[DiscoveryInfo.Visibility]
        CLUSTER: _ClassVar[DiscoveryInfo.Visibility]
        EXTERNAL: _ClassVar[DiscoveryInfo.Visibility]
    FRAMEWORK: DiscoveryInfo.Visibility
    CLUSTER: DiscoveryInfo.Visibility
    EXTERNAL: DiscoveryInfo.Visibility
    VISIBILITY_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    visibility: DiscoveryInfo.Visibility
    name: str
    ports: Ports
    labels: Labels
    def __init__(self, visibility: _Optional[_Union[DiscoveryInfo.Visibility, str]] = ..., name: _Optional[str] = ..., ports: _Optional[_Union[Ports, _Mapping]] = ..., labels: _Optional[_Union[Labels, _Mapping]] = ...) -> None: ...

class ExecutorInfo(_message.Message):
    __slots__ = ("executor_id", "data", "resources", "command", "framework_id", "name", "source", "container", "shutdown_grace_period", "labels", "type")
    class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNKNOWN: _ClassVar[ExecutorInfo.Type]
        DEFAULT: _ClassVar[ExecutorInfo.Type]
        CUSTOM: _ClassVar[ExecutorInfo.Type]
    UNKNOWN: ExecutorInfo.Type
    DEFAULT: ExecutorInfo.Type
    CUSTOM: ExecutorInfo.Type
    EXECUTOR_ID_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    FRAMEWORK_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    SHUTDOWN_GRACE_PERIOD_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    executor_id: ExecutorID
    data: bytes
    resources: _containers.RepeatedCompositeFieldContainer[Resource]
    command: CommandInfo
    framework_id: FrameworkID
    name: str
    source: str
    container: ContainerInfo
    shutdown_grace_period: DurationInfo
    labels: Labels
    type: ExecutorInfo.Type
    def __init__(self, executor_id: _Optional[_Union[ExecutorID, _Mapping]] = ..., data: _Optional[bytes] = ..., resources: _Optional[_Iterable[_Union[Resource, _Mapping]]] = ..., command: _Optional[_Union[CommandInfo, _Mapping]] = ..., framework_id: _Optional[_Union[FrameworkID, _Mapping]] = ..., name: _Optional[str] = ..., source: _Optional[str] = ..., container: _Optional[_Union[ContainerInfo, _Mapping]] = ..., shutdown_grace_period: _Optional[_Union[DurationInfo, _Mapping]] = ..., labels: _Optional[_Union[Labels, _Mapping]] = ..., type: _Optional[_Union[ExecutorInfo.Type, str]] = ...) -> None: ...

class TaskInfo(_message.Message):
    __slots__ = ("name", "task_id", "agent_id", "resources", "executor", "data", "command", "health_check", "container", "labels", "discovery", "kill_policy", "max_completion_time", "limits")
    class LimitsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Value.Scalar
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Value.Scalar, _Mapping]] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    HEALTH_CHECK_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    DISCOVERY_FIELD_NUMBER: _ClassVar[int]
    KILL_POLICY_FIELD_NUMBER: _ClassVar[int]
    MAX_COMPLETION_TIME_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    name: str
    task_id: TaskID
    agent_id: AgentID
    resources: _containers.RepeatedCompositeFieldContainer[Resource]
    executor: ExecutorInfo
    data: bytes
    command: CommandInfo
    health_check: HealthCheck
    container: ContainerInfo
    labels: Labels
    discovery: DiscoveryInfo
    kill_policy: KillPolicy
    max_completion_time: DurationInfo
    limits: _containers.MessageMap[str, Value.Scalar]
    def __init__(self, name: _Optional[str] = ..., task_id: _Optional[_Union[TaskID, _Mapping]] = ..., agent_id: _Optional[_Union[AgentID, _Mapping]] = ..., resources: _Optional[_Iterable[_Union[Resource, _Mapping]]] = ..., executor: _Optional[_Union[ExecutorInfo, _Mapping]] = ..., data: _Optional[bytes] = ..., command: _Optional[_Union[CommandInfo, _Mapping]] = ..., health_check: _Optional[_Union[HealthCheck, _Mapping]] = ..., container: _Optional[_Union[ContainerInfo, _Mapping]] = ..., labels: _Optional[_Union[Labels, _Mapping]] = ..., discovery: _Optional[_Union[DiscoveryInfo, _Mapping]] = ..., kill_policy: _Optional[_Union[KillPolicy, _Mapping]] = ..., max_completion_time: _Optional[_Union[DurationInfo, _Mapping]] = ..., limits: _Optional[_Mapping[str, Value.Scalar]] = ...) -> None: ...

class TaskGroupInfo(_message.Message):
    __slots__ = ("tasks",)
    TASKS_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[TaskInfo]
    def __init__(self, tasks: _Optional[_Iterable[_Union[TaskInfo, _Mapping]]] = ...) -> None: ...

class TaskResourceLimitation(_message.Message):
    __slots__ = ("resources",)
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    resources: _containers.RepeatedCompositeFieldContainer[Resource]
    def __init__(self, resources: _Optional[_Iterable[_Union[Resource, _Mapping]]] = ...) -> None: ...

class CheckStatusInfo(_message.Message):
    __slots__ = ("command", "http", "tcp")
    class Command(_message.Message):
        __slots__ = ("exit_code",)
        EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
        exit_code: int
        def __init__(self, exit_code: _Optional[int] = ...) -> None: ...
    class Http(_message.Message):
        __slots__ = ("status_code",)
        STATUS_CODE_FIELD_NUMBER: _ClassVar[int]
        status_code: int
        def __init__(self, status_code: _Optional[int] = ...) -> None: ...
    class Tcp(_message.Message):
        __slots__ = ("succeeded",)
        SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
        succeeded: bool
        def __init__(self, succeeded: _Optional[bool] = ...) -> None: ...
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    HTTP_FIELD_NUMBER: _ClassVar[int]
    TCP_FIELD_NUMBER: _ClassVar[int]
    command: CheckStatusInfo.Command
    http: CheckStatusInfo.Http
    tcp: CheckStatusInfo.Tcp
    def __init__(self, command: _Optional[_Union[CheckStatusInfo.Command, _Mapping]] = ..., http: _Optional[_Union[CheckStatusInfo.Http, _Mapping]] = ..., tcp: _Optional[_Union[CheckStatusInfo.Tcp, _Mapping]] = ...) -> None: ...

class TaskStatus(_message.Message):
    __slots__ = ("task_id", "state", "data", "message", "agent_id", "timestamp", "executor_id", "healthy", "source", "reason", "uuid", "labels", "container_status", "unreachable_time", "check_status", "limitation")
    class Source(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        SOURCE_MASTER: _ClassVar[TaskStatus.Source]
        SOURCE_AGENT: _ClassVar[TaskStatus.Source]
        SOURCE_EXECUTOR: _ClassVar[TaskStatus.Source]
    SOURCE_MASTER: TaskStatus.Source
    SOURCE_AGENT: TaskStatus.Source
    SOURCE_EXECUTOR: TaskStatus.Source
    class Reason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        REASON_COMMAND_EXECUTOR_FAILED: _ClassVar[TaskStatus.Reason]
        REASON_EXECUTOR_TERMINATED: _ClassVar[TaskStatus.Reason]
        REASON_EXECUTOR_UNREGISTERED: _ClassVar[TaskStatus.Reason]
        REASON_FRAMEWORK_REMOVED: _ClassVar[TaskStatus.Reason]
        REASON_GC_ERROR: _ClassVar[TaskStatus.Reason]
        REASON_INVALID_FRAMEWORKID: _ClassVar[TaskStatus.Reason]
        REASON_INVALID_OFFERS: _ClassVar[TaskStatus.Reason]
        REASON_MASTER_DISCONNECTED: _ClassVar[TaskStatus.Reason]
        REASON_CONTAINER_LIMITATION_MEMORY: _ClassVar[TaskStatus.Reason]
        REASON_RECONCILIATION: _ClassVar[TaskStatus.Reason]
        REASON_AGENT_DISCONNECTED: _ClassVar[TaskStatus.Reason]
        REASON_AGENT_REMOVED: _ClassVar[TaskStatus.Reason]
        REASON_AGENT_RESTARTED: _ClassVar[TaskStatus.Reason]
        REASON_AGENT_UNKNOWN: _ClassVar[TaskStatus.Reason]
        REASON_TASK_INVALID: _ClassVar[TaskStatus.Reason]
        REASON_TASK_UNAUTHORIZED: _ClassVar[TaskStatus.Reason]
        REASON_TASK_UNKNOWN: _ClassVar[TaskStatus.Reason]
        REASON_CONTAINER_PREEMPTED: _ClassVar[TaskStatus.Reason]
        REASON_RESOURCES_UNKNOWN: _ClassVar[TaskStatus.Reason]
        REASON_CONTAINER_LIMITATION: _ClassVar[TaskStatus.Reason]
        REASON_CONTAINER_LIMITATION_DISK: _ClassVar[TaskStatus.Reason]
        REASON_CONTAINER_LAUNCH_FAILED: _ClassVar[TaskStatus.Reason]
        REASON_CONTAINER_UPDATE_FAILED: _ClassVar[TaskStatus.Reason]
        REASON_EXECUTOR_REGISTRATION_TIMEOUT: _ClassVar[TaskStatus.Reason]
        REASON_EXECUTOR_REREGISTRATION_TIMEOUT: _ClassVar[TaskStatus.Reason]
        REASON_TASK_GROUP_INVALID: _ClassVar[TaskStatus.Reason]
        REASON_TASK_GROUP_UNAUTHORIZED: _ClassVar[TaskStatus.Reason]
        REASON_IO_SWITCHBOARD_EXITED: _ClassVar[TaskStatus.Reason]
        REASON_TASK_CHECK_STATUS_UPDATED: _ClassVar[TaskStatus.Reason]
        REASON_TASK_HEALTH_CHECK_STATUS_UPDATED: _ClassVar[TaskStatus.Reason]
        REASON_TASK_KILLED_DURING_LAUNCH: _ClassVar[TaskStatus.Reason]
        REASON_AGENT_REMOVED_BY_OPERATOR: _ClassVar[TaskStatus.Reason]
        REASON_AGENT_REREGISTERED: _ClassVar[TaskStatus.Reason]
        REASON_MAX_COMPLETION_TIME_REACHED: _ClassVar[TaskStatus.Reason]
        REASON_AGENT_DRAINING: _ClassVar[TaskStatus.Reason]
    REASON_COMMAND_EXECUTOR_FAILED: TaskStatus.Reason
    REASON_EXECUTOR_TERMINATED: TaskStatus.Reason
    REASON_EXECUTOR_UNREGISTERED: TaskStatus.Reason
    REASON_FRAMEWORK_REMOVED: TaskStatus.Reason
    REASON_GC_ERROR: TaskStatus.Reason
    REASON_INVALID_FRAMEWORKID: TaskStatus.Reason
    REASON_INVALID_OFFERS: TaskStatus.Reason
    REASON_MASTER_DISCONNECTED: TaskStatus.Reason
    REASON_CONTAINER_LIMITATION_MEMORY: TaskStatus.Reason
    REASON_RECONCILIATION: TaskStatus.Reason
    REASON_AGENT_DISCONNECTED: TaskStatus.Reason
    REASON_AGENT_REMOVED: TaskStatus.Reason
    REASON_AGENT_RESTARTED: TaskStatus.Reason
    REASON_AGENT_UNKNOWN: TaskStatus.Reason
    REASON_TASK_INVALID: TaskStatus.Reason
    REASON_TASK_UNAUTHORIZED: TaskStatus.Reason
    REASON_TASK_UNKNOWN: TaskStatus.Reason
    REASON_CONTAINER_PREEMPTED: TaskStatus.Reason
    REASON_RESOURCES_UNKNOWN: TaskStatus.Reason
    REASON_CONTAINER_LIMITATION: TaskStatus.Reason
    REASON_CONTAINER_LIMITATION_DISK: TaskStatus.Reason
    REASON_CONTAINER_LAUNCH_FAILED: TaskStatus.Reason
    REASON_CONTAINER_UPDATE_FAILED: TaskStatus.Reason
    REASON_EXECUTOR_REGISTRATION_TIMEOUT: TaskStatus.Reason
    REASON_EXECUTOR_REREGISTRATION_TIMEOUT: TaskStatus.Reason
    REASON_TASK_GROUP_INVALID: TaskStatus.Reason
    REASON_TASK_GROUP_UNAUTHORIZED: TaskStatus.Reason
    REASON_IO_SWITCHBOARD_EXITED: TaskStatus.Reason
    REASON_TASK_CHECK_STATUS_UPDATED: TaskStatus.Reason
    REASON_TASK_HEALTH_CHECK_STATUS_UPDATED: TaskStatus.Reason
    REASON_TASK_KILLED_DURING_LAUNCH: TaskStatus.Reason
    REASON_AGENT_REMOVED_BY_OPERATOR: TaskStatus.Reason
    REASON_AGENT_REREGISTERED: TaskStatus.Reason
    REASON_MAX_COMPLETION_TIME_REACHED: TaskStatus.Reason
    REASON_AGENT_DRAINING: TaskStatus.Reason
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_ID_FIELD_NUMBER: _ClassVar[int]
    HEALTHY_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_STATUS_FIELD_NUMBER: _ClassVar[int]
    UNREACHABLE_TIME_FIELD_NUMBER: _ClassVar[int]
    CHECK_STATUS_FIELD_NUMBER: _ClassVar[int]
    LIMITATION_FIELD_NUMBER: _ClassVar[int]
    task_id: TaskID
    state: TaskState
    data: bytes
    message: str
    agent_id: AgentID
    timestamp: float
    executor_id: ExecutorID
    healthy: bool
    source: TaskStatus.Source
    reason: TaskStatus.Reason
    uuid: bytes
    labels: Labels
    container_status: ContainerStatus
    unreachable_time: TimeInfo
    check_status: CheckStatusInfo
    limitation: TaskResourceLimitation
    def __init__(self, task_id: _Optional[_Union[TaskID, _Mapping]] = ..., state: _Optional[_Union[TaskState, str]] = ..., data: _Optional[bytes] = ..., message: _Optional[str] = ..., agent_id: _Optional[_Union[AgentID, _Mapping]] = ..., timestamp: _Optional[float] = ..., executor_id: _Optional[_Union[ExecutorID, _Mapping]] = ..., healthy: _Optional[bool] = ..., source: _Optional[_Union[TaskStatus.Source, str]] = ..., reason: _Optional[_Union[TaskStatus.Reason, str]] = ..., uuid: _Optional[bytes] = ..., labels: _Optional[_Union[Labels, _Mapping]] = ..., container_status: _Optional[_Union[ContainerStatus, _Mapping]] = ..., unreachable_time: _Optional[_Union[TimeInfo, _Mapping]] = ..., check_status: _Optional[_Union[CheckStatusInfo, _Mapping]] = ..., limitation: _Optional[_Union[TaskResourceLimitation, _Mapping]] = ...) -> None: ...

class Task(_message.Message):
    __slots__ = ("name", "task_id", "framework_id", "executor_id", "agent_id", "state", "resources", "statuses", "status_update_state", "status_update_uuid", "labels", "container", "user")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    FRAMEWORK_ID_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    STATUSES_FIELD_NUMBER: _ClassVar[int]
    STATUS_UPDATE_STATE_FIELD_NUMBER: _ClassVar[int]
    STATUS_UPDATE_UUID_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    name: str
    task_id: TaskID
    framework_id: FrameworkID
    executor_id: ExecutorID
    agent_id: AgentID
    state: TaskState
    resources: _containers.RepeatedCompositeFieldContainer[Resource]
    statuses: _containers.RepeatedCompositeFieldContainer[TaskStatus]
    status_update_state: TaskState
    status_update_uuid: bytes
    labels: Labels
    container: ContainerInfo
    user: str
    def __init__(self, name: _Optional[str] = ..., task_id: _Optional[_Union[TaskID, _Mapping]] = ..., framework_id: _Optional[_Union[FrameworkID, _Mapping]] = ..., executor_id: _Optional[_Union[ExecutorID, _Mapping]] = ..., agent_id: _Optional[_Union[AgentID, _Mapping]] = ..., state: _Optional[_Union[TaskState, str]] = ..., resources: _Optional[_Iterable[_Union[Resource, _Mapping]]] = ..., statuses: _Optional[_Iterable[_Union[TaskStatus, _Mapping]]] = ..., status_update_state: _Optional[_Union[TaskState, str]] = ..., status_update_uuid: _Optional[bytes] = ..., labels: _Optional[_Union[Labels, _Mapping]] = ..., container: _Optional[_Union[ContainerInfo, _Mapping]] = ..., user: _Optional[str] = ...) -> None: ...

class MachineID(_message.Message):
    __slots__ = ("hostname", "ip")
    HOSTNAME_FIELD_NUMBER: _ClassVar[int]
    IP_FIELD_NUMBER: _ClassVar[int]
    hostname: str
    ip: str
    def __init__(self, hostname: _Optional[str] = ..., ip: _Optional[str] = ...) -> None: ...

class UUID(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: bytes
    def __init__(self, value: _Optional[bytes] = ...) -> None: ...

class OperationStatus(_message.Message):
    __slots__ = ("operation_id", "state", "message", "converted_resources", "uuid", "agent_id", "resource_provider_id")
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    CONVERTED_RESOURCES_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_PROVIDER_ID_FIELD_NUMBER: _ClassVar[int]
    operation_id: OperationID
    state: OperationState
    message: str
    converted_resources: _containers.RepeatedCompositeFieldContainer[Resource]
    uuid: UUID
    agent_id: AgentID
    resource_provider_id: ResourceProviderID
    def __init__(self, operation_id: _Optional[_Union[OperationID, _Mapping]] = ..., state: _Optional[_Union[OperationState, str]] = ..., message: _Optional[str] = ..., converted_resources: _Optional[_Iterable[_Union[Resource, _Mapping]]] = ..., uuid: _Optional[_Union[UUID, _Mapping]] = ..., agent_id: _Optional[_Union[AgentID, _Mapping]] = ..., resource_provider_id: _Optional[_Union[ResourceProviderID, _Mapping]] = ...) -> None: ...
