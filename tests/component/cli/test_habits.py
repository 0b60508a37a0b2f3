"""Command lines that users know from kubectl, docker and nomad."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.cli.client.kinds import ALIASES
from bcs_scheduler.cli.client.kinds import KINDS as OWN_KINDS
from bcs_scheduler.cli.habits import INSTEAD, KINDS, RUN, rewritten
from bcs_scheduler.cli.main import COMMANDS
from tests.component.cli.standin import ACCEPTED, APPS, Answer, StandIn, application, ok, taskgroup, write


@pytest.fixture(autouse=True)
def tables(bcs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BCS_OUTPUT", raising=False)


@pytest.mark.parametrize(
    "words",
    [
        ("scale", "app/web", "3"),
        ("scale", "app", "web", "3"),
        ("scale", "app/web", "--replicas=3"),
        ("scale", "--replicas=3", "application", "web"),
    ],
)
def test_the_name_may_be_two_words_and_the_number_an_option(server: StandIn, bcs: Any, words: tuple[str, ...]) -> None:
    server.on("PUT", f"{APPS}/web/scale/3", ok(ACCEPTED))
    server.on("GET", f"{APPS}/web", ok(application()))
    assert bcs(*words).out.startswith("application/web scaled to 3")


def test_what_is_no_name_is_refused(bcs: Any) -> None:
    for words in (
        ("scale", "app/web"),
        ("scale", "web", "many"),
        ("rollout", "status", "a", "b"),
        ("explain", "a", "b"),
    ):
        assert bcs(*words).code == 2, words


def test_dry_run_takes_the_values_of_kubectl() -> None:
    assert rewritten(["apply", "--dry-run=client", "-f", "x"]) == ["apply", "--dry-run", "-f", "x"]
    assert rewritten(["apply", "--dry-run=server", "--dry-run=none"]) == ["apply", "--dry-run"]
    assert rewritten(["exec", "web-0", "--", "x", "--dry-run=none"]) == ["exec", "web-0", "--", "x", "--dry-run=none"]


def test_commands_of_others_are_answered_with_the_way_here(bcs: Any) -> None:
    known = {name for section in COMMANDS.values() for name in section}
    assert not known & set(INSTEAD)
    for word, way in INSTEAD.items():
        result = bcs(*word.split(), "x")
        assert result.code == 2 and way.split("`")[0] in result.err.replace("\n", " "), word
    assert "bcs reschedule web-1" in bcs("delete", "pod", "web-1").err
    assert "bcs reschedule web-1" in bcs("delete", "pod/web-1").err
    assert "kubectl kustomize folder | bcs apply -f -" in bcs("apply", "-k", "folder").err


WORDS = sorted(word for words in KINDS for word in words)


@pytest.mark.parametrize("word", ["jobs", "cronjobs", "hpa", "ingress", "rs", "sts", "pvc", "roles", "crd"])
def test_kinds_of_others_are_answered_in_one_sentence(server: StandIn, bcs: Any, tmp_path: Path, word: str) -> None:
    server.on("GET", "/crr", ok([]))
    document = write(tmp_path, {"kind": word.capitalize(), "metadata": {"name": "x"}})
    for command in (
        ("get", word),
        ("get", f"{word}.batch/x"),
        ("get", f"deployments,{word}"),
        ("describe", word, "x"),
        ("delete", word, "x"),
        ("delete", f"{word}/x"),
        ("logs", f"{word}/x"),
        ("wait", f"{word}/x", "--for=condition=complete"),
        ("wait", word, "x"),
        ("rollout", "restart", word, "x"),
        ("scale", word, "x", "--replicas=3"),
        ("set", "image", f"{word}/x", "c=i"),
        ("top", word),
        ("events", "--for", f"{word}/x"),
        ("apply", "-f", document),
    ):
        result = bcs(*command)
        assert result.code == 2 and not result.out, command
        assert re.search(rf"there is no kind '{word}(\.batch)?': \S", result.err, re.IGNORECASE), result.err
    assert not [request for request in server.seen if request.method != "GET"]


def test_no_kind_is_known_and_answered() -> None:
    assert not set(WORDS) & {*ALIASES, *OWN_KINDS}
    assert len(WORDS) == len(set(WORDS))


def test_a_registered_kind_wins_over_the_answer(server: StandIn, bcs: Any) -> None:
    server.on("GET", "/crr", ok([{"spec": {"names": {"kind": "Ingress"}}}]))
    server.on("GET", "/crd/namespaces/defaultGroup/Ingress", ok([]))
    assert bcs("get", "ingress", "-o", "json").out == "[]\n"


def test_wait_takes_the_conditions_of_kubectl(server: StandIn, bcs: Any) -> None:
    server.on("GET", f"{APPS}/web", ok(application()))
    server.on("GET", f"{APPS}/web/taskgroups", ok([taskgroup()]))
    assert bcs("wait", "--for=condition=Available", "app", "web").out == "application/web running\n"
    result = bcs("wait", "--for=condition=Progressing", "app/web")
    assert result.code == 2 and "known are running, finished, deleted" in result.err


def test_run_takes_name_and_image_as_kubectl(server: StandIn, bcs: Any) -> None:
    server.on("POST", APPS, ok(ACCEPTED))
    result = bcs("run", "front", "--image=nginx:1", "--replicas=2")
    assert result.out.startswith("application/front created"), result.err
    sent = server.requests("POST")[0].body
    assert sent["spec"]["instance"] == 2
    assert sent["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:1"


def test_run_takes_options_of_docker_or_names_the_way(server: StandIn, bcs: Any) -> None:
    server.on("POST", APPS, ok(ACCEPTED))
    result = bcs(
        "run", "-d", "--name", "front", "--cpus", "2", "-m", "128", "-e", "A=b", "nginx", "--", "sh", "-p", "1"
    )
    assert result.out.startswith("application/front created"), result.err
    (container,) = server.requests("POST")[0].body["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == {"cpu": "2", "memory": "128"}
    assert container["args"] == ["-p", "1"]
    for names, way in RUN.items():
        for name in names:
            refused = bcs("run", name, "80:80", "nginx")
            said = " ".join(refused.err.split())
            assert refused.code == 2 and way.split("`")[1] in said and f"{name} is not an option of `bcs run`" in said
    refused = bcs("create", "service", "externalname", "s2", "--external-name", "x.y")
    assert "--external-name is not an option of `bcs create service`" in refused.err
    assert len(server.requests("POST")) == 1


def test_several_workloads_are_scaled(server: StandIn, bcs: Any) -> None:
    for name in ("web", "api"):
        server.on("GET", f"{APPS}/{name}", ok(application(name)))
        server.on("PUT", f"{APPS}/{name}/scale/3", ok(ACCEPTED))
    for words in (("app/web", "app/api", "--replicas=3"), ("app", "web", "api", "3"), ("web", "api", "3")):
        before = len(server.requests("PUT"))
        assert bcs("scale", *words).code == 0
        assert [one.path for one in server.requests("PUT")[before:]] == [f"{APPS}/web/scale/3", f"{APPS}/api/scale/3"]
    result = bcs("scale", "app/nope", "app/api", "3")
    assert result.code == 3 and result.out.startswith("application/api scaled to 3")


def test_what_does_not_exist_is_ignored_on_request(server: StandIn, bcs: Any) -> None:
    server.on("GET", f"{APPS}/web", ok(application()))
    server.on("DELETE", f"{APPS}/web", ok(ACCEPTED))
    for value in ("", "=true"):
        assert bcs("delete", "app/nope", "app/web", f"--ignore-not-found{value}").code == 0
        assert bcs("get", "app", "nope", f"--ignore-not-found{value}", "-o", "json") == (0, "", "")
        assert bcs("get", "app", "nope", "web", f"--ignore-not-found{value}", "-o", "name").out == "application/web\n"
    assert bcs("delete", "app/nope").code == bcs("get", "app", "nope").code == 3
    assert bcs("delete", "app/nope", "--ignore-not-found=false").code == 3


def test_flags_of_kubectl_work_or_are_answered(server: StandIn, bcs: Any, tmp_path: Path) -> None:
    server.on("DELETE", f"{APPS}/web", ok(ACCEPTED))
    for accepted in (("--cascade=background",), ("--cascade", "foreground"), ("--wait=false",), ("--force=false",)):
        assert bcs("delete", "app/web", *accepted).code == 0, accepted
    for refused, way in (
        (("delete", "app/web", "--cascade=orphan"), "a deletion ends all taskgroups"),
        (("delete", "app/web", "--now"), "killPolicy.gracePeriod"),
        (("delete", "app/web", "--grace-period=0"), "killPolicy.gracePeriod"),
        (("apply", "-f", "x", "--prune"), "bcs delete KIND -l SELECTOR"),
        (("apply", "-f", "x", "--field-manager=me"), "objects belong to no set"),
        (("top", "nodes", "-l", "a=b"), "-l is supported for applications and taskgroups"),
    ):
        result = bcs(*refused)
        assert result.code == 2 and way in " ".join(result.err.split()), refused
    server.on("POST", APPS, ok(ACCEPTED))
    assert bcs("run", "nginx", "--labels=app=web,tier=front", "-l", "x=a,b").code == 0
    assert server.requests("POST")[-1].body["metadata"]["labels"] == {"app": "web", "tier": "front", "x": "a,b"}


def test_directories_in_directories_are_read_on_request(server: StandIn, bcs: Any, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    write(inner, {"kind": "configmap", "metadata": {"name": "deep"}, "datas": {}})
    write(tmp_path, {"kind": "configmap", "metadata": {"name": "flat"}, "datas": {}})
    server.on("POST", "/namespaces/defaultGroup/configmaps", ok({}))
    for flags, names in (((), ["flat"]), (("-R", "--server-side"), ["flat", "deep"])):
        before = len(server.requests("POST"))
        assert bcs("apply", "-f", str(tmp_path), *flags).code == 0
        assert {one.body["metadata"]["name"] for one in server.requests("POST")[before:]} == set(names)


def test_an_order_by_an_unknown_field_is_refused(server: StandIn, bcs: Any) -> None:
    server.on("GET", APPS, ok([application("web"), application("api")]))
    assert bcs("get", "app", "--sort-by", ".metadata.name", "-o", "name").out.split() == [
        "application/api", "application/web",
    ]  # fmt: skip
    result = bcs("get", "app", "--sort-by", ".metadata.nmae")
    assert result.code == 2 and "there is no column or field '.metadata.nmae'; columns: name, " in result.err
    server.on("GET", APPS, ok([]))
    assert bcs("get", "app", "--sort-by", ".metadata.nmae").code == 0, "nothing is known without objects"


def test_a_conflict_is_said_once(server: StandIn, bcs: Any) -> None:
    words = "application defaultGroup/web exists already"
    problem = {"path": "$.metadata.name", "message": words}
    data = {"reason": "exists", "problems": [problem]}
    server.on("POST", APPS, Answer(409, {"result": False, "code": 1405201, "message": words, "data": data}))
    assert bcs("create", "application", "web", "--", "true").err.count(words) == 1
