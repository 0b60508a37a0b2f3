"""executor.processes.limits: resource limits of processes and cgroups."""

from __future__ import annotations

import logging
import resource
from pathlib import Path

import pytest

from bcs_scheduler.executor.model import Amounts
from bcs_scheduler.executor.processes import control_groups, limits
from bcs_scheduler.executor.processes.limits import Enforcement, rlimits
from bcs_scheduler.executor.runtime import TaskError

FILES = ("cpu.max", "cpu.weight", "memory.max", "memory.oom.group", "memory.events", "cgroup.kill", "cgroup.procs")


@pytest.fixture
def group(tmp_path: Path) -> Path:
    """A directory with the files the kernel would put there."""
    path = tmp_path / "0"
    path.mkdir()
    for name in FILES:
        (path / name).touch()
    return path


def test_limits_as_the_kernel_takes_them(tmp_path: Path, group: Path) -> None:
    enforcement = Enforcement(str(tmp_path), "0")
    enforcement.apply(Amounts(cpus=1000, mem=64_000), Amounts(cpus=1500, mem=128_000))
    assert (group / "cpu.max").read_text() == "150000 100000"
    assert (group / "cpu.weight").read_text() == "39"
    assert (group / "memory.max").read_text() == str(128 * 1024 * 1024)
    assert (group / "memory.oom.group").read_text() == "1"
    assert not enforcement.watched


def test_tiny_amounts_stay_what_the_kernel_accepts(tmp_path: Path, group: Path) -> None:
    Enforcement(str(tmp_path), "0").apply(Amounts(cpus=1), Amounts(cpus=1))
    assert (group / "cpu.max").read_text() == "1000 100000"
    assert (group / "cpu.weight").read_text() == "1"


def test_what_is_not_limited_is_not_touched(tmp_path: Path, group: Path) -> None:
    Enforcement(str(tmp_path), "0").apply(Amounts(), Amounts())
    assert all((group / name).read_text() == "" for name in FILES)


def test_limits_are_changed_in_place(tmp_path: Path, group: Path) -> None:
    enforcement = Enforcement(str(tmp_path), "0")
    enforcement.apply(Amounts(), Amounts(cpus=1000, mem=100_000))
    enforcement.change(Amounts(mem=200_000), 150 * 1024 * 1024)
    assert (group / "memory.max").read_text() == str(200 * 1024 * 1024)
    with pytest.raises(TaskError, match="more than the new limit of 100 MB"):
        enforcement.change(Amounts(mem=100_000), 150 * 1024 * 1024)


def test_the_kernel_says_when_it_killed_for_memory(tmp_path: Path, group: Path) -> None:
    (group / "memory.events").write_text("low 0\noom 3\noom_kill 2\n")
    enforcement = Enforcement(str(tmp_path), "0")
    enforcement.apply(Amounts(), Amounts(mem=1000))
    assert not enforcement.out_of_memory()
    (group / "memory.events").write_text("low 0\noom 4\noom_kill 3\n")
    assert enforcement.out_of_memory()


def test_without_controller_memory_is_watched(tmp_path: Path) -> None:
    for home in ("", str(tmp_path)):
        enforcement = Enforcement(home, "0")
        enforcement.apply(Amounts(), Amounts(cpus=100, mem=1000))
        assert enforcement.watched
        assert enforcement.exceeded(1024 * 1024 + 1)
        assert not enforcement.exceeded(1024 * 1024)
        assert not enforcement.out_of_memory()


def test_rlimits() -> None:
    found = rlimits([("ulimit", "nofile=64:128"), ("label", "a=b"), ("ulimit", "core=0"), ("ulimit", "nproc=-1")])
    assert found == (
        (resource.RLIMIT_NOFILE, 64, 128),
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_NPROC, resource.RLIM_INFINITY, resource.RLIM_INFINITY),
    )


@pytest.mark.parametrize("text", ["nofile", "nofile=", "nofile=many", "nofile=1:x", "boats=1", ""])
def test_rlimits_that_are_none(text: str) -> None:
    with pytest.raises(TaskError, match="ulimit"):
        rlimits([("ulimit", text)])


def test_the_group_of_an_executor_passes_its_controllers_on(tmp_path: Path) -> None:
    for level in (tmp_path, tmp_path / "bcs", tmp_path / "bcs/1-2"):
        level.mkdir(exist_ok=True)
        (level / "cgroup.subtree_control").touch()
    assert control_groups.create("1-2", str(tmp_path)) == str(tmp_path / "bcs/1-2")
    assert (tmp_path / "bcs/cgroup.subtree_control").read_text()


def test_groups_of_executors_that_are_gone_are_removed(tmp_path: Path) -> None:
    (tmp_path / "bcs/999999999-5/task").mkdir(parents=True)
    (tmp_path / "bcs/1-5").mkdir()
    control_groups.create("7-7", str(tmp_path))
    assert sorted(path.name for path in (tmp_path / "bcs").iterdir()) == ["1-5", "7-7"]


@pytest.mark.parametrize("mount", ["", "/proc/nothing"])
def test_where_no_group_can_be_made(mount: str) -> None:
    assert control_groups.create("1-2", mount) == ""
    assert control_groups.members("") == []
    assert not control_groups.kill("")
    control_groups.remove("")


def test_the_mount_point_is_found(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n")
    assert control_groups.mount_point(str(mounts)) == "/sys/fs/cgroup"
    mounts.write_text("proc /proc proc rw 0 0\n")
    assert control_groups.mount_point(str(mounts)) == ""


def test_a_cpu_limit_that_nothing_enforces_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    limits._log_once.cache_clear()
    with caplog.at_level(logging.WARNING, "executor"):
        Enforcement("", "0").apply(Amounts(), Amounts())
        assert caplog.messages == []
        for name in ("1", "2"):
            Enforcement("", name).apply(Amounts(), Amounts(cpus=1000))
    assert caplog.messages == ["cpu is not limited on this agent"]


@pytest.mark.parametrize(
    ("controllers", "change", "words"),
    [
        (("cpu.max", "memory.max"), Amounts(cpus=1000, mem=1000), ""),
        (("memory.max",), Amounts(cpus=1000, mem=1000), "cpu is not limited on this agent"),
        (("memory.max",), Amounts(mem=1000), ""),
    ],
)
def test_a_change_says_what_is_not_enforced(
    tmp_path: Path, controllers: tuple[str, ...], change: Amounts, words: str
) -> None:
    (tmp_path / "0").mkdir()
    for name in controllers:
        (tmp_path / "0" / name).touch()
    assert Enforcement(str(tmp_path), "0").change(change, 0) == words
