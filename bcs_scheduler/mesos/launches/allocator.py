"""Splits a claim exactly over an executor and its tasks."""

from __future__ import annotations

from collections.abc import Iterable

from bcs_scheduler.mesos.errors import LaunchError
from bcs_scheduler.mesos.launches.resources import fill_ranges, join, scalar_resource
from bcs_scheduler.mesos.proto import mesos_pb2 as pb
from offers.model import Allocation, ResourceKey
from store.records.definition import Amounts

PORTS = "ports"


class Allocator:
    """The allocation of one launch, spent part by part. Amounts keep the role and reservations of their resource key,
    and an amount may be put together from several keys."""

    def __init__(self, allocation: Allocation) -> None:
        self._scalars: list[tuple[ResourceKey, int]] = list(allocation.scalars)
        self._ports: dict[int, ResourceKey] = {
            port: key
            for key, ranges in allocation.ranges
            if key.name == PORTS
            for begin, end in ranges
            for port in range(begin, end + 1)
        }

    def take(self, amounts: Amounts) -> list[pb.Resource]:
        """Scalars of this size; zeros are left out, as Mesos refuses empty resources. Raises LaunchError if too little
        is left."""
        taken = []
        for name, wanted in (
            ("cpus", amounts.cpus),
            ("mem", amounts.mem),
            ("disk", amounts.disk),
            ("gpus", amounts.gpus),
        ):
            taken += self._take(name, wanted)
        return taken

    def take_ports(self, ports: Iterable[int], task: pb.TaskInfo) -> None:
        """Gives the task those of the ports that the claim holds; ports not wanted on the host are not in it."""
        by_key: dict[ResourceKey, list[int]] = {}
        for port in sorted(set(ports)):
            key = self._ports.pop(port, None)
            if key is not None:
                by_key.setdefault(key, []).append(port)
        for key, held in by_key.items():
            fill_ranges(task.resources.add(), key, join((port, port) for port in held))

    def must_be_empty(self) -> None:
        """Raises LaunchError if anything is left: it would be neither used nor given back while the taskgroup lives."""
        if self._ports or any(amount for _, amount in self._scalars):
            left = [f"{key.name} {amount / 1000}" for key, amount in self._scalars if amount]
            left += [f"port {port}" for port in sorted(self._ports)]
            raise LaunchError(f"the claim holds more than the taskgroup needs: {', '.join(left)}")

    def _take(self, name: str, wanted: int) -> list[pb.Resource]:
        taken = []
        missing = wanted
        for index, (key, held) in enumerate(self._scalars):
            if missing and held and key.name == name:
                part = min(held, missing)
                self._scalars[index] = (key, held - part)
                missing -= part
                taken.append(scalar_resource(key, part))
        if missing:
            raise LaunchError(f"the claim lacks {missing / 1000} of {wanted / 1000} {name}")
        return taken
