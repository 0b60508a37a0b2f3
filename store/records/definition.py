"""The parts of a Version: the contents of one taskgroup and the rules for its treatment.

Units: scalar resources are integer thousandths (of a core, of a MB, of a GPU), as the cluster manager counts; durations
are seconds. All values are immutable and already validated by the API.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Protocol = Literal["tcp", "udp", "http", "https"]


class Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Base of every value inside a record."""


class Amounts(Part, frozen=True, kw_only=True):
    """Scalar resources in integer thousandths."""

    cpus: int = 0
    mem: int = 0
    disk: int = 0
    gpus: int = 0


class Port(Part, frozen=True, kw_only=True):
    """One port of a container. `host_port` 0 asks for a random one from the offer."""

    name: str
    protocol: Protocol = "tcp"
    container_port: int = 0
    host_port: int = 0


class EnvVar(Part, frozen=True, kw_only=True):
    """An environment variable. With `resource`, the value is an amount of the container itself, as
    `valueFrom.resourceFieldRef` asks for (e.g. ``limits.cpu``), and `value` is empty."""

    name: str
    value: str = ""
    resource: str = ""


class HealthCheck(Part, frozen=True, kw_only=True):
    """Probe of one task; defaults and limits as in docs/original.md#health-checks."""

    type: Literal["HTTP", "TCP", "COMMAND", "REMOTE_HTTP", "REMOTE_TCP"]
    delay: float = 10.0
    grace_period: float = 300.0
    interval: float = 60.0
    timeout: float = 20.0
    consecutive_failures: int = 0
    port: int = 0
    port_name: str = ""
    scheme: str = "http"
    path: str = "/"
    headers: dict[str, str] = {}
    command: str = ""


class Volume(Part, frozen=True, kw_only=True):
    """A folder of the host that the task sees at `mount_path`."""

    host_path: str = ""
    mount_path: str
    read_only: bool = False


class Uri(Part, frozen=True, kw_only=True):
    """Fetched into the task's working directory. `user` and `password` (basic authentication) are literal, or the
    password is a reference ``secret::<name>||<key>``."""

    value: str
    output: str = ""
    executable: bool = False
    extract: bool = True
    user: str = ""
    password: str = ""


class Item(Part, frozen=True, kw_only=True):
    """One use of a key of a configmap or secret: as environment variable `target`, or as file at the path `target`
    (absolute, or relative to the task's sandbox) with permission bits `mode` and owner `user`."""

    type: Literal["env", "file"]
    key: str
    target: str
    mode: int = 0o644
    user: str = ""


class Reference(Part, frozen=True, kw_only=True):
    """The items of one configmap or secret of the namespace that a container uses."""

    name: str
    items: tuple[Item, ...] = ()


class Process(Part, frozen=True, kw_only=True):
    """A host process and the commands that control it (docs/original.md#processes). Commands are lines for the shell
    and run in the working directory.

    With `pid_file`, `start` returns and leaves a daemon behind. The file holds the pid of the daemon (blanks and
    newlines around it are ignored), and `name` is the base name of its executable. Without `pid_file`, `start` is the
    process itself.
    """

    name: str = ""
    start: str
    start_grace: float = 0.0
    """Seconds after `start` has returned in which the process need not be alive yet."""
    pid_file: str = ""
    check: str = ""
    """Exit code 0 = alive; asked together with the pid, every few seconds."""
    stop: str = ""
    restart: str = ""
    reload: str = ""
    kill: str = ""
    """Run when the grace period of `stop` is over, just before SIGKILL."""


class Container(Part, frozen=True, kw_only=True):
    """One task of the taskgroup: with `image` a container of the agent's container engine, with `process` a host
    process driven by commands of its own, otherwise `command` as a plain process of the agent."""

    name: str = ""
    image: str = ""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    command: str = ""
    args: tuple[str, ...] = ()
    user: str = ""
    working_dir: str = ""
    privileged: bool = False
    hostname: str = ""
    stdin: bool = False
    """True if the input of the task is open, so that users can attach to it."""
    stdin_once: bool = False
    """True if the input ends with the first session that was attached to it."""
    tty: bool = False
    """True if the input and output of the task are a terminal."""
    env: tuple[EnvVar, ...] = ()
    ports: tuple[Port, ...] = ()
    parameters: tuple[tuple[str, str], ...] = ()
    volumes: tuple[Volume, ...] = ()
    uris: tuple[Uri, ...] = ()
    health_checks: tuple[HealthCheck, ...] = ()
    requests: Amounts = Amounts()
    limits: Amounts = Amounts()
    extended: dict[str, int] = {}
    """Extended resources by name, in thousandths."""
    image_pull_user: str = ""
    image_pull_password: str = ""
    """Literal, or both references ``secret::<name>||<key>``."""
    process: Process | None = None
    """Set for tasks of kind process; `command` and `image` are empty then."""
    configmaps: tuple[Reference, ...] = ()
    secrets: tuple[Reference, ...] = ()


class RestartPolicy(Part, frozen=True, kw_only=True):
    """Rules for the replacement of failed taskgroups (docs/original.md#restart-policy)."""

    policy: Literal["Never", "OnFailure", "Always"] = "OnFailure"
    interval: float = 0.0
    backoff: float = 0.0
    max_times: int = 0
    host_retain: float = 0.0


class KillPolicy(Part, frozen=True, kw_only=True):
    """Rules for the end of tasks. `grace_period`: seconds between SIGTERM and SIGKILL. `shutdown_delay`: seconds
    between the end of the membership in endpoints and SIGTERM."""

    grace_period: float = 1.0
    shutdown_delay: float = 0.0


class UnreachablePolicy(Part, frozen=True, kw_only=True):
    """Rules for a taskgroup on an agent that the cluster manager cannot reach.

    `replace_after`: seconds before a replacement is launched; negative = never. `on_return`: the treatment of the old
    taskgroup if its agent returns after the replacement was launched. If the agent returns earlier, the old taskgroup
    is Running again.
    """

    replace_after: float = 60.0
    on_return: Literal["Kill"] = "Kill"


class Constraint(Part, frozen=True, kw_only=True):
    """One member of a union (docs/original.md#constraints). Exactly the payload its operator needs is set.

    CLUSTER, LIKE, UNLIKE: `items`; GREATER: `number` (a float); MAXPER: `limit`; GROUPBY: `items`;
    EXCLUDE: `items` of ``key:value``; UNIQUE: none. TOLERATION becomes a Toleration instead.
    """

    name: str
    operator: Literal["UNIQUE", "MAXPER", "CLUSTER", "LIKE", "UNLIKE", "GROUPBY", "EXCLUDE", "GREATER"]
    items: tuple[str, ...] = ()
    number: float = 0.0
    limit: int = 0


class ReservedAddress(Part, frozen=True, kw_only=True):
    """The network addresses that are reserved for taskgroup `index` (IPv4 and IPv6, at most one of each). With
    `attribute`, only agents whose attribute matches one of `patterns` (as of LIKE) have the addresses."""

    index: int
    addresses: tuple[str, ...]
    attribute: str = ""
    patterns: tuple[str, ...] = ()


class Toleration(Part, frozen=True, kw_only=True):
    """Tolerates the taint `key`=`value` of an agent."""

    key: str
    value: str


class AttributeValue(Part, frozen=True, kw_only=True):
    """An attribute as copied from the agent at launch: text or number."""

    text: str = ""
    number: float | None = None
