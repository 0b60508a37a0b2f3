"""Resource arithmetic of the embedded cluster."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcs_scheduler.local.errors import InvalidResources
from bcs_scheduler.local.objects.reservations import static
from bcs_scheduler.local.objects.resources import Amounts, Ranges, difference, parse, sum_of, union
from bcs_scheduler.mesos.proto import mesos_pb2 as pb

numbers = st.sets(st.integers(0, 40), max_size=20)
keys = st.tuples(st.sampled_from(["cpus", "mem", "disk"]), st.sampled_from([(), static("web")]))
amounts = st.builds(
    lambda scalars, ports: Amounts(scalars, {("ports", ()): as_ranges(ports)} if ports else {}),
    st.dictionaries(keys, st.integers(1, 10_000), max_size=4),
    numbers,
)


def as_ranges(numbers: set[int]) -> Ranges:
    return union((n, n) for n in numbers)


def as_numbers(ranges: Ranges) -> set[int]:
    return {n for begin, end in ranges for n in range(begin, end + 1)}


def scalar(name: str, value: float) -> pb.Resource:
    return pb.Resource(name=name, type=pb.Value.SCALAR, scalar=pb.Value.Scalar(value=value))


def ranges(*pairs: tuple[int, int]) -> pb.Resource:
    values = pb.Value.Ranges(range=[pb.Value.Range(begin=begin, end=end) for begin, end in pairs])
    return pb.Resource(name="ports", type=pb.Value.RANGES, ranges=values)


@given(numbers, numbers)
def test_ranges_behave_as_sets(a: set[int], b: set[int]) -> None:
    assert as_numbers(union([*as_ranges(a), *as_ranges(b)])) == a | b
    assert as_numbers(difference(as_ranges(a), as_ranges(b))) == a - b


@given(amounts, amounts)
def test_what_is_added_is_contained_and_can_be_taken_off(a: Amounts, b: Amounts) -> None:
    total = a + b
    assert total.contains(a)
    assert total.contains(b)
    if not a.overlaps(b):
        assert total - b == a


@given(st.lists(amounts, max_size=5))
def test_the_sum_of_a_list_is_that_of_repeated_addition(parts: list[Amounts]) -> None:
    assert sum_of(parts) == sum(parts, Amounts())


@given(amounts, amounts)
def test_what_contains_each_other_is_equal(a: Amounts, b: Amounts) -> None:
    assert (a.contains(b) and b.contains(a)) == (a == b)


@given(amounts)
def test_messages_say_the_same(value: Amounts) -> None:
    for role in ("role", "other", "other", "role"):
        messages = value.messages(role)
        assert parse(messages) == value
        assert {message.allocation_info.role for message in messages} <= {role}


def test_scalars_are_counted_in_thousandths() -> None:
    assert parse([scalar("cpus", 0.1), scalar("cpus", 0.2)]) == Amounts({("cpus", ()): 300})


@pytest.mark.parametrize(
    ("resource", "message"),
    [
        (scalar("", 1), "Empty"),
        (scalar("cpus", -1), "value <= 0"),
        (scalar("cpus", 0.0001), "value <= 0"),
        (scalar("gpus", 0.5), "unsigned integer"),
        (pb.Resource(name="cpus", type=pb.Value.SCALAR), "Invalid scalar"),
        (pb.Resource(name="ports", type=pb.Value.RANGES), "Invalid ranges"),
        (pb.Resource(name="x", type=pb.Value.TEXT), "Unsupported"),
        (ranges((2, 1)), "begin > end"),
        (ranges((1, 3), (3, 5)), "overlapping"),
    ],
)
def test_invalid_resources_are_refused(resource: pb.Resource, message: str) -> None:
    with pytest.raises(InvalidResources, match=message):
        parse([resource])


def test_resources_with_properties_no_agent_has_are_never_contained() -> None:
    disk = scalar("disk", 1)
    disk.disk.persistence.id = "volume"
    revocable = scalar("cpus", 1)
    revocable.revocable.SetInParent()
    everything = Amounts({("disk", ()): 10**9, ("cpus", ()): 10**9})
    assert not everything.contains(parse([disk]))
    assert not everything.contains(parse([revocable]))


@pytest.mark.parametrize(("role", "cpus"), [("web", 3000), ("web/shop", 3000), ("website", 1000), ("*", 1000)])
def test_reserved_resources_are_for_the_role_and_those_below(role: str, cpus: int) -> None:
    assert Amounts({("cpus", ()): 1000, ("cpus", static("web")): 2000}).usable_by(role).scalar("cpus") == cpus
