"""Networks of a taskgroup and their rules for its ports (docs/original.md#ports).

HOST: container and host port are one number. BRIDGE, and custom networks of type cnm: container ports are mapped to
ports of the host, or with hostPort -1 not mapped. Other custom networks and USER: every task has an address of its own
and ports are not mapped. NONE: no ports.
"""

from __future__ import annotations

import re

from bcs_scheduler.api.documents.names import check_port_name
from bcs_scheduler.wire.documents.pod import PodSpec, PortDocument
from bcs_scheduler.wire.problems import Problems, Taken, element, member

PROTOCOLS = ("tcp", "udp", "http", "https")
BUILT_IN = ("HOST", "BRIDGE", "NONE", "USER")
NETWORK_TYPES = ("", "cni", "cnm")
_NETWORK = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}\Z")


def network_mode(pod: PodSpec) -> str:
    """HOST, BRIDGE, NONE, USER or the name of a custom network. Processes are always in the host's network."""
    if pod.processes:
        return "HOST"
    mode = pod.network_mode
    return (mode.upper() if mode.upper() in BUILT_IN else mode) or "NONE"


def network_type(pod: PodSpec) -> str:
    """cni, cnm or empty; another word has no effect."""
    written = pod.network_type.lower()
    return written if written in NETWORK_TYPES else ""


def is_custom(pod: PodSpec) -> bool:
    """A network of the user's, which a plug-in or the container engine of the agent provides."""
    return network_mode(pod) not in ("HOST", "BRIDGE", "NONE")


def egress_limit(pod: PodSpec) -> int:
    """Mbit/s; 0 = unlimited. Only networks of type cni have a limit."""
    limit = pod.net_limit.egress_limit
    return limit if limit and is_custom(pod) and network_type(pod) == "cni" else 0


def effective_ports(ports: tuple[PortDocument, ...], pod: PodSpec) -> tuple[PortDocument, ...]:
    """Returns the ports that take effect. The original skips ports with a negative container port in host networking,
    and ports without a container port if there is no network."""
    mode = network_mode(pod)
    if mode == "HOST":
        return ports if pod.processes else tuple(port for port in ports if port.container_port >= 0)
    return tuple(port for port in ports if port.container_port > 0) if mode == "NONE" else ports


def has_port_mappings(pod: PodSpec) -> bool:
    """Returns True if container ports are mapped to ports of the host."""
    mode = network_mode(pod)
    return mode == "BRIDGE" or (mode not in BUILT_IN and pod.network_type.lower() == "cnm")


def bound_ports(port: PortDocument, pod: PodSpec) -> tuple[int, int]:
    """(container port, host port) as asked for; 0 = drawn from the offer, host port -1 = not mapped."""
    if network_mode(pod) == "HOST":
        first, second = (
            (port.host_port, port.container_port) if pod.processes else (port.container_port, port.host_port)
        )
        number = first if first > 0 else max(second, 0)
        return number, number
    return port.container_port, port.host_port if has_port_mappings(pod) else -1


def check_network(pod: PodSpec, path: str, problems: Problems) -> None:
    mode, at = pod.network_mode, member(path, "networkMode")
    if pod.processes and mode.upper() not in ("", "HOST"):
        problems.add(at, "must be HOST or left out: processes are in the network of their host")
    elif mode and mode.upper() not in BUILT_IN and not _NETWORK.match(mode):
        problems.add(at, f"must be one of {', '.join(BUILT_IN)} or the name of a network", mode, BUILT_IN)
    if pod.network_type.lower() not in NETWORK_TYPES:
        problems.warn(member(path, "networktype"), "must be cni or cnm", "the value is ignored")
    _check_limit(pod, path, problems)


def _check_limit(pod: PodSpec, path: str, problems: Problems) -> None:
    """The original hands the limit to plug-ins of CNI, so it has an effect in custom networks of type cni only."""
    if pod.net_limit.egress_limit and not egress_limit(pod):
        words = f"has no effect in network {network_mode(pod)}"
        problems.warn(member(path, "netLimit"), words, "the field applies to networks of type cni")


class PortBook:
    """Checks the ports of one taskgroup: names and host ports are unique in it, container ports in their task. One
    number may be used once for tcp and once for udp."""

    def __init__(self, pod: PodSpec) -> None:
        self._pod = pod
        self._mode = network_mode(pod)
        self._names, self._host_ports = Taken("port name"), Taken("host port")

    def check(self, ports: tuple[PortDocument, ...], path: str, problems: Problems) -> None:
        inside = Taken("container port")
        for j, port in enumerate(ports):
            at = element(path, j)
            check_port_name(port.name, member(at, "name"), problems)
            self._names.take(port.name, member(at, "name"), problems)
            if port.protocol.lower() not in ("", *PROTOCOLS):
                known = f"must be one of {', '.join(PROTOCOLS)}"
                problems.add(member(at, "protocol"), known, port.protocol, PROTOCOLS)
            self._check_numbers(port, at, problems)
            container, host = bound_ports(port, self._pod)
            transport = "udp" if port.protocol.lower() == "udp" else "tcp"
            if host > 0:
                field = "hostPort" if port.host_port > 0 else "containerPort"
                self._host_ports.take(f"{host}/{transport}", member(at, field), problems)
            if self._mode not in ("HOST", "NONE") and container > 0:
                inside.take(f"{container}/{transport}", member(at, "containerPort"), problems)

    def _check_numbers(self, port: PortDocument, at: str, problems: Problems) -> None:
        if self._mode == "HOST":
            _check_host(port, at, problems, process=bool(self._pod.processes))
        elif self._mode == "NONE":
            problems.warn(at, "needs a network", 'write "networkMode": "HOST"')
        elif port.container_port < 1 and not (
            has_port_mappings(self._pod) and port.container_port == 0 <= port.host_port
        ):
            problems.add(member(at, "containerPort"), "must be the port that the container listens on, 1 to 65535")
        elif port.host_port > 0 and not has_port_mappings(self._pod):
            why = f"network {self._mode} maps no ports"
            problems.warn(member(at, "hostPort"), f"has no meaning: {why}", "leave it out")


def _check_host(port: PortDocument, at: str, problems: Problems, *, process: bool) -> None:
    """Checks the ports of host networking, where both ports are one number. The original reads `containerPort` of
    containers and `hostPort` of processes alone."""
    read, other = ("hostPort", "containerPort") if process else ("containerPort", "hostPort")
    numbers = {"hostPort": port.host_port, "containerPort": port.container_port}
    for field, number in numbers.items():
        if number < 0:
            skipped = field == "containerPort" and not process
            words = "must not be negative in host networking: there is nothing to map"
            problems.warn(member(at, field), words, "the port is left out" if skipped else "")
    if numbers[read] > 0 < numbers[other] and numbers[read] != numbers[other]:
        words = f"must equal {read} {numbers[read]} in host networking"
        problems.warn(member(at, other), words, f"{numbers[read]} is taken")
    elif numbers[read] == 0 < numbers[other]:
        problems.differs(member(at, other), f"{numbers[other]} is used; the original draws a random port")
