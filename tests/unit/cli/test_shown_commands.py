"""The commands of `bcs` that the console shows beside its buttons, and those that other texts of the program name, are
commands that `bcs` takes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator

import click
import pytest

from bcs_scheduler.cli.main import bcs
from tests.sources import ROOMS, ROOT

PAGE = ROOT / "bcs_scheduler/console/page"
VALUE = "1"
"""Stands for each value of the page: it is accepted as a name and as a number."""
STEERING = re.compile(r'= control\("[^"]*", "[^"]*", "(\w+)"')
"""Operations of the dialogs that steer deployments (parts/steering.js)."""
NAME = re.compile(r", (\w+)(?=[,\]])")
"""A variable that is an element of an array."""
NAMED = re.compile(r"`(bcs(?: [^`]*)?)`")


def literal(text: str, begin: int) -> tuple[str, int]:
    """A literal of JavaScript that begins there, with values in place of expressions, and the index after it. An
    expression with literals of its own counts as the first that is not empty."""
    quote, at, found = text[begin], begin + 1, ""
    while text[at] != quote:
        if quote == "`" and text.startswith("${", at):
            end = closing(text, at + 2)
            inner = text[at + 2 : end]
            parts = [part for part in literals(inner) if part]
            found += "{verb}" if inner == "verb" else next(iter(parts), VALUE)
            at = end + 1
        else:
            found += text[at]
            at += 1
    return found, at + 1


def closing(text: str, at: int) -> int:
    """Index of the brace or bracket that closes the one before `at`."""
    depth = 1
    while True:
        if text[at] in "`\"'":
            _, at = literal(text, at)
            continue
        depth += (text[at] in "{[(") - (text[at] in "}])")
        if not depth:
            return at
        at += 1


def literals(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        if text[at] in "`\"'":
            found, at = literal(text, at)
            yield found
        else:
            at += 1


def of_page() -> Iterator[tuple[str, str]]:
    """File and command."""
    for file in sorted(PAGE.rglob("*.js")):
        text = re.sub(r"^\s*//.*$", "", file.read_text(), flags=re.MULTILINE)
        for match in re.finditer(r"""(\[)?["`](?=bcs [a-z$])""", text):
            begin = match.end() - 1
            if match[1]:  # an array: its elements are joined
                inside = text[begin : closing(text, begin)]
                values = [one for name in NAME.findall(inside) for one in re.findall(rf"const {name} = (.*);", text)]
                parts = [part for one in (inside, *values) for part in literals(one)]
                found = " ".join(part for part in parts if part.startswith(("bcs", "-")))
            else:
                found, _ = literal(text, begin)
            if found.endswith("."):
                continue  # a sentence
            for verb in STEERING.findall(text) if "{verb}" in found else ("",):
                for part in found.replace("{verb}", verb).split(" && "):
                    yield file.name, part


def of_texts() -> Iterator[tuple[str, str]]:
    """File and command in texts of the program, docstrings and help texts included."""
    for file in (file for room in ROOMS for file in sorted((ROOT / room).rglob("*.py"))):
        for found in NAMED.findall(re.sub(r'"\s*\n\s*f?"', "", file.read_text())):
            # Names that the program fills in are values. A text whose command or code is filled in is left out.
            if not re.search(r"\n|^bcs \{|\{\w*[.(]", found) and "COMMAND" not in found:
                yield file.name, found


def taken(command: str) -> None:
    """Parses a command as `bcs` does, without carrying it out. Raises click.UsageError."""
    words = shlex.split(re.sub(r"\{\w+\}", VALUE, command))[1:]
    group: click.Command = bcs
    ctx = click.Context(bcs, info_name="bcs")
    while isinstance(group, click.Group) and words and not words[0].startswith("-"):
        _, found, words = group.resolve_command(ctx, words)
        assert found is not None
        group, ctx = found, click.Context(found, parent=ctx, info_name=found.name)
    known = {flag for parameter in group.params for flag in (*parameter.opts, *parameter.secondary_opts)}
    before = words[: words.index("--")] if "--" in words else words
    given = [word.partition("=")[0] for word in before if re.match(r"--?[a-z]", word)]
    long = [word for word in given if word.startswith("--")]
    short = [f"-{letter}" for word in given if not word.startswith("--") for letter in word[1:]]  # -it is -i and -t
    unknown = [word for word in (*long, *short) if word not in known and word != "--help"]
    if unknown:
        raise click.NoSuchOption(unknown[0], ctx=ctx)


def wrong(commands: Iterable[tuple[str, str]]) -> list[str]:
    """The commands that `bcs` does not take, with their files."""
    found = []
    for file, command in commands:
        try:
            taken(command)
        except click.UsageError as error:
            found.append(f"{file}: {command}: {error.format_message()}")
    return found


def test_the_console_shows_commands_that_exist() -> None:
    commands = set(of_page())
    assert len(commands) >= 30
    assert commands >= {
        ("steering.js", "bcs rollout cancel deployment/1 1"),
        ("agent.js", "bcs drain --parallel 1 --timeout 1m --daemonsets"),
        ("taskgroups.js", "bcs reschedule 1 --host-retain 1s"),
        ("events.js", "bcs get events -w -n 1 -A --for 1/1 --level 1 --reason 1"),
        ("whatif.js", "bcs queue set 1 --partition 1 --capability 1=11"),
    }
    assert not wrong(commands)


def test_texts_name_commands_that_exist() -> None:
    commands = set(of_texts())
    assert len(commands) >= 100
    assert commands >= {
        ("habits.py", "bcs apply -f FILE"),
        ("habits.py", "bcs patch KIND/NAME -p 'metadata: {annotations: {KEY: VALUE}}'"),
        ("advice.py", "bcs rollout resume {name}"),
    }
    assert not wrong(commands)


@pytest.mark.parametrize(
    "command", ["bcs rollout undo-all deployment/web", "bcs scale web 1 --now", "bcs restarts web", "bcs logs web -x"]
)
def test_others_are_refused(command: str) -> None:
    assert wrong([("here", command)])
