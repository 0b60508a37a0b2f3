"""The help of every command: sentences, examples, the words of the field, and old names that are still accepted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import click
import pytest

from bcs_scheduler.cli.errors import EXIT_CODES
from bcs_scheduler.cli.main import COMMANDS, bcs
from tests.component.cli.standin import ACCEPTED, APPS, StandIn, application, ok

OLD_WORDS = (
    "desk", "story", "at once", "at-once", "enforce", "master", "slave", "keeper", "happening", "scribe", "pot",
    "purse", "lane", "tell", "tells", "told", "whoever", "whom", "nobody", "somebody", "undo", "under way", "standing",
    "blocker", "goes on", "go on", "go back", "goes back", "hand in", "forget", "take over", "likewise",
    "what is there",
)  # fmt: skip
"""Home-made words and colloquial phrases that once stood in help texts."""


def commands(group: click.Group = bcs, path: str = "bcs") -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(click.Context(group)):
        command = group.commands[name]
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")


ALL = {"bcs": bcs, **{path: command for path, command in commands() if not command.hidden}}


def help_of(path: str) -> str:
    return ALL[path].get_help(click.Context(ALL[path], info_name=path))


def sentence(text: str | None) -> bool:
    """A capital letter or a sign first, a full stop last."""
    return bool(text) and not str(text)[0].islower() and str(text).rstrip().endswith((".", "…"))


def test_every_command_of_the_table_is_loaded() -> None:
    assert len(ALL) > 40
    for section in COMMANDS.values():
        for name, entry in section.items():
            command = entry.load()
            assert command.name == name
            assert sentence(entry.help), name


@pytest.mark.parametrize("command", [(), ("get",), ("rollout",), ("rollout", "pause"), ("help",)])
def test_help_of_a_command_is_that_of_its_option(bcs: Any, command: tuple[str, ...]) -> None:
    wanted, found = bcs(*command, "--help"), bcs("help", *command)
    assert wanted.out.startswith(" ".join(("Usage: bcs", *command)))
    assert found == wanted


@pytest.mark.parametrize("command", [("nix",), ("rollout", "nix")])
def test_help_of_an_unknown_command_is_refused_by_its_name(bcs: Any, command: tuple[str, ...]) -> None:
    found = bcs("help", *command)
    assert (found.code, found.out) == (2, "")
    assert "No such command 'nix'" in found.err


@pytest.mark.parametrize("path", sorted(ALL))
def test_help_consists_of_sentences(path: str) -> None:
    command = ALL[path]
    assert all(sentence(part) for part in (command.help or "").split("\n\n")), command.help
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert sentence(parameter.help), f"{path} {parameter.opts}: {parameter.help!r}"


@pytest.mark.parametrize("path", sorted(ALL))
def test_help_uses_the_words_of_the_field(path: str) -> None:
    text = " ".join(help_of(path).lower().replace("mesos master", "").split())
    # The name of the command; elsewhere the word is still an old one.
    text = text.replace("bcs story", "").replace("story show the events", "")
    found = [word for word in OLD_WORDS if re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text)]
    assert not found, text


@pytest.mark.parametrize("path", sorted(path for path, command in ALL.items() if not isinstance(command, click.Group)))
def test_every_command_has_examples_that_can_be_parsed(path: str) -> None:
    _, _, block = (ALL[path].epilog or "").partition("Examples:\n")
    lines = [line.strip() for line in block.splitlines()]
    assert lines
    assert all(line in help_of(path) for line in lines), "examples must not be wrapped"
    for line in lines:
        for words in re.findall(rf"(?:^|[|(] *){re.escape(path)} ?([^|)#&\\]*)", line):
            arguments = [word.strip("'\"") for word in words.split()]
            known = {flag for parameter in ALL[path].params for flag in (*parameter.opts, *parameter.secondary_opts)}
            before = arguments[: arguments.index("--")] if "--" in arguments else arguments
            single = [f"-{letter}" for word in before if re.fullmatch(r"-[a-z]+", word) for letter in word[1:]]
            assert {*single, *(word for word in before if word.startswith("--"))} <= known, line


def test_the_overview_has_sections_and_exit_codes() -> None:
    text = help_of("bcs")
    assert [title for title in COMMANDS if f"\n{title}:\n" in text] == list(COMMANDS)
    codes = ", ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES.items())
    assert f"Exit codes: {codes}." in " ".join(text.split())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (("rollback", "web", "--to-revision", "3"), ("rollback", "web", "--to", "3")),
        (("rollout", "restart", "web"), ("rollout", "replace", "web")),
    ],
    ids=lambda words: " ".join(words[:3]),
)
def test_names_of_kubectl_are_accepted_and_hidden(old: tuple[str, ...], new: tuple[str, ...]) -> None:
    parsed = []
    for words in (old, new):
        command: click.Command = bcs
        rest = list(words)
        while isinstance(command, click.Group):
            command = command.commands[rest.pop(0)]
        parsed.append(command.make_context("bcs", rest).params)
    assert parsed[0] == parsed[1]
    name = next(word for word in old if word not in new)
    assert f"bcs {' '.join(old[: old.index(name) + 1])}" not in ALL
    assert name not in {flag for command in ALL.values() for parameter in command.params for flag in parameter.opts}


@pytest.mark.parametrize(
    ("words", "suggested"),
    [
        (("aply", "-f", "x"), "apply"),
        (("get", "deploymnts"), "deployments"),
        (("scale", "web", "3", "--wiat"), "--wait"),
    ],
)
def test_a_misspelt_word_is_answered_with_the_nearest_one(bcs: Any, words: tuple[str, ...], suggested: str) -> None:
    result = bcs(*words)
    assert result.code == 2
    assert suggested in result.err


def test_names_alone_are_printed_for_scripts(server: StandIn, bcs: Any) -> None:
    server.on("GET", APPS, ok([application(), application("shop")]))
    assert bcs("get", "app", "-o", "name").out == "application/shop\napplication/web\n"
    server.on("PUT", f"{APPS}/web/scale/3", ok(ACCEPTED))
    server.on("GET", f"{APPS}/web", ok(application()))
    assert bcs("scale", "application/web", "3", "-o", "name").out == "application/web\n"


def test_agents_are_named_by_host(server: StandIn, bcs: Any) -> None:
    """Several agents of an embedded cluster have the same address."""
    server.on("GET", "/agents", ok([{"hostname": f"agent-{n}", "ip": "127.0.0.1", "id": str(n)} for n in (1, 2)]))
    assert bcs("get", "agents", "-o", "name").out == "agent/agent-1\nagent/agent-2\n"


def test_connection_options_are_shown_once(bcs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = bcs("--help").out
    assert "\nConnection options, for all commands:\n" in text
    for flag in ("--server", "--namespace", "--context", "--token-file", "--timeout"):
        assert text.count(f" {flag} ") == 1, flag
        assert f"  {flag} " not in bcs("get", "--help").out
    assert "\n  Examples:\n" in text


def test_descriptions_of_subcommands_are_whole_at_80_columns(bcs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for words in ((), ("rollout",), ("create",), ("config",), ("set",)):
        text = bcs(*words, "--help").out
        assert "..." not in text.partition("Commands:")[2] and max(map(len, text.splitlines())) <= 80
    assert "Replace all taskgroups in steps, with the same definition." in bcs("rollout", "--help").out
