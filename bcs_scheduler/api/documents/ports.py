"""Networks of a taskgroup and what they make of its ports (bcs_api 6.7).

HOST: container and host port are one number. BRIDGE, and custom networks of type cnm: container ports are mapped to
ports of the host, or with hostPort -1 not mapped. Other custom networks and USER: every task has an address of its own
and ports are not mapped. NONE: no ports.
"""

from __future__ import annotations

import re

from bcs_scheduler.api.documents.names import check_port_name
from bcs_scheduler.api.documents.pod import PodSpec, PortDocument
from bcs_scheduler.api.documents.walk import Problems, Taken, element, member

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


def maps_ports(pod: PodSpec) -> bool:
    """Container ports are mapped to ports of the host."""
    mode = network_mode(pod)
    return mode == "BRIDGE" or (mode not in BUILT_IN and pod.network_type.lower() == "cnm")


def bound_ports(port: PortDocument, pod: PodSpec) -> tuple[int, int]:
    """(container port, host port) as asked for; 0 = drawn from the offer, host port -1 = not mapped."""
    if network_mode(pod) == "HOST":
        number = max(port.host_port, port.container_port, 0)
        return number, number
    return port.container_port, port.host_port if maps_ports(pod) else -1


def check_network(pod: PodSpec, path: str, problems: Problems) -> None:
    mode, at = pod.network_mode, member(path, "networkMode")
    if pod.processes and mode.upper() not in ("", "HOST"):
        problems.add(at, "must be HOST or left out: processes are in the network of their host")
    elif mode and mode.upper() not in BUILT_IN and not _NETWORK.match(mode):
        problems.add(at, f"must be one of {', '.join(BUILT_IN)} or the name of a network", mode, BUILT_IN)
    if pod.network_type.lower() not in NETWORK_TYPES:
        problems.add(member(path, "networktype"), "must be cni or cnm", pod.network_type, NETWORK_TYPES)


class PortBook:
    """Checks the ports of one taskgroup: names and host ports are unique in it, container ports in their task."""

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
            if host > 0:
                field = "hostPort" if port.host_port > 0 else "containerPort"
                self._host_ports.take(host, member(at, field), problems)
            if self._mode != "HOST" and container > 0:
                transport = "udp" if port.protocol.lower() == "udp" else "tcp"
                inside.take(f"{container}/{transport}", member(at, "containerPort"), problems)

    def _check_numbers(self, port: PortDocument, at: str, problems: Problems) -> None:
        if self._mode == "HOST":
            _check_host(port, at, problems)
        elif self._mode == "NONE":
            problems.add(at, 'needs a network: write "networkMode": "HOST"')
        elif port.container_port < 1 and not (maps_ports(self._pod) and port.container_port == 0 <= port.host_port):
            problems.add(member(at, "containerPort"), "must be the port that the container listens on, 1 to 65535")
        elif port.host_port > 0 and not maps_ports(self._pod):
            why = f"network {self._mode} maps no ports; leave it out"
            problems.add(member(at, "hostPort"), f"has no meaning: {why}")


def _check_host(port: PortDocument, at: str, problems: Problems) -> None:
    for field, number in (("containerPort", port.container_port), ("hostPort", port.host_port)):
        if number < 0:
            problems.add(member(at, field), "must not be negative in host networking: there is nothing to map")
    if port.container_port > 0 and port.host_port > 0 and port.container_port != port.host_port:
        problems.add(member(at, "hostPort"), f"must equal containerPort {port.container_port} in host networking")
