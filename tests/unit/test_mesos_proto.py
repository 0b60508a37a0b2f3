"""The generated message modules belong to the .proto files beside them."""

from __future__ import annotations

from bcs_scheduler.mesos.proto import generate, scheduler_pb2
from bcs_scheduler.mesos.proto import mesos_pb2 as pb


def test_generated_modules_are_up_to_date() -> None:
    recorded = generate.DIGESTS.read_text(encoding="ascii")
    assert generate.digests() == recorded, "run `make proto`"


def test_fields_left_out_survive_reading_and_writing() -> None:
    """Mesos knows more fields than we declare, e.g. TaskInfo.check (13)."""
    task = pb.TaskInfo(name="t", task_id=pb.TaskID(value="t"), agent_id=pb.AgentID(value="a"))
    undeclared = bytes([(13 << 3) | 2, 2, (1 << 3) | 0, 2])
    read = pb.TaskInfo.FromString(task.SerializeToString() + undeclared)
    assert read.SerializeToString().endswith(undeclared)


def test_an_absent_type_reads_as_unknown() -> None:
    assert scheduler_pb2.Event().type == scheduler_pb2.Event.UNKNOWN
