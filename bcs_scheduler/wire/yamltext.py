"""YAML texts as plain data with the types of JSON, and back. Texts that readers could take differently are refused.

Refused are a key that is given twice in one mapping, a value that contains itself, aliases that stand for more than
`MOST_VALUES` values, tags without a counterpart in JSON, and texts that are nested too deeply. A time stamp remains
text.
"""

from __future__ import annotations

from typing import Any

import yaml

from bcs_scheduler.wire import depth

MOST_VALUES = 1_000_000
"""Values of one text, those of aliases counted each time. A few lines of aliases can stand for billions."""
_LEVELS = depth.DEEPEST + depth.LISTS
_FOREIGN = ("binary", "set", "omap", "pairs", "timestamp")


class BadYaml(ValueError):
    """The text is refused. The message begins with line and column where they are known."""


def documents_of(text: str) -> list[Any]:
    """The documents of a text; None for an empty one. Raises BadYaml."""
    try:
        found = list(yaml.load_all(text, Loader=_Loader))
    except yaml.YAMLError as error:
        raise BadYaml(_reason(error)) from None
    except RecursionError:
        raise BadYaml(depth.words(_LEVELS)) from None
    except ValueError as error:  # an integer of more than 4300 digits, for example
        raise BadYaml(str(error)[:200]) from None
    for document in found:  # aliases are deeper than the text
        path = depth.too_deep(document, _LEVELS)
        if path:
            raise BadYaml(f"{depth.words(_LEVELS)}: {path}")
    return found


def text_of(data: Any, *, sort_keys: bool = False) -> str:
    """Plain data as YAML, without anchors: a value that occurs twice is written twice."""
    text: str = yaml.dump(data, Dumper=_Dumper, sort_keys=sort_keys, allow_unicode=True)
    return text


def document_of(text: str) -> Any:
    """The only document of a text; None if the text is empty. Raises BadYaml."""
    found = documents_of(text)
    if len(found) > 1:
        raise BadYaml(f"holds {len(found)} documents in place of one")
    return found[0] if found else None


def _reason(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
    return place + str(getattr(error, "problem", None) or error).replace("\n", " ")


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


class _Loader(yaml.SafeLoader):
    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self._values = 0
        self._sizes: dict[str, int] = {}
        """Values below each anchor."""
        self._open: set[str] = set()
        """Anchors of the mappings and lists around the present place."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        anchor = getattr(event, "anchor", None)
        is_alias = isinstance(event, yaml.AliasEvent)
        if is_alias and anchor in self._open:
            raise yaml.composer.ComposerError(None, None, f"the value &{anchor} contains itself", event.start_mark)
        before = self._values
        self._values += self._sizes.get(str(anchor), 1) if is_alias else 1
        if self._values > MOST_VALUES:
            words = f"the aliases stand for more than {MOST_VALUES} values"
            raise yaml.composer.ComposerError(None, None, words, event.start_mark)
        if is_alias or anchor is None:
            return super().compose_node(parent, index)
        self._open.add(anchor)
        node = super().compose_node(parent, index)
        self._open.discard(anchor)
        self._sizes[anchor] = self._values - before
        return node

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if (key.tag, key.value) in seen:
                words = f"the key {key.value[:80]!r} is given twice"
                raise yaml.composer.ComposerError(None, None, words, key.start_mark)
            seen.add((key.tag, key.value))
        return node


def _refuse(loader: Any, node: Any) -> Any:
    raise yaml.constructor.ConstructorError(None, None, f"documents have no values of {node.tag}", node.start_mark)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _name in _FOREIGN:
    _Loader.add_constructor(f"tag:yaml.org,2002:{_name}", _refuse)
