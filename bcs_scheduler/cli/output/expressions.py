"""Evaluates the expressions and templates of -o.

Expressions are those of JSONPath (library jsonpath-ng). The notation of kubectl is accepted too: ``.metadata.name``,
``{.items[*].Name}`` and ``{range .items[*]}{.Name}{"\\n"}{end}``.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from bcs_scheduler.cli.errors import UsageError
from bcs_scheduler.cli.output.tables import Column

_ESCAPED = re.compile(r"((?:[^.\[\]\\'\"{}()@?*$]|\\.)+)")
_SEGMENT = re.compile(r"""\{((?:[^{}'"]|'[^']*'|"(?:[^"\\]|\\.)*")*)\}""")


def compiled(expression: str) -> Callable[[Any], list[Any]]:
    """A function that returns all values that an expression finds. Raises UsageError for a wrong expression."""
    from jsonpath_ng.exceptions import JSONPathError
    from jsonpath_ng.ext.parser import parse

    try:
        path = parse(_standard(expression))
    except (JSONPathError, AttributeError, ValueError) as error:  # the lexer of the library raises all of them
        raise UsageError(f"{expression!r} is not a JSONPath expression: {error}") from None

    def find(data: Any) -> list[Any]:
        # kubectl's lists are objects with `items`; ours are arrays.
        listed = {"items": data} if isinstance(data, list) and re.match(r"\$\.items\b", _standard(expression)) else data
        return [match.value for match in path.find(listed)]

    return find


def _standard(expression: str) -> str:
    """An expression in the notation of the library: it begins with ``$``, and names with dots are quoted."""
    path = expression.strip()
    if path.startswith("{") and path.endswith("}"):
        path = path[1:-1].strip()
    if path == "@":
        return "$"
    path = _ESCAPED.sub(lambda found: _unescaped(found[1]) if "\\" in found[1] else found[1], path)
    if path.startswith("$"):
        return path
    return f"${path}" if path.startswith((".", "[")) else f"$.{path}"


def _unescaped(name: str) -> str:
    return "'" + re.sub(r"\\(.)", r"\1", name) + "'"


def custom_columns(argument: str) -> Sequence[Column]:
    """Columns from ``TITLE:PATH,TITLE:PATH``. Raises UsageError."""
    made = []
    for part in re.split(r",(?=[^,:]+:)", argument):
        title, colon, path = part.partition(":")
        if not title or not colon or not path:
            raise UsageError(f"-o custom-columns takes TITLE:PATH,…, not {part!r}")
        made.append(Column(title, _joined(compiled(path))))
    return made


def _joined(find: Callable[[Any], list[Any]]) -> Callable[[Any], str]:
    return lambda item: ",".join(map(plain, find(item))) or "<none>"


def by_path(argument: str, data: Any) -> str:
    """The text that -o jsonpath prints. Raises UsageError."""
    if "{" not in argument:
        return " ".join(map(plain, compiled(argument)(data)))
    return "".join(_filled(_segments(argument), data))


def _segments(argument: str) -> list[tuple[str, str]]:
    """(kind, text) of the parts of a kubectl template; kind is text, path, range or end. Raises UsageError."""
    found, position = [], 0
    for match in _SEGMENT.finditer(argument):
        found.append(("text", argument[position : match.start()]))
        inner, position = match[1].strip(), match.end()
        if inner[:1] in ("'", '"'):
            try:
                found.append(("text", str(ast.literal_eval(inner))))
            except (SyntaxError, ValueError):
                raise UsageError(f"{inner} is not a text in quotes") from None
        elif inner == "end":
            found.append(("end", ""))
        elif inner.startswith("range "):
            found.append(("range", inner.removeprefix("range ")))
        else:
            found.append(("path", inner))
    found.append(("text", argument[position:]))
    if "{" in found[-1][1] or "}" in found[-1][1]:
        raise UsageError(f"the braces of {argument!r} do not match")
    return found


def _filled(segments: list[tuple[str, str]], data: Any) -> Iterator[str]:
    position = 0
    while position < len(segments):
        kind, text = segments[position]
        position += 1
        if kind == "text":
            yield text
        elif kind == "path":
            yield " ".join(map(plain, compiled(text)(data)))
        elif kind == "end":
            raise UsageError("{end} without {range}")
        else:
            end = _end_of_range(segments, position)
            for item in compiled(text)(data):
                yield from _filled(segments[position:end], item)
            position = end + 1


def _end_of_range(segments: list[tuple[str, str]], begin: int) -> int:
    depth = 1
    for position in range(begin, len(segments)):
        depth += {"range": 1, "end": -1}.get(segments[position][0], 0)
        if depth == 0:
            return position
    raise UsageError("{range} without {end}")


def by_template(argument: str, data: Any) -> str:
    """The text of a Jinja template. It gets `items` (always a list), and `item` (the object, or else the first one)."""
    import jinja2
    from jinja2.sandbox import SandboxedEnvironment

    items = data if isinstance(data, list) else [data]
    try:
        template = SandboxedEnvironment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True).from_string(
            re.sub(r"\\n", "\n", argument)
        )
        return template.render(items=items, item=items[0] if items else {})
    except jinja2.TemplateError as error:
        raise UsageError(f"the template failed: {error}") from None


def plain(value: Any) -> str:
    """A value as text: texts as they are, the others as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)
