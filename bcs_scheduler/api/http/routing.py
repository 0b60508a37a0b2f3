"""Finds the route of a path in one step per part of the path, however many routes there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

TargetT = TypeVar("TargetT")


@dataclass(slots=True)
class _Node(Generic[TargetT]):
    """The routes that share the first parts of a path."""

    words: dict[str, _Node[TargetT]] = field(default_factory=dict)
    any: _Node[TargetT] | None = None
    """The node for a next part that is a parameter."""
    template: str = ""
    target: TargetT | None = None


class Routes(Generic[TargetT]):
    """Targets by path templates such as ``/namespaces/{ns}/applications``. A parameter is a whole part, and not
    empty."""

    def __init__(self, targets: Mapping[str, TargetT]) -> None:
        """Raises ValueError for a template with a parameter that is only a piece of a part."""
        self._root: _Node[TargetT] = _Node()
        self._names: dict[str, list[tuple[int, str]]] = {}
        """Places and names of the parameters of each template."""
        for template, target in targets.items():
            self._add(template, target)

    def _add(self, template: str, target: TargetT) -> None:
        node, names = self._root, []
        for place, part in enumerate(template.split("/")):
            if part.startswith("{") and part.endswith("}"):
                names.append((place, part[1:-1]))
                node.any = node.any or _Node()
                node = node.any
            elif "{" in part:
                raise ValueError(f"the parameter in {template} is not a whole part of the path")
            else:
                node = node.words.setdefault(part, _Node())
        if node.target is not None:
            raise ValueError(f"{template} and {node.template} are the same paths")
        node.template, node.target = template, target
        self._names[template] = names

    def find(self, path: str) -> Iterator[tuple[TargetT, dict[str, str]]]:
        """The targets of all templates that the path fits, with its parameters. A fixed word goes before a
        parameter. Slashes at the end have no meaning."""
        parts = path.rstrip("/").split("/")
        for node in _walk(self._root, parts, 0):
            assert node.target is not None
            yield node.target, {name: parts[place] for place, name in self._names[node.template]}


def _walk(node: _Node[TargetT], parts: Sequence[str], place: int) -> Iterator[_Node[TargetT]]:
    """All ends below the node that fit the parts from this place on."""
    if place == len(parts):
        if node.target is not None:
            yield node
        return
    fixed = node.words.get(parts[place])
    if fixed is not None:
        yield from _walk(fixed, parts, place + 1)
    if node.any is not None and parts[place]:
        yield from _walk(node.any, parts, place + 1)
