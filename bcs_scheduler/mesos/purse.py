"""Splits a claim exactly over an executor and its tasks."""

from __future__ import annotations

from collections.abc import Iterable

from bcs_scheduler.mesos.errors import LaunchError
from bcs_scheduler.mesos.proto import mesos_pb2 as pb
from bcs_scheduler.mesos.resources import fill_ranges, join, scalar_resource
from offers.model import Claim, Pot
from store.definition import Amounts

PORTS = "ports"


class Purse:
    """The claim of one launch, spent part by part. Amounts keep the role and reservations of the pot they come
    from, and an amount may be put together from several pots."""

    def __init__(self, claim: Claim) -> None:
        self._scalars: list[tuple[Pot, int]] = list(claim.scalars)
        self._ports: dict[int, Pot] = {
            port: pot
            for pot, ranges in claim.ranges
            if pot.name == PORTS
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
        by_pot: dict[Pot, list[int]] = {}
        for port in sorted(set(ports)):
            pot = self._ports.pop(port, None)
            if pot is not None:
                by_pot.setdefault(pot, []).append(port)
        for pot, held in by_pot.items():
            fill_ranges(task.resources.add(), pot, join((port, port) for port in held))

    def must_be_empty(self) -> None:
        """Raises LaunchError if anything is left: it would be neither used nor given back while the taskgroup lives."""
        if self._ports or any(amount for _, amount in self._scalars):
            left = [f"{pot.name} {amount / 1000}" for pot, amount in self._scalars if amount]
            left += [f"port {port}" for port in sorted(self._ports)]
            raise LaunchError(f"the claim holds more than the taskgroup needs: {', '.join(left)}")

    def _take(self, name: str, wanted: int) -> list[pb.Resource]:
        taken = []
        missing = wanted
        for index, (pot, held) in enumerate(self._scalars):
            if missing and held and pot.name == name:
                part = min(held, missing)
                self._scalars[index] = (pot, held - part)
                missing -= part
                taken.append(scalar_resource(pot, part))
        if missing:
            raise LaunchError(f"the claim lacks {missing / 1000} of {wanted / 1000} {name}")
        return taken
