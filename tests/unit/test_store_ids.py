"""Ids with every cluster name that an operator of Mesos can choose, from the composition to the parts and back."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcs_scheduler.local.master import validation
from store import ids
from store.ids import (
    ObjectKey,
    TaskGroupId,
    TaskId,
    custom_key,
    custom_namespace_of,
    namespace_of,
    object_key,
    owner_of,
    part_key,
    split_part,
    without_namespace,
)
from tests.sources import ROOMS, sources

CLUSTER_NAMES = st.text(max_size=300) | st.text(
    alphabet="./\\: \t\n\x00\x7f-_a0ö\u2028\ud800\ufffd\U0001f600", max_size=30
)
"""Whatever ``--cluster`` can be, and more of what needs care."""
NAMES = st.from_regex(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", fullmatch=True)
NUMBERS = st.integers(min_value=0, max_value=99_999)
NANOSECONDS = st.integers(min_value=1, max_value=2**64 - 1)


@given(index=NUMBERS, number=NUMBERS, application=NAMES, namespace=NAMES, cluster=CLUSTER_NAMES, made=NANOSECONDS)
def test_ids_of_any_cluster_are_accepted_and_have_their_parts(
    index: int, number: int, application: str, namespace: str, cluster: str, made: int
) -> None:
    group = TaskGroupId.make(index, application, namespace, cluster, made)
    task = group.task(number)
    for identity in (str(group), str(task)):
        assert len(identity.encode()) <= ids.LONGEST
        assert validation.identifier(identity) is None
        assert ":" not in identity and not any(character.isspace() for character in identity)
    assert TaskGroupId.parse(str(group)) == group
    assert TaskId.parse(str(task)) == task
    assert task.taskgroup == group
    assert ids.taskgroup_of(str(task)) == str(group)
    assert ids.application_of(str(group)) == group.owner == ids.object_key(namespace, application)
    assert ids.index_of(str(group)) == index
    assert ids.taskgroup_name(str(group)) == f"{application}-{index}"
    assert ids.nanoseconds_of(str(group)) == made


@given(cluster=CLUSTER_NAMES)
def test_a_safe_name_stays_as_it_is(cluster: str) -> None:
    safe = ids.safe_cluster(cluster)
    assert ids.safe_cluster(safe) == safe


@pytest.mark.parametrize(
    "name",
    [
        "Unnamed",
        "dc1",
        "dc1.example.com",
        "..",
        ".hidden.",
        "0.1.2.3",
        "Köln-Süd",
        "\U0001f600",
        "a(b)[c]{d}'e\"%f$g#h?i&j*k",
    ],
)
def test_harmless_names_are_not_changed(name: str) -> None:
    assert ids.safe_cluster(name) == name


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("", "Unnamed"),
        ("dc1/row2\\rack3", "dc1_row2_rack3"),
        ("our first cluster", "our_first_cluster"),
        ("a\tb\nc\x00d\x7fe\x85f", "a_b_c_d_e_f"),
        ("zone:1", "zone_1"),
        ("a\ud800b", "a_b"),
    ],
)
def test_what_cannot_stand_in_an_id_is_replaced(name: str, safe: str) -> None:
    assert ids.safe_cluster(name) == safe


def test_a_long_name_is_cut_between_characters() -> None:
    assert ids.safe_cluster("ö" * 200, 255) == "ö" * 127
    longest_names = TaskGroupId.make(99_999, "a" * 63, "n" * 63, "c" * 300, 2**64 - 1)
    assert len(str(longest_names.task(99_999))) == ids.LONGEST


@pytest.mark.parametrize(
    "identity",
    ["0.web.ns.Unnamed.1700000000000000000", "12.a-b.defaultGroup.integration.1536138501685462613"],
)
def test_ids_of_before_are_still_read(identity: str) -> None:
    found = TaskGroupId.parse(identity)
    assert found is not None and str(found) == identity
    assert ids.taskgroup_of(str(found.task(3))) == identity


@pytest.mark.parametrize(
    "text",
    ["", "web", "0.web.ns.5", "x.web.ns.c.5", "0.web.ns.c.x", "0..ns.c.5", "0.web..c.5", "0.web.ns..5", "٣.web.ns.c.5",
     "00.web.ns.c.5", "-1.web.ns.c.5"],
)  # fmt: skip
def test_what_is_no_taskgroup_id_has_no_parts(text: str) -> None:
    assert TaskGroupId.parse(text) is None
    assert ids.taskgroup_name(text) == text


@pytest.mark.parametrize(
    "text", ["", "5.0.0.web.ns", "5.0.x.web.ns.c", "5.0.0..ns.c", "5.0.0.web.ns.", "five.0.0.a.b.c"]
)
def test_what_is_no_task_id_has_no_parts(text: str) -> None:
    assert TaskId.parse(text) is None


def test_taskgroups_are_in_order_of_owner_index_and_age() -> None:
    ordered = [
        TaskGroupId(0, "a", "n", "dc.1", 9),
        TaskGroupId(2, "a", "n", "dc.1", 3),
        TaskGroupId(2, "a", "n", "dc.1", 20),
        TaskGroupId(10, "a", "n", "dc.1", 1),
        TaskGroupId(0, "b", "n", "dc.1", 1),
        TaskGroupId(0, "a", "o", "dc.1", 1),
    ]
    shuffled = [ordered[at] for at in (3, 5, 0, 4, 2, 1)]
    assert sorted(shuffled, key=lambda item: item.order) == ordered


@given(kind=st.sampled_from(["application", "deployment"]), namespace=NAMES, name=NAMES, made=NANOSECONDS)
def test_a_command_is_found_by_its_id(kind: str, namespace: str, name: str, made: int) -> None:
    identity = ids.command_id(kind, namespace, name, made)
    assert ids.commanded(identity, kind, namespace) == name
    assert ids.nanoseconds_of(identity) == made
    other = "deployment" if kind == "application" else "application"
    assert ids.commanded(identity, other, namespace) == ""


def test_numbers_of_ids_are_in_the_order_of_their_age() -> None:
    assert ids.nanoseconds_of(ids.transaction_id(17)) == 17
    assert ids.nanoseconds_of("1700000000000000001") == 1700000000000000001
    assert ids.nanoseconds_of("no number") == 0


def test_keys_have_a_namespace_and_an_owner() -> None:
    assert ids.namespace_of("ns/web") == ids.namespace_of("ns/web/17") == "ns"
    assert ids.owner_of("ns/web/17") == "ns/web"


class TestObjectKeys:
    @given(NAMES, NAMES)
    def test_what_is_formatted_is_parsed(self, namespace: str, name: str) -> None:
        key = ObjectKey(namespace, name)
        assert str(key) == object_key(namespace, name) == f"{namespace}/{name}"
        assert ObjectKey.parse(str(key)) == ObjectKey.of(str(key)) == key
        assert namespace_of(str(key)) == namespace
        assert without_namespace(str(key), namespace) == name

    @given(st.text(alphabet="a-/", max_size=8))
    def test_only_two_parts_are_a_key(self, text: str) -> None:
        key = ObjectKey.parse(text)
        assert (key is not None) == (text.count("/") == 1 and all(text.split("/")))
        assert key is None or str(key) == text

    @given(st.lists(st.tuples(NAMES, NAMES), max_size=8))
    def test_keys_are_in_the_order_of_namespace_and_name(self, parts: list[tuple[str, str]]) -> None:
        keys = [ObjectKey(*pair) for pair in parts]
        assert [key.order for key in sorted(keys, key=lambda key: key.order)] == sorted(parts)

    @given(NAMES, NAMES, st.integers(min_value=0))
    def test_parts_of_objects_know_their_owner(self, namespace: str, name: str, number: int) -> None:
        owner = object_key(namespace, name)
        key = part_key(owner, number)
        assert split_part(key) == (owner, str(number))
        assert (owner_of(key), namespace_of(key)) == (owner, namespace)

    @given(NAMES, NAMES, NAMES)
    def test_custom_objects_have_their_type_in_front(self, kind: str, namespace: str, name: str) -> None:
        assert custom_namespace_of(custom_key(kind, namespace, name)) == namespace
        assert without_namespace(custom_key(kind, namespace, name), "") == f"{kind}/{namespace}/{name}"


APART = ("bcs_scheduler/executor/", "bcs_scheduler/local/", "store/ids.py", "store/keys.py")
"""The executor and the embedded cluster import nothing of the scheduler and know no objects of it."""


def makes_key(node: ast.AST) -> bool:
    """An f-string that joins a namespace, or a key, with what follows by a slash: f"{group.namespace}/{...}"."""
    if not isinstance(node, ast.JoinedStr):
        return False
    return any(
        isinstance(before, ast.FormattedValue)
        and isinstance(slash, ast.Constant)
        and slash.value == "/"
        and isinstance(after, ast.FormattedValue)
        and _last_name(before.value) in ("namespace", "_namespace", "ns", "key")
        for before, slash, after in zip(node.values, node.values[1:], node.values[2:], strict=False)
    )


def takes_key_apart(node: ast.AST) -> bool:
    """key.partition("/"), and the like."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("partition", "rpartition", "split", "rsplit")
        and bool(node.args)
        and isinstance(node.args[0], ast.Constant)
        and node.args[0].value == "/"
        and _last_name(node.func.value) == "key"
    )


def _last_name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(value=str(name))):
            return name
    return ""


def test_keys_are_made_and_taken_apart_in_this_module_only() -> None:
    found = [
        f"{source.name}:{getattr(node, 'lineno', 0)}"
        for source in sources(*ROOMS)
        if not source.name.startswith(APART)
        for node in source.nodes
        if makes_key(node) or takes_key_apart(node)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("source", "refused"),
    [
        ('f"{group.namespace}/{group.application}"', True),
        ('f"application {namespace}/{name} does not exist"', True),
        ("f\"{call.path['ns']}/{name}\"", True),
        ('f"{application.key}/{application.version}"', True),
        ('key.rpartition("/")', True),
        ('item.key.split("/", 1)', True),
        ('f"{base}/{namespace}"', False),
        ('path.split("/")', False),
        ("object_key(group.namespace, group.application)", False),
    ],
)
def test_hand_made_keys_are_recognised(source: str, refused: bool) -> None:
    assert any(makes_key(node) or takes_key_apart(node) for node in ast.walk(ast.parse(source))) is refused
