"""Completion of names, and the names that commands take: short names of transactions, unique names of agents."""

from __future__ import annotations

from typing import Any

import pytest
from click.shell_completion import ShellComplete

from bcs_scheduler.cli.client.lookup import SHORTEST, short_names
from bcs_scheduler.cli.main import bcs as program
from tests.component.cli.standin import ACCEPTED, StandIn, application, failed, ok, taskgroup, transaction

FIRST, SECOND = "application-1764000000123456789", "application-1764000007773456789"
DEPLOYMENTS, DAEMONSETS = "/namespaces/defaultGroup/deployments", "/namespaces/defaultGroup/daemonsets"
TRANSACTIONS = "/transactions/defaultGroup"
AGENTS = [
    {"hostname": "agent-1", "ip": "127.0.0.1", "id": "S1", "key": "agent-1"},
    {"hostname": "agent-2", "ip": "127.0.0.1", "id": "S2", "key": "agent-2"},
]


def complete(*words: str) -> list[str]:
    """The values, or the type of those that the shell completes itself."""
    *given, incomplete = words
    found = ShellComplete(program, {}, "bcs", "_BCS_COMPLETE").get_completions(given, incomplete)
    return [item.value if item.type == "plain" else item.type for item in found]


@pytest.fixture
def transactions(server: StandIn, bcs: Any) -> list[dict[str, Any]]:
    found = [transaction(transactionID=identity) for identity in (FIRST, SECOND)]
    server.on("GET", TRANSACTIONS, ok(found))
    server.on("GET", "/transactions", ok(found))
    for one in found:
        server.on("GET", f"{TRANSACTIONS}/{one['transactionID']}", ok(one))
        server.on("DELETE", f"{TRANSACTIONS}/{one['transactionID']}", ok(ACCEPTED))
    return found


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("help", "roll"), ["rollout", "rollback"]),
        (("help", "rollout", "pa"), ["pause"]),
        (("help", "rollout", "un"), []),  # undo is an old name
        (("help", "en"), ["env"]),  # so is enable
        (("help", "get", ""), []),
        (("help", "nix", ""), []),
    ],
)
def test_help_is_completed_with_commands(words: tuple[str, ...], found: list[str]) -> None:
    assert complete(*words) == found


def test_short_names_are_the_shortest_ends_that_are_unique() -> None:
    assert short_names([FIRST, SECOND]) == ["23456789", "73456789"]
    assert short_names(["application-1764000000123456789"]) == ["456789"]
    assert len(short_names([FIRST, FIRST])[0]) == SHORTEST


def test_short_names_of_many_transactions_take_time_for_each_of_them() -> None:
    identities = [f"application-17640000{number:011d}" for number in range(20_000)]
    names = short_names(identities)
    assert len(set(names)) == len(names) and max(map(len, names)) == SHORTEST


def test_a_list_of_transactions_fits_the_terminal(transactions: list[dict[str, Any]], bcs: Any) -> None:
    lines = bcs("get", "tx", "-o", "table").out.splitlines()
    assert [line.split()[0] for line in lines] == ["NAME", "23456789", "73456789"]
    assert FIRST not in "".join(lines)
    wide = bcs("get", "tx", "-o", "wide").out.splitlines()
    assert wide[0].split()[-1] == "ID" and wide[1].endswith(FIRST) and wide[1].startswith("23456789")
    assert bcs("get", "tx", "-o", "name").out == f"transaction/{FIRST}\ntransaction/{SECOND}\n"
    assert bcs("get", "tx", SECOND, "-o", "table").out.splitlines()[1].startswith("456789 ")


def test_contexts_are_completed_after_the_option(bcs: Any) -> None:
    for name in ("prod", "proving", "test"):
        bcs("config", "set-context", name, "--server", "http://127.0.0.1:1")
    assert complete("--context", "pro") == ["prod", "proving"]
    assert complete("get", "app", "--context", "") == ["prod", "proving", "test"]


@pytest.mark.parametrize("words", [("cancel",), ("get", "tx"), ("describe", "transaction"), ("wait", "web", "--for")])
def test_transactions_are_completed_by_their_short_names(
    transactions: list[dict[str, Any]], words: tuple[str, ...]
) -> None:
    offered = complete(*words, "")
    assert [name for name in offered if name.isdigit()] == ["23456789", "73456789"]
    assert complete(*words, "application-17640000001") == [FIRST]
    assert complete(*words, "7") == ["73456789"]


def test_a_transaction_is_found_by_its_short_name(
    server: StandIn, bcs: Any, transactions: list[dict[str, Any]]
) -> None:
    assert bcs("cancel", "73456789", "-o", "text").out == f"transaction/{SECOND[-6:]} cancelled\n"
    assert bcs("get", "tx", "23456789", "-o", "name").out == f"transaction/{FIRST}\n"
    result = bcs("cancel", "456789")
    assert result.code == 2 and FIRST in result.err and SECOND in result.err
    server.on("GET", f"{TRANSACTIONS}/999999", failed(404, "transaction 999999 does not exist", "not_found"))
    assert bcs("cancel", "999999").code == 3
    assert [request.path for request in server.requests("DELETE")] == [f"{TRANSACTIONS}/{SECOND}"]


def test_names_of_a_kind_are_those_of_its_objects(server: StandIn, bcs: Any) -> None:
    server.on("GET", "/namespaces/defaultGroup/applications", ok([application("web")]))
    server.on("GET", DEPLOYMENTS, ok([{"name": "front"}]))
    server.on("GET", DAEMONSETS, ok([{"Name": "logger"}]))
    server.on("GET", "/taskgroups", ok([taskgroup()]))
    server.on("GET", "/namespaces/defaultGroup/configmaps", ok([{"metadata": {"name": "motd"}}]))
    assert complete("get", "deploy", "") == complete("describe", "deployment", "") == ["front"]
    assert complete("get", "ds", "") == ["logger"]
    assert complete("get", "deploy/") == complete("scale", "deploy/") == ["deploy/front"]
    assert complete("scale", "") == ["front", "web"]
    assert complete("delete", "cm", "") == ["motd"]
    assert complete("delete", "deploy", "") == ["front"]
    assert "configmap" in complete("delete", "c")
    assert complete("reschedule", "web") == ["web-0"]


@pytest.mark.parametrize(
    "words",
    [
        ("apply", "-f"),
        ("update", "-f"),
        ("diff", "-f"),
        ("delete", "-f"),
        ("patch", "app/web", "--patch-file"),
        ("create", "configmap", "motd", "--from-file"),
        ("create", "secret", "motd", "--from-env-file"),
        ("cp",),
    ],
)
def test_files_are_completed_by_the_shell(server: StandIn, bcs: Any, words: tuple[str, ...]) -> None:
    server.on("GET", "/taskgroups", ok([taskgroup()]))
    assert complete(*words, "con")[0] == "file"


@pytest.mark.parametrize(
    "words",
    [
        ("cordon", "127.0.0.1"),
        ("uncordon", "127.0.0.1"),
        ("drain", "127.0.0.1"),
        ("taint", "127.0.0.1", "a=b"),
        ("set", "agent", "127.0.0.1", "--attribute", "a=b"),
        ("get", "agents", "127.0.0.1"),
        ("get", "offers", "127.0.0.1"),
        ("describe", "agent", "127.0.0.1"),
    ],
)
def test_a_name_of_several_agents_is_refused_with_the_candidates(
    server: StandIn, bcs: Any, words: tuple[str, ...]
) -> None:
    server.on("GET", "/agents", ok(AGENTS))
    server.on("GET", "/cluster/current/offers", ok([]))
    result = bcs(*words)
    assert result.code == 2
    assert "127.0.0.1 is the name of 2 agents: give one of agent-1, agent-2" in result.err
    assert {request.method for request in server.seen} == {"GET"}
