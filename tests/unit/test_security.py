"""Tokens, limits, the audit log and watched files, each by itself."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcs_scheduler.security.audit import Audit
from bcs_scheduler.security.caller import Caller
from bcs_scheduler.security.rates import Rates, network_of
from bcs_scheduler.security.tokens import (
    BITS,
    PREFIX,
    Denied,
    hash_of,
    new_token,
    parse_tokens,
    read_tokens,
    token_entry,
)
from bcs_scheduler.security.watched import LOOK_EVERY, Broken, WatchedFiles

HASH = "sha256:" + "0" * 64


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


# --- tokens -----------------------------------------------------------------------------------------------------


def test_a_new_token_is_random_and_known_by_its_entry() -> None:
    made = {new_token() for _ in range(100)}
    assert len(made) == 100 and all(token.startswith(PREFIX) for token in made)
    assert all(len(token) - len(PREFIX) >= BITS / 6 for token in made)
    token = made.pop()
    text = token_entry("ci", hash_of(token), "operator", ["shop", "shop-test"])
    assert token not in text
    found = parse_tokens("t", text).by_token(token, 0.0)
    assert found == Caller("ci", "token", "operator", frozenset({"shop", "shop-test"}))
    everything = parse_tokens("t", token_entry("root", hash_of(token), "admin", ["*"])).by_token(token, 0.0)
    assert everything.everywhere and everything.sees("any") and everything.sees("")


def test_roles_contain_each_other_and_namespaces_do_not() -> None:
    operator = Caller("o", "token", "operator", frozenset({"a"}))
    assert operator.has("viewer") and operator.has("operator") and not operator.has("admin")
    assert operator.sees("a") and not operator.sees("b") and not operator.sees("") and not operator.sees("A")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[token]", "not a TOML file"),
        ("", "there is no entry, so no client would have any right"),
        ("# [[token]]\n", "there is no entry"),
        ("token = []", "there is no entry"),
        ("[token]\nname = 'a'", "entries are written [[token]]"),
        ("tokens = 1", "tokens: entries are written [[token]]"),
        ("token = [1]", "token 1: entries are written"),
        ("[[token]]\nrole = 'viewer'", "token 1: name must be"),
        ("[[token]]\nname = 'a\\nb'", "token 1: name must be"),
        ("[[token]]\nname = 'a'\nrole = 'root'", "token 1 (a): role must be one of viewer, operator, admin"),
        ("[[token]]\nname = 'a'\nrole = 'viewer'\nnamespaces = '*'", "give either hash or certificate"),
        (f"[[token]]\nname = 'a'\nrole = 'viewer'\nhash = '{HASH}'\ncertificate = 'x'", "give either hash"),
        ("[[token]]\nname = 'a'\nrole = 'viewer'\nhash = 'bcs_in-clear'", "hash must be sha256:"),
        (f"[[token]]\nname = 'a'\nrole = 'viewer'\nhash = '{HASH}'", "namespaces must be"),
        (f"[[token]]\nname = 'a'\nrole = 'viewer'\nhash = '{HASH}'\nnamespaces = []", "namespaces must be"),
        (f"[[token]]\nname = 'a'\nrole = 'viewer'\nhash = '{HASH}'\nnamespaces = ['*']", 'write namespaces = "*"'),
        (f"[[token]]\nname = 'a'\nrole = 'viewer'\nhash = '{HASH}'\nnamespaces = 'shop'", "namespaces must be"),
        (f"[[token]]\nname = 'a'\nrole = 'viewer'\nhash = '{HASH}'\nnamespaces = '*'\nexpire = 1", "expire is unknown"),
        *(
            (
                f"[[token]]\nname = 'a'\nrole = 'viewer'\nhash = '{HASH}'\nnamespaces = '*'\nprograms = {programs}",
                "(a): programs must be true, false, or a list of exec, attach, portforward, copy",
            )
            for programs in ("1", "'exec'", "['exec', 'cp']", "[1]")
        ),
        (
            f"[[token]]\nname = 'a'\nrole = 'viewer'\nhash = '{HASH}'\nnamespaces = '*'\nexpires = 2030-01-01T00:00:00",
            "a time with its zone",
        ),
        (
            2 * f"[[token]]\nname = 'a'\nrole = 'viewer'\nhash = '{HASH}'\nnamespaces = '*'\n",
            "two tokens have the same name a",
        ),
    ],
)
def test_a_broken_file_says_where_and_why(text: str, words: str) -> None:
    with pytest.raises(Broken) as broken:
        parse_tokens("conf/t", text)
    assert words in str(broken.value) and str(broken.value).startswith("conf/t") and "\n" not in str(broken.value)
    assert "in-clear" not in str(broken.value)


def test_the_shipped_example_is_a_good_file_without_its_comment_marks() -> None:
    path = Path(__file__).parents[2] / "conf/tokens.toml"
    with pytest.raises(Broken, match="there is no entry"):
        read_tokens(path)
    lines = path.read_text().split("#\n# [[token]]", 1)[1].splitlines()
    text = "[[token]]" + "\n".join(line.removeprefix("# ") for line in lines if " = " in line or "[[" in line)
    text = text.replace("[[token]]name", "[[token]]\nname")
    assert [entry.name for entry in parse_tokens("example", text).entries] == ["ci", "prometheus", "ops"]


def test_certificates_are_known_by_their_whole_common_name() -> None:
    text = "[[token]]\nname = 'ops'\ncertificate = 'ops.example.org'\nrole = 'admin'\nnamespaces = '*'"
    tokens = parse_tokens("t", text)
    assert tokens.by_certificate("ops.example.org", 0.0).means == "certificate"
    for other in ("", "ops", "OPS.example.org", "ops.example.org "):
        with pytest.raises(Denied):
            tokens.by_certificate(other, 0.0)
    with pytest.raises(Denied):
        tokens.by_token("", 0.0)  # an entry without a hash belongs to no token


# --- limits -----------------------------------------------------------------------------------------------------


def test_a_bucket_gives_its_burst_and_then_its_rate() -> None:
    clock = Clock()
    rates = Rates(2.0, 5, clock=clock)
    assert [rates.take("a") for _ in range(6)] == [0, 0, 0, 0, 0, 0.5]
    assert rates.take("b") == 0.0
    clock.now += 0.5
    assert rates.take("a") == 0.0 and rates.take("a") > 0.0
    clock.now += 1000.0
    assert [bool(rates.take("a")) for _ in range(6)] == [False] * 5 + [True]


def test_no_rate_is_no_limit_and_takes_no_memory() -> None:
    rates = Rates(0.0, 1)
    assert not any(rates.take(str(n)) for n in range(1000)) and len(rates) == 0


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(0, 3)), max_size=60))
def test_never_more_than_burst_and_rate_allow(steps: list[tuple[int, float]]) -> None:
    clock, given_out = Clock(), 0
    rates = Rates(1.0, 3, clock=clock)
    for asked, pause in steps:
        clock.now += pause
        given_out += sum(not rates.take("k") for _ in range(asked))
    assert given_out <= 3 + (clock.now - 1000.0) + 1e-6


def test_memory_is_bounded_whoever_asks() -> None:
    rates = Rates(1.0, 1, most=100)
    for number in range(10_000):
        rates.take(f"key {number}")
    assert len(rates) == 100


def test_one_host_is_one_client_whatever_addresses_it_has() -> None:
    assert network_of("10.0.0.7") == "10.0.0.7" == network_of("::ffff:10.0.0.7")
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff:1") != network_of("2001:db8:0:1::1")
    assert network_of("unix") == "unix"


# --- the audit log ----------------------------------------------------------------------------------------------


def test_lines_survive_a_rotation(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    audit = Audit(path)
    audit.record({"path": "/a\n{", "n": 1})
    path.rename(tmp_path / "audit.1")
    audit.record({"path": "/b" * 5000, "n": 2})
    audit.reopen()
    audit.record({"n": 3})
    audit.close()
    assert [json.loads(line)["n"] for line in path.read_text().splitlines()] == [2, 3]
    assert json.loads((tmp_path / "audit.1").read_text())["path"] == "/a\n{"
    assert len(json.loads(path.read_text().splitlines()[0])["path"]) == 1024


def test_what_cannot_be_written_is_counted_and_holds_up_nobody(tmp_path: Path) -> None:
    lost: list[int] = []
    audit = Audit(tmp_path / "audit", lambda: lost.append(1))
    (tmp_path / "audit").unlink()
    (tmp_path / "audit").mkdir()
    audit.record({"n": 1})
    assert lost == [1] and "directory" in audit.problem.lower()
    (tmp_path / "audit").rmdir()
    audit.record({"n": 2})
    assert lost == [1] and not audit.problem
    with pytest.raises(OSError):
        Audit(tmp_path / "no" / "folder")


# --- watched files ----------------------------------------------------------------------------------------------


def test_files_are_looked_at_once_in_a_while_and_read_when_they_change(tmp_path: Path) -> None:
    path, clock = tmp_path / "f", Clock()
    reads: list[str] = []
    failures: list[Any] = []
    path.write_text("one")

    def read() -> str:
        reads.append(path.read_text())
        if reads[-1] == "bad":
            raise Broken("it is bad")
        return reads[-1]

    files = WatchedFiles("the file", [path], read, failures.append, clock)
    path.write_text("two")
    assert files.current() == "one"
    clock.now += LOOK_EVERY
    assert files.current() == "two" and files.current() == "two"
    path.write_text("bad")
    for _ in range(3):
        clock.now += LOOK_EVERY
        assert files.current() == "two"
    assert (files.problem, failures) == ("it is bad", ["the file"])
    assert reads == ["one", "two", "bad"]
    other = tmp_path / "g"
    other.write_text("one")  # as those who replace files at a stroke do it
    os.replace(other, path)
    files.refresh()
    assert files.current() == "one" and not files.problem
