"""What scheduler and executor say to each other: both sides understand the same, and nonsense stays outside."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcs_scheduler.core.interface import cluster_manager
from bcs_scheduler.executor import model
from bcs_scheduler.mesos.launches import wire
from store.records import MessageResult

DETAIL = {
    "v": 1,
    "pid": 4711,
    "container_id": "c" * 64,
    "container_ip": "10.0.0.4",
    "exit_code": -9,
    "oom": True,
    "restarting": True,
    "started_at": 1.7e9,
    "finished_at": 1_700_000_001,
    "checks": [{"type": "HTTP", "healthy": False, "message": "503", "failures": 2}, {"type": "TCP", "healthy": None}],
}
READ_DETAIL = cluster_manager.TaskDetail(
    pid=4711,
    container_id="c" * 64,
    container_ip="10.0.0.4",
    exit_code=-9,
    oom=True,
    restarting=True,
    started_at=1.7e9,
    finished_at=1_700_000_001.0,
    checks=(
        cluster_manager.CheckReport(type="HTTP", healthy=False, message="503", failures=2),
        cluster_manager.CheckReport(type="TCP", healthy=None),
    ),
)


def encoded(document: Any) -> bytes:
    return json.dumps(document).encode()


def message(
    document: Any,
) -> cluster_manager.TasksReported | cluster_manager.MessageAnswered | cluster_manager.OutputReported:
    return wire.message(encoded(document), "agent", "executor", "mesos:1")


def refusal(data: bytes, read: Any = wire.task_detail) -> str:
    with pytest.raises(wire.Unreadable) as caught:
        read(data)
    return caught.value.kind


class TestFromExecutors:
    def test_a_detail(self) -> None:
        assert wire.task_detail(encoded(DETAIL)) == READ_DETAIL
        assert wire.task_detail(b'{"v": 1}') == cluster_manager.TaskDetail()
        assert wire.task_detail(b'{"v": 1, "news": [1, {}]}') == cluster_manager.TaskDetail()

    def test_a_report(self) -> None:
        inner = {key: value for key, value in DETAIL.items() if key != "v"}
        tasks = [{"task": "t0", "detail": DETAIL}, {"task": "t1", "detail": inner}, {"task": "t2", "detail": {}}]
        assert message({"v": 1, "type": "report", "tasks": tasks}) == cluster_manager.TasksReported(
            agent_id="agent",
            executor_id="executor",
            tasks=(("t0", READ_DETAIL), ("t1", READ_DETAIL), ("t2", cluster_manager.TaskDetail())),
            cause="mesos:1",
        )

    def test_answers(self) -> None:
        assert message({"v": 1, "type": "answer", "id": "7", "status": "running"}) == cluster_manager.MessageAnswered(
            agent_id="agent", executor_id="executor", message_id="7", status="running", cause="mesos:1"
        )
        result = {"task": "t", "ok": True, "message": "", "exit_code": 3, "stdout": "a", "stderr": "b"}
        answer = {"v": 1, "type": "answer", "id": "7", "status": "success", "message": "m", "results": [result]}
        found = message(answer)
        assert isinstance(found, cluster_manager.MessageAnswered)
        assert (found.status, found.message) == ("success", "m")
        assert found.results == (MessageResult(task="t", ok=True, exit_code=3, stdout="a", stderr="b"),)

    @pytest.mark.parametrize(
        ("data", "kind"),
        [
            (b"", "not JSON"),
            (b"\xff\xfe\x00", "not JSON"),
            (encoded(DETAIL)[:-3], "not JSON"),
            (b'{"v": 1, "container_id": "\\ud800"}', "not JSON"),
            (b'{"v": 1, "checks": ' + b"[" * 60_000, "not JSON"),
            (b'{"v": 2, "pid": 1}', "other version"),
            (b'{"v": 2, "pid": {}}', "other version"),
            (b'{"pid": 1}', "other version"),
            (b'{"v": "1"}', "other version"),
            (b"[]", "wrong fields"),
            (b"null", "wrong fields"),
            (b'{"v": 1, "pid": "1"}', "wrong fields"),
            (b'{"v": 1, "pid": 123456789012345678901234567890}', "wrong fields"),
            (b'{"v": 1, "exit_code": 1.5}', "wrong fields"),
            (b'{"v": 1, "started_at": 1e300}', "wrong fields"),
            (b'{"v": 1, "started_at": -1}', "wrong fields"),
            (b'{"v": 1, "checks": [{"type": "REMOTE_HTTP"}]}', "wrong fields"),
            (encoded({"v": 1, "checks": [{"type": "TCP"}] * 1000}), "wrong fields"),
            (b'{"v": 1, "container_id": "' + b"x" * wire.DETAIL_BYTES + b'"}', "too large"),
        ],
    )
    def test_details_that_cannot_be_read(self, data: bytes, kind: str) -> None:
        assert refusal(data) == kind

    @pytest.mark.parametrize(
        ("document", "kind"),
        [
            ({"v": 1, "type": "gossip"}, "unknown type"),
            ({"v": 1, "type": 7}, "unknown type"),
            ({"v": 1}, "unknown type"),
            ({"v": 3, "type": "gossip"}, "other version"),
            ({"v": 3, "type": "report", "tasks": []}, "other version"),
            ({"v": 1, "type": "report", "tasks": [{"task": "t"}]}, "wrong fields"),
            ({"v": 1, "type": "report", "tasks": [{"task": "t", "detail": {}}] * 1000}, "wrong fields"),
            ({"v": 1, "type": "answer", "id": "7", "status": "perhaps"}, "wrong fields"),
            ({"v": 1, "type": "answer", "id": 7, "status": "success"}, "wrong fields"),
        ],
    )
    def test_messages_that_cannot_be_read(self, document: Any, kind: str) -> None:
        assert refusal(encoded(document), lambda data: wire.message(data, "a", "e", "")) == kind

    def test_a_huge_message_is_not_looked_at(self) -> None:
        data = bytes(wire.MESSAGE_BYTES + 1)
        assert refusal(data, lambda data: wire.message(data, "a", "e", "")) == "too large"

    @given(st.binary(max_size=300) | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["v", "type", "pid", "checks", "tasks", "id", "status", "results"]), inner),
        max_leaves=10,
    ).map(encoded))  # fmt: skip
    def test_anything_is_read_or_refused(self, data: bytes) -> None:
        for read in (wire.task_detail, lambda data: wire.message(data, "a", "e", "")):
            try:
                read(data)
            except wire.Unreadable as error:
                assert error.kind in wire.UNREADABLE

    def test_texts_are_bounded(self) -> None:
        long = "x" * 1_000_000
        result = {"task": "t", "ok": True, "message": long, "stdout": long, "stderr": "short"}
        found = message({"v": 1, "type": "answer", "id": "7", "status": "failed", "message": long, "results": [result]})
        assert isinstance(found, cluster_manager.MessageAnswered)
        assert len(found.message) == len(found.results[0].message) == wire.TEXT_LENGTH
        assert len(found.results[0].stdout) == wire.OUTPUT_LENGTH
        assert found.results[0].stderr == "short"
        assert found.results[0].truncated
        check = {"type": "TCP", "healthy": False, "message": "x" * 10_000}
        detail = wire.task_detail(encoded({"v": 1, "checks": [check]}))
        assert len(detail.checks[0].message) == wire.TEXT_LENGTH

    def test_what_is_refused_is_not_shown(self) -> None:
        with pytest.raises(wire.Unreadable) as caught:
            wire.task_detail(b'{"v": 1, "pid": "hidden"}')
        assert "hidden" not in str(caught.value) + repr(caught.value)
        assert caught.value.__suppress_context__


class TestToExecutors:
    def test_a_message(self) -> None:
        body = {"argv": ["ls"], "env": {"A": "b"}}
        effect = cluster_manager.SendMessage(
            agent_id="a", executor_id="e", message_id="7", type="command", tasks=("t0", "t1"), body=body, timeout=5.0
        )
        assert model.message_of(wire.encode_message(effect, 1000)) == model.Message(
            id="7", kind="command", tasks=("t0", "t1"), timeout=5.0, output_limit=1000, body=body
        )

    def test_what_is_left_out_means_the_same_to_the_executor(self) -> None:
        """Defaults of both sides agree: a document with nothing but its required fields, read back."""
        data = wire.encode(wire.Task(v=1, kind="command", name="web", index=2))
        assert json.loads(data) == {"v": 1, "kind": "command", "name": "web", "index": 2}
        assert model.task_of(data, "t", "web") == model.Task(id="t", name="web", index=2)
        pairs: list[tuple[wire.Document, Any]] = [
            (wire.Command(), model.Command()),
            (wire.Process(), model.Process()),
            (wire.Registry(), model.Registry()),
            (wire.Volume(), model.Volume()),
            (wire.Container(image="", pull_policy="IfNotPresent", network_mode="HOST"), model.Container()),
            (wire.RemoteVariable(name="", url=""), model.RemoteVariable()),
            (wire.File(path="", mode=0o644), model.File()),
            (wire.Uri(value=""), model.Uri()),
            (wire.Port(name="", protocol="tcp"), model.Port()),
            (wire.Amounts(), model.Amounts()),
        ]
        for ours, theirs in pairs:
            assert model.read(type(theirs), json.loads(wire.encode(ours)), "") == theirs
            assert set(ours.__struct_fields__) == set(theirs.__dataclass_fields__)

    def test_documents_show_nothing_of_themselves(self) -> None:
        task = wire.Task(v=1, kind="command", name="web", index=0, env={"KEY": "hidden"})
        secret = wire.Registry(user="me", password="hidden")
        assert "hidden" not in f"{task} {task!r} {secret} {(secret,)!r}"
