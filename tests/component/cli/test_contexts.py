"""Contexts: which server, namespace and credentials a command uses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.cli.main import run
from tests.component.cli.standin import StandIn, application, ok


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "conf" / "config.toml"
    for name in ("BCS_SERVER", "BCS_NAMESPACE", "BCS_TOKEN", "BCS_TOKEN_FILE", "BCS_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("BCS_CONFIG", str(path))
    return path


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], config: Path) -> Callable[..., tuple[int, str, str]]:
    def made(*words: str) -> tuple[int, str, str]:
        code = run(words)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return made


def test_a_context_gives_server_namespace_and_token(
    server: StandIn, call: Any, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    token.write_text("geheim\n")
    server.on("GET", "/namespaces/shop/applications", ok([application()]))
    server.on("GET", "/namespaces/bank/applications", ok([application("vault")]))
    set_words = ("config", "set-context", "one", "--server", server.url, "-n", "shop", "--token-file", str(token))
    assert call(*set_words)[0] == 0
    assert call("get", "app", "-o", "name") == (0, "application/web\n", "")
    assert server.seen[-1].token == "Bearer geheim"
    assert call("get", "app", "-n", "bank", "-o", "name")[1] == "application/vault\n"
    monkeypatch.setenv("BCS_NAMESPACE", "bank")
    assert call("get", "app", "-o", "name")[1] == "application/vault\n"
    # The token of a context is for its server alone.
    monkeypatch.setenv("BCS_SERVER", server.url + "/")
    call("get", "app")
    assert server.seen[-1].token == ""


def test_contexts_are_listed_chosen_and_deleted(call: Any, config: Path) -> None:
    config.parent.mkdir()
    config.write_text('# mine\ncurrent-context = "a"\n[contexts.a]\nserver = "http://a:1"  # first\n')
    assert call("config", "set-context", "b", "--server", "http://b:1")[0] == 0
    assert "# mine" in config.read_text() and "# first" in config.read_text()
    assert call("config", "current-context")[1] == "a\n"
    assert call("config", "use-context", "b")[0] == 0
    lines = call("config", "get-contexts")[1].splitlines()
    assert [line.split() for line in lines[1:]] == [["a", "http://a:1", "-"], ["*", "b", "http://b:1", "-"]]
    assert call("config", "delete-context", "b")[0] == 0
    assert call("config", "current-context")[0] == 3
    assert call("config", "get-contexts", "-o", "name")[1] == "a\n"
    assert call("config", "use-context", "b")[0] == call("config", "delete-context", "b")[0] == 3
    assert call("config", "view")[1] == config.read_text()
    assert call("config", "set-context", "c")[0] == 2


def test_the_current_context_is_changed(
    server: StandIn, call: Any, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = call("config", "set-context", "--current", "--namespace=first")
    assert made == (0, "context/default set\n", "") and call("config", "current-context")[1] == "default\n"
    call("config", "set-context", "--current", "--server", server.url, "-n", "shop")
    assert call("config", "delete-context", "default")[0] == 0
    for name in ("a", "b"):
        assert call("config", "set-context", name, "--server", server.url)[0] == 0
    text = config.read_text()
    config.write_text(text.replace("current-context", "# current-context"))
    missing = call("config", "set-context", "--current", "--namespace=shop")
    assert missing[0] == 3 and "`bcs config use-context a` chooses one" in missing[2]
    config.write_text(text)
    assert call("config", "set-context", "--current", "--namespace=shop") == (0, "context/a set\n", "")
    server.on("GET", "/namespaces/shop/applications", ok([application()]))
    assert call("get", "app", "-o", "name")[1] == "application/web\n"
    assert call("config", "set-context", "--current", "-n", "bank", "--context", "b")[1] == "context/b set\n"
    monkeypatch.setenv("BCS_CONTEXT", "b")
    assert call("config", "set-context", "--current", "-n", "depot")[1] == "context/b set\n"
    namespaces = [line.split()[-1] for line in call("config", "get-contexts", "--no-headers")[1].splitlines()]
    assert namespaces == ["shop", "depot"]
    monkeypatch.setenv("BCS_CONTEXT", "none")
    assert call("config", "set-context", "--current", "-n", "x")[0] == 3
    for wrong in (("--current", "a", "-n", "x"), ("-n", "x"), ("--current",)):
        assert call("config", "set-context", *wrong)[0] in (2, 3)
    assert "none" not in config.read_text()


def test_a_wrong_file_is_explained(call: Any, config: Path) -> None:
    config.parent.mkdir()
    for content, part in (
        ("contexts = 3", "contexts: is not a table"),
        ("[contexts.a]\ntoken = 'x'", "contexts.a.token: known fields are texts"),
        ("[contexts", "not TOML"),
    ):
        config.write_text(content)
        code, _, error = call("get", "app")
        assert code == 2 and part in " ".join(error.split()), content
    config.write_text('[contexts.a]\nserver = "http://a"\n')
    code, _, error = call("get", "app", "--context", "b")
    assert code == 2 and "there is no context 'b'" in error and "known: a" in error


def test_without_a_file_the_defaults_hold(call: Any, config: Path) -> None:
    assert call("config", "current-context")[0] == 3
    assert "no contexts" in call("config", "get-contexts")[2]
    assert not config.exists()


def test_the_version_is_an_option_too(call: Any) -> None:
    code, out, _ = call("--version")
    assert code == 0 and out.startswith("bcs ")
