"""executor.content.preparation: the preparation of the start of a task."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from bcs_scheduler.executor.content.preparation import expand, prepared
from bcs_scheduler.executor.content.secrets import Secrets
from bcs_scheduler.executor.model import File, Group, Process, Task, Uri
from bcs_scheduler.executor.runtime import TaskError


def test_words_for_directories_are_replaced_where_they_may_stand(tmp_path: Path) -> None:
    task = Task(
        process=Process(start="${work_base_dir}/start", pid_file="${run_base_dir}/a.pid"),
        env={"HOME_OF_ALL": "${work_base_dir}:${run_base_dir}"},
        files=(File(path="${work_base_dir}/f", data="${work_base_dir}"),),
        uris=(Uri(value="http://x/${work_base_dir}", output="${work_base_dir}/u"),),
        working_dir="${work_base_dir}",
    )
    found = expand(task, tmp_path)
    work, run = f"{tmp_path}/work_dir", f"{tmp_path}/run_dir"
    assert (found.process.start, found.process.pid_file) == (f"{work}/start", f"{run}/a.pid")
    assert found.env == {"HOME_OF_ALL": f"{work}:{run}"}
    assert (found.files[0].path, found.files[0].data) == (f"{work}/f", "${work_base_dir}")
    assert (found.uris[0].value, found.uris[0].output) == ("http://x/${work_base_dir}", f"{work}/u")
    assert found.working_dir == work
    assert Path(work).is_dir()
    assert Path(run).is_dir()


def test_directories_nobody_speaks_of_are_not_made(tmp_path: Path) -> None:
    task = Task(env={"A": "$work_base_dir"})
    assert expand(task, tmp_path) == task
    assert list(tmp_path.iterdir()) == []


def test_the_environment_and_the_files(tmp_path: Path) -> None:
    task = Task(env={"A": "1"}, files=(File(path="etc/f", data="aGFsbG8=", mode=0o640),))
    found = prepared(task, Group(agent_ip="10.0.0.4"), tmp_path / "tasks/0", threading.Event(), Secrets("/absent"))
    assert found == {"A": "1", "BCS_CONTAINER_IP": "10.0.0.4"}
    placed = tmp_path / "tasks/0/etc/f"
    assert (placed.read_text(), placed.stat().st_mode & 0o777) == ("hallo", 0o640)


@pytest.mark.parametrize("env", [{"A=B": "hunter2"}, {"A": "hunter2\0"}])
def test_variables_no_process_can_have(tmp_path: Path, env: dict[str, str]) -> None:
    with pytest.raises(TaskError) as caught:
        prepared(Task(env=env), Group(), tmp_path, threading.Event(), Secrets("/absent"))
    assert "hunter2" not in str(caught.value)
