"""Dynamic reservations in the embedded cluster: their identity, their formats and their conversions."""

from __future__ import annotations

import pytest

from bcs_scheduler.local.errors import InvalidResources
from bcs_scheduler.local.master.operations import InvalidOperation, applied, reserved, unreserved
from bcs_scheduler.local.objects.reservations import Reservation, stack_of, static, to_old_format, write
from bcs_scheduler.local.objects.resources import Amounts, parse
from bcs_scheduler.mesos.proto import mesos_pb2 as pb

MINE = Reservation("web", dynamic=True, principal="owner", labels=(("gang", "g"), ("flag", None)))
REFINED = (Reservation("web"), Reservation("web/shop", dynamic=True))


def cpus(amount: float, *stack: Reservation) -> pb.Resource:
    resource = pb.Resource(name="cpus", type=pb.Value.SCALAR, scalar=pb.Value.Scalar(value=amount))
    write(stack, resource)
    return resource


@pytest.mark.parametrize("stack", [(), static("web"), (MINE,), REFINED])
def test_reservations_are_read_as_they_are_written(stack: tuple[Reservation, ...]) -> None:
    assert stack_of(cpus(1.0, *stack)) == stack


@pytest.mark.parametrize("stack", [(), static("web"), (MINE,)])
def test_the_old_format_has_the_same_reservation(stack: tuple[Reservation, ...]) -> None:
    old = to_old_format(cpus(1.0, *stack))
    assert old is not None
    assert (len(old.reservations), stack_of(old)) == (0, stack)


def test_the_old_format_cannot_express_refined_reservations() -> None:
    assert to_old_format(cpus(1.0, *REFINED)) is None
    amounts = parse([cpus(1.0, *REFINED), cpus(2.0)])
    assert amounts.usable_by("web/shop").scalar("cpus") == 3000
    assert amounts.usable_by("web/shop", refined=False).scalar("cpus") == 2000


def test_ports_are_reserved_for_their_role_also_without_scalars() -> None:
    amounts = Amounts({("cpus", ()): 1000}, {("ports", (MINE,)): ((1, 2),), ("ports", ()): ((5, 6),)})
    assert amounts.usable_by("web") is amounts
    assert amounts.usable_by("batch") == Amounts({("cpus", ()): 1000}, {("ports", ()): ((5, 6),)})


def test_a_conversion_keeps_the_amounts() -> None:
    free = Amounts({("cpus", ()): 4000})
    held = applied(free, reserved([cpus(1.5, MINE)], []))
    assert held == Amounts({("cpus", ()): 2500, ("cpus", (MINE,)): 1500})
    assert held.by_role() == {"": {"cpus": 2500}, "web": {"cpus": 1500}}
    assert applied(held, unreserved([cpus(0.5, MINE)])) == Amounts({("cpus", ()): 3000, ("cpus", (MINE,)): 1000})
    assert applied(held, unreserved([cpus(1.5, MINE)])) == free


def test_what_is_not_there_is_not_converted() -> None:
    free = Amounts({("cpus", ()): 1000})
    with pytest.raises(InvalidOperation, match=r"cpus\(allocated: web\):1 does not contain cpus\(allocated: web\):2"):
        applied(free, reserved([cpus(2.0, MINE)], []), "web")
    with pytest.raises(
        InvalidOperation, match=r"does not contain cpus\(reservations: \[\(DYNAMIC,web,owner,{gang: g, "
    ):
        applied(free, unreserved([cpus(1.0, MINE)]))


def test_a_reservation_is_added_to_a_static_one() -> None:
    free = Amounts({("cpus", static("web")): 1000})
    assert applied(free, reserved([cpus(1.0, *REFINED)], [])) == Amounts({("cpus", REFINED): 1000})


def test_the_remainder_is_never_negative() -> None:
    one, other = Amounts({("cpus", ()): 1000}, {("ports", ()): ((1, 5),)}), Amounts({("cpus", ()): 3000})
    assert one.without(other) == Amounts(None, {("ports", ()): ((1, 5),)})
    assert other.without(one) == Amounts({("cpus", ()): 2000})


@pytest.mark.parametrize(
    ("old", "message"),
    [
        ({"role": "*", "reservation": pb.Resource.ReservationInfo(principal="p")}, 'role "\\*" cannot be dynamically'),
        ({"role": "web", "reservation": pb.Resource.ReservationInfo(role="web")}, "role' must not be set"),
        (
            {"role": "web", "reservation": pb.Resource.ReservationInfo(type=pb.Resource.ReservationInfo.STATIC)},
            "type' must not be set",
        ),
    ],
)
def test_bad_reservations_of_the_old_format_are_refused(old: dict[str, object], message: str) -> None:
    resource = cpus(1.0)
    for value in old.values():
        if isinstance(value, pb.Resource.ReservationInfo):
            resource.reservation.CopyFrom(value)
        else:
            resource.role = str(value)
    with pytest.raises(InvalidResources, match=message):
        parse([resource])
