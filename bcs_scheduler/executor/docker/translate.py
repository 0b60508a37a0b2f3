"""Translates a task into the requests to the engine. Pure: the time and the answers of the engine are arguments.

Amounts of tasks are integer thousandths (of a core, of a MB); the specification of the application's container defines
the translation of each field (sections Container, Docker parameters, Ports and networks).
"""

from __future__ import annotations

import base64
import json
import pathlib
import posixpath
import re
from typing import Any, NamedTuple

from ..model import Group, Port, Task
from ..runtime import TaskError

LABEL_TASKGROUP = "io.bcs.taskgroup"
LABEL_TASK = "io.bcs.task"
LABEL_EXECUTOR = "io.bcs.executor"
"""The process that drives the container (.reap.executor_mark)."""
LABEL_SECRETS = "io.bcs.secrets"
"""Paths of the secret files of the container, as a JSON list. They are emptied before the container is removed or left:
a container that stays, a volume and the sandbox outlive its end."""
LABEL_KEEP = "io.bcs.keep"
"""On containers that stay when they have ended (parameter rm=false)."""
SANDBOX = "/mnt/mesos/sandbox"
"""Path of the task's directory within a container, as with Mesos's own containerizers."""
MB = 1024 * 1024
CPU_PERIOD = 100_000
"""Microseconds over which a CPU quota is measured; the kernel's default."""
SHARES = 1024
"""CPU weight of one core."""
SMALLEST_QUOTA = 1000
"""Microseconds; the kernel takes no less."""
ENFORCED_MEMORY = 4000
"""Thousandths of a MB; a smaller limit is not enforced."""
SMALLEST_MEMORY = 6 * MB
"""Engines refuse a lower limit."""
ENGINE_LOG = {"Type": "json-file", "Config": {"max-size": "10m", "max-file": "2"}}
"""The output is copied into the sandbox while it comes, so the engine's own copy is only a buffer, and bounded. A
driver is named because the engine's default may be one that cannot be read."""
HOSTNAME_LENGTH = 63
"""Linux takes no longer host names (HOST_NAME_MAX is 64 with the end)."""
EGRESS_RATE = "CTNR_NET_EGRESS_RATE"
"""Option of a network for the outgoing bandwidth in kbit/s, as network plug-ins of the original call it."""
TERMINAL_SIZE = (24, 80)
"""Rows and columns of a terminal before the first session sets them."""
OWN_NETWORKS = ("HOST", "BRIDGE", "NONE", "")
"""Modes whose network is the engine's own."""


class Image(NamedTuple):
    """`tag` is a tag or a digest."""

    repository: str
    tag: str

    @property
    def registry(self) -> str:
        """Host of the registry, as credentials are filed under; a first part without dot, colon or `localhost` is a
        user of Docker Hub."""
        first, slash, _ = self.repository.partition("/")
        if slash and ("." in first or ":" in first or first == "localhost"):
            return first
        return "https://index.docker.io/v1/"


def image_of(reference: str) -> Image:
    repository, at, digest = reference.partition("@")
    if at:
        return Image(repository, digest)
    head, colon, tag = repository.rpartition(":")
    if colon and "/" not in tag:
        return Image(head, tag)
    return Image(repository, "latest")


def registry_auth(reference: str, user: str, password: str) -> str:
    """Value of X-Registry-Auth. Without a user it is the empty object, which engines want for a push."""
    if not user:
        return base64.urlsafe_b64encode(b"{}").decode()
    document = {"username": user, "password": password, "serveraddress": image_of(reference).registry}
    return base64.urlsafe_b64encode(json.dumps(document).encode()).decode()


def container_name(task: Task) -> str:
    return "bcs-" + re.sub(r"[^A-Za-z0-9_.-]", "_", task.id)


def keeps_container(task: Task) -> bool:
    return _last(task, "rm").lower() == "false"


def network_of(task: Task) -> str:
    """Name of the network, as the engine knows it."""
    mode = task.container.network_mode.upper()
    if mode in OWN_NETWORKS:
        return mode.lower() or "none"
    return task.container.network or _last(task, "net") or task.container.network_mode


def create_body(task: Task, group: Group, directory: pathlib.Path, now_ns: int, env: dict[str, str]) -> dict[str, Any]:
    """Returns the body of POST /containers/create. `directory`: the task's, on the agent; `now_ns`: Unix nanoseconds,
    make the host name unique; `env`: all of it. Raises TaskError for a task that cannot be expressed."""
    body: dict[str, Any] = {
        "Image": task.container.image,
        "Env": [f"{name}={value}" for name, value in env.items()],
        "Labels": _labels(task, group),
        "AttachStdout": False,
        "AttachStderr": False,
        "Tty": task.tty,
        "HostConfig": _host_config(task, group, directory),
    }
    if task.stdin:
        body |= {"OpenStdin": True, "StdinOnce": task.stdin_once}
    command = _command(task)
    if command:
        body["Cmd"] = command
    if task.working_dir:
        body["WorkingDir"] = task.working_dir
    if task.user:
        body["User"] = task.user
    network = network_of(task)
    if task.container.hostname and network != "host":
        body["Hostname"] = _hostname(task.container.hostname, now_ns)
    exposed: dict[str, dict[str, str]] = {
        f"{port.container_port}/{protocol_of(port.protocol)}": {} for port in task.ports if _mapped(task, port)
    }
    if exposed:
        body["ExposedPorts"] = exposed
    endpoint = _endpoint(task)
    if endpoint:
        body["NetworkingConfig"] = {"EndpointsConfig": {network: endpoint}}
    return body


def complete_env(task: Task, group: Group, changed: dict[str, str]) -> dict[str, str]:
    """The task's environment, the variables that only the agent knows, and the variables `changed` by messages. An
    address that the engine chooses is not included (see .address)."""
    env = dict(task.env)
    address = group.agent_ip if network_of(task) == "host" else fixed_address(task)
    if address:
        env.update(dict.fromkeys(task.address_env, address))
        env.setdefault("BCS_CONTAINER_IP", address)
    env.setdefault("MESOS_SANDBOX", SANDBOX)
    env.update(changed)
    return env


def limits(cpus: int, mem: int) -> dict[str, int]:
    """Hard limits for create and update; 0 = none. Swap is part of the memory: a container gets none beside it."""
    found: dict[str, int] = {}
    if cpus > 0:
        found["CpuPeriod"] = CPU_PERIOD
        found["CpuQuota"] = max(SMALLEST_QUOTA, cpus * CPU_PERIOD // 1000)
    if mem >= ENFORCED_MEMORY:
        size = max(SMALLEST_MEMORY, mem * MB // 1000)
        found["Memory"] = found["MemorySwap"] = size
    return found


def shares(cpus: int) -> int:
    """CPU weight; 2 is the least the kernel takes."""
    return max(2, cpus * SHARES // 1000) if cpus > 0 else SHARES


def protocol_of(protocol: str) -> str:
    return "udp" if protocol.lower() == "udp" else "tcp"


def volume_directories(task: Task, group: Group, directory: pathlib.Path) -> list[pathlib.Path]:
    """The directories that the executor must make: private volumes in the sandbox."""
    return [
        _host_path(volume.host_path, number, group.taskgroup, directory)
        for number, volume in enumerate(task.container.volumes)
        if not volume.host_path.startswith("/")
    ]


def _command(task: Task) -> list[str]:
    """Returns Cmd only, never the entrypoint: if the image has an entrypoint, these are its arguments."""
    if task.command.shell and task.command.value:
        return ["/bin/sh", "-c", task.command.value]
    return list(task.command.argv)


def _labels(task: Task, group: Group) -> dict[str, str]:
    labels = {**task.container.labels, LABEL_TASKGROUP: group.taskgroup, LABEL_TASK: task.id}
    if keeps_container(task):
        labels[LABEL_KEEP] = "true"
    secret = [file.path for file in task.files if file.secret]
    if secret:
        labels[LABEL_SECRETS] = json.dumps(secret)
    return labels


def _host_config(task: Task, group: Group, directory: pathlib.Path) -> dict[str, Any]:
    memory = task.limits.mem or task.requests.mem
    found: dict[str, Any] = {
        "NetworkMode": network_of(task),
        "Binds": _binds(task, group, directory),
        "LogConfig": ENGINE_LOG,
        "CpuShares": shares(task.requests.cpus),
        **limits(task.limits.cpus, memory),
    }
    if task.container.privileged:
        found["Privileged"] = True
    if task.tty:
        found["ConsoleSize"] = list(TERMINAL_SIZE)  # engines before API 1.42 ignore the field
    bindings: dict[str, list[dict[str, str]]] = {}
    for port in task.ports:
        if _mapped(task, port):
            key = f"{port.container_port}/{protocol_of(port.protocol)}"
            bindings.setdefault(key, []).append({"HostPort": str(port.host_port)})
    if bindings:
        found["PortBindings"] = bindings
    found.update(_parameters(task))
    return found


def _parameters(task: Task) -> dict[str, Any]:
    """`net` and `ip` belong to the network, `rm` to the end of the container."""
    found: dict[str, Any] = {}
    for key, value in task.container.parameters:
        if key == "oom-kill-disable":
            found["OomKillDisable"] = value.lower() == "true"
        elif key == "ulimit":
            name, _, number = value.partition("=")
            amount = _integer(key, number)
            found.setdefault("Ulimits", []).append({"Name": name.strip(), "Soft": amount, "Hard": amount})
        elif key == "shm-size":
            found["ShmSize"] = _integer(key, value) * MB
        elif key == "ipc":
            found["IpcMode"] = value
        elif key == "P":
            found["PublishAllPorts"] = True
    return found


def _integer(key: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise TaskError(f"parameter {key}: not a whole number") from None


def _binds(task: Task, group: Group, directory: pathlib.Path) -> list[str]:
    binds = [f"{directory}:{SANDBOX}"]
    for number, volume in enumerate(task.container.volumes):
        host = str(_host_path(volume.host_path, number, group.taskgroup, directory))
        if ":" in host or ":" in volume.mount_path:
            raise TaskError(f"volume {volume.mount_path}: a path with a colon cannot be mounted")
        if not volume.mount_path.startswith("/"):
            raise TaskError(f"volume {volume.mount_path}: the mount path must be absolute")
        binds.append(f"{host}:{volume.mount_path}" + (":ro" if volume.read_only else ""))
    return binds


def _host_path(path: str, number: int, taskgroup: str, directory: pathlib.Path) -> pathlib.Path:
    """An absolute path is one of the agent; none, or a relative one, lies in the sandbox. (To an engine a relative one
    would be the name of a volume that outlives the container.)"""
    if not path:
        return directory / "volumes" / str(number)
    if path.startswith("/"):
        return pathlib.Path(path.replace("$BCS_POD_ID", taskgroup))
    inside = posixpath.normpath(path.replace("$BCS_POD_ID", taskgroup))
    if inside.startswith(".."):
        raise TaskError(f"volume {path}: the path leads out of the sandbox")
    return directory / inside


def _mapped(task: Task, port: Port) -> bool:
    if task.container.network_mode.upper() in ("HOST", "NONE", ""):
        return False
    return bool(port.container_port > 0 and port.host_port > 0)


def _hostname(name: str, now_ns: int) -> str:
    suffix = f"-{now_ns}"
    return name[: HOSTNAME_LENGTH - len(suffix)] + suffix


def fixed_address(task: Task) -> str:
    """The requested address, the reserved one before that of the parameter; empty if there is none. Only networks that
    users have made accept an address."""
    if task.container.network_mode.upper() in OWN_NETWORKS:
        return ""
    return task.container.addresses[0] if task.container.addresses else _last(task, "ip")


def _endpoint(task: Task) -> dict[str, Any]:
    """The settings of the container for its network: its addresses, and its bandwidth in the form that the plug-ins of
    the original read. The driver of the network decides whether it honours options."""
    found: dict[str, Any] = {}
    address = fixed_address(task)
    if address:
        asked = task.container.addresses or (address,)
        found["IPAMConfig"] = {"IPv6Address" if ":" in one else "IPv4Address": one for one in asked}
    if task.container.egress_kbps and task.container.network_mode.upper() not in OWN_NETWORKS:
        found["DriverOpts"] = {EGRESS_RATE: str(task.container.egress_kbps)}
    return found


def _last(task: Task, key: str) -> str:
    """Value of a parameter that may be given once; the last one counts."""
    found = ""
    for name, value in task.container.parameters:
        if name == key:
            found = value
    return found
