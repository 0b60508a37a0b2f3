"""Settings of the scheduler's registration with Mesos."""

from __future__ import annotations

import socket
from dataclasses import dataclass

from bcs_scheduler.mesos.calls import OUTPUT_LIMIT
from bcs_scheduler.mesos.launches.rooms import Keeping
from bcs_scheduler.mesos.proto import mesos_pb2 as pb
from bcs_scheduler.mesos.proto import scheduler_pb2
from bcs_scheduler.mesos.transport.http import basic_authorization

CAPABILITIES = ("MULTI_ROLE", "PARTITION_AWARE", "TASK_KILLING_STATE", "RESERVATION_REFINEMENT")
WEEK = 604800.0


@dataclass(frozen=True)
class MesosSettings:
    """Settings of the driver. `master`: ``http://host:port[,host:port]`` or ``zk://host:port,.../path``. Times are
    seconds."""

    master: str
    framework_name: str = "bcs"
    user: str = "root"
    """User of tasks whose container names none."""
    roles: tuple[str, ...] = ("*",)
    principal: str = ""
    secret: str = ""
    """Secret of the principal. With both, every request carries HTTP basic authentication."""
    failover_timeout: float = WEEK
    """Seconds for which Mesos keeps the tasks of a framework without a scheduler."""
    hostname: str = ""
    """Shown by Mesos; empty = the name of this host."""
    webui_url: str = ""
    gpus: bool = False
    """Ask for offers of agents with GPUs, which Mesos keeps from frameworks that do not."""
    missed_heartbeats: int = 5
    """Silence of this many heartbeat intervals means that the stream is broken."""
    agents_interval: float = 240.0
    """Between two listings of all agents."""
    output_limit: int = OUTPUT_LIMIT
    """Bytes of each output stream that our executor shall send of a command."""

    @property
    def keeping(self) -> Keeping:
        """The owner of kept rooms."""
        return Keeping(self.framework_name, self.principal)

    def headers(self) -> dict[str, str]:
        return {"User-Agent": "bcs-scheduler", "Authorization": basic_authorization(self.principal, self.secret)}

    def framework_info(self, framework_id: str) -> pb.FrameworkInfo:
        info = pb.FrameworkInfo(
            user=self.user,
            name=self.framework_name,
            failover_timeout=self.failover_timeout,
            checkpoint=True,
            roles=self.roles,
            hostname=self.hostname or socket.gethostname(),
        )
        for name in (*CAPABILITIES, *(["GPU_RESOURCES"] if self.gpus else [])):
            info.capabilities.add(type=pb.FrameworkInfo.Capability.Type.Value(name))
        if self.principal:
            info.principal = self.principal
        if self.webui_url:
            info.webui_url = self.webui_url
        if framework_id:
            info.id.value = framework_id
        return info

    def subscribe(self, framework_id: str) -> bytes:
        """The SUBSCRIBE call. With an id, Mesos hands the framework over to us and closes its former stream."""
        call = scheduler_pb2.Call(type=scheduler_pb2.Call.SUBSCRIBE)
        call.subscribe.framework_info.CopyFrom(self.framework_info(framework_id))
        if framework_id:
            call.framework_id.value = framework_id
        return call.SerializeToString()
