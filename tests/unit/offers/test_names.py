"""The name by which operators know an agent: one rule for offers, listed agents and standing nodes."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping

import pytest

from offers.agents import ListedAgent
from offers.ledger.nodes import Node
from offers.names import INNER_IP, name_of
from tests.sources import ROOMS, sources


@pytest.mark.parametrize(
    ("attributes", "others", "name"),
    [
        ({"InnerIP": "10.0.0.1"}, ("host",), "10.0.0.1"),
        ({"InnerIP": ""}, ("host",), "host"),
        ({"InnerIP": 10.5}, ("host",), "host"),
        ({}, ("", "host", "other"), "host"),
        ({}, ("",), ""),
    ],
)
def test_the_attribute_comes_first(attributes: Mapping[str, object], others: tuple[str, ...], name: str) -> None:
    assert name_of(attributes, *others) == name


def test_agents_and_nodes_are_named_by_the_same_rule() -> None:
    for attributes in ({"InnerIP": "10.0.0.1"}, {}):
        agent = ListedAgent("id", "host", attributes=attributes)
        node = Node("host", (), attributes=attributes)
        assert agent.key == node.key == name_of(attributes, "host")
    assert Node("host", (), ip="10.0.0.2").key == "10.0.0.2"


def asked(nodes: Iterable[ast.AST]) -> Iterator[int]:
    """Lines that get the attribute from a mapping. Names of JSON fields and of metric labels are no attributes of
    agents; they are never arguments of `get`."""
    for node in nodes:
        match node:
            case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=value), *_]) if value == INNER_IP:
                yield node.lineno


def test_no_other_module_asks_for_the_attribute() -> None:
    found = [f"{source.name}:{line}" for source in sources(*ROOMS) for line in asked(source.nodes)]
    assert found == []
    assert list(asked(ast.walk(ast.parse('attributes.get("InnerIP")')))) == [1]
