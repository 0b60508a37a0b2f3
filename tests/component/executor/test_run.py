"""Commands of the executor, with real processes."""

from __future__ import annotations

import contextlib
import os
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.executor.run import identity, run
from bcs_scheduler.executor.runtime import Output, TaskError
from tests.waiting import wait_for

ENV = {"PATH": "/usr/bin:/bin"}


def shell(line: str, tmp_path: Path, timeout: float = 20.0, limit: int = 1000, **more: Any) -> Output:
    return run(["/bin/sh", "-c", line], env=ENV, cwd=tmp_path, timeout=timeout, limit=limit, **more)


def alive(pid: int) -> bool:
    """Zombies that nobody has collected yet are dead."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def pid_in(path: Path) -> int:
    return wait_for(lambda: int(path.read_text() or 0) if path.exists() else 0, 30, f"a pid in {path}")


def test_exit_code_and_both_streams_are_told(tmp_path: Path) -> None:
    found = shell("echo out; echo err >&2; pwd; exit 3", tmp_path)
    assert found == Output(3, f"out\n{tmp_path}\n".encode(), b"err\n")


def test_a_command_that_died_by_a_signal_has_a_negative_code(tmp_path: Path) -> None:
    assert shell("kill -TERM $$", tmp_path).code == -15


def test_the_environment_is_what_was_given(tmp_path: Path) -> None:
    found = run(["env"], env={**ENV, "A": "b"}, cwd=tmp_path, timeout=20, limit=1000).stdout.decode().splitlines()
    assert {"A=b", "PATH=/usr/bin:/bin"} == {line for line in found if not line.startswith("BCS_COMMAND_RUN=")}


def test_output_without_end_is_cut_and_ends_in_time(tmp_path: Path) -> None:
    found = shell("yes", tmp_path, timeout=2.0, limit=100)
    assert (found.timed_out, found.truncated, found.code, len(found.stdout)) == (True, True, None, 100)


def test_output_of_exactly_the_limit_is_not_truncated(tmp_path: Path) -> None:
    found = shell("printf 12345; printf 123456 >&2", tmp_path, limit=5)
    assert (found.stdout, found.stderr, found.truncated) == (b"12345", b"12345", True)
    assert not shell("printf 12345", tmp_path, limit=5).truncated


def test_much_output_is_read_to_its_end(tmp_path: Path) -> None:
    found = shell("head -c 3000000 /dev/zero; echo done >&2", tmp_path, limit=10_000_000)
    assert (len(found.stdout), found.stderr, found.code) == (3_000_000, b"done\n", 0)


def test_a_command_that_closes_its_outputs_and_goes_on_is_waited_for_and_timed_out(tmp_path: Path) -> None:
    assert shell("exec >&- 2>&-; exit 4", tmp_path).code == 4
    assert shell("exec >&- 2>&-; exec sleep 600", tmp_path, timeout=0.3).timed_out


def test_a_background_child_that_holds_the_pipe_is_killed_when_the_command_ends(tmp_path: Path) -> None:
    found = shell("sleep 600 & echo $! > pid; echo started", tmp_path)
    assert (found.code, found.stdout, found.timed_out) == (0, b"started\n", False)
    wait_for(lambda: not alive(pid_in(tmp_path / "pid")), 30, "the child to be gone")


def test_a_daemon_is_kept_where_this_is_the_purpose(tmp_path: Path) -> None:
    shell("sleep 600 & echo $! > pid", tmp_path, keep=True)
    pid = pid_in(tmp_path / "pid")
    assert alive(pid)
    os.kill(pid, 9)


def test_all_that_was_started_is_killed_at_the_time_out(tmp_path: Path) -> None:
    """Each command writes a process id long before the time-out. The commands run at the same time."""
    lines = [
        "sleep 600 & echo $! > pid; wait",
        "setsid sh -c 'echo $$ > pid; exec sleep 600'",
        # left the session, and its parent has ended
        "setsid sh -c '(setsid sh -c \"echo \\$\\$ > pid; exec sleep 600\" &) ; exit 0'; exec sleep 600",
        "trap '' TERM INT HUP; echo $$ > pid; while :; do sleep 600; done",
    ]
    ended: list[Output] = []
    places = [tmp_path / str(number) for number in range(len(lines))]
    threads = []
    for line, place in zip(lines, places, strict=True):
        place.mkdir()
        work = partial(lambda line, place: ended.append(shell(line, place, timeout=4.0)), line, place)
        threads.append(threading.Thread(target=work))
        threads[-1].start()
    pids = [pid_in(place / "pid") for place in places]
    for thread in threads:
        thread.join(30.0)
    assert [output.timed_out for output in ended] == [True] * len(lines)
    for pid, line in zip(pids, lines, strict=True):
        wait_for(lambda pid=pid: not alive(pid), 30, f"the end of the process of {line}")  # type: ignore[misc]


def test_it_is_given_up_when_the_task_is_stopped(tmp_path: Path) -> None:
    stopping = threading.Event()
    threading.Timer(0.1, stopping.set).start()
    with pytest.raises(TaskError, match="given up"):
        shell("sleep 600", tmp_path, timeout=120.0, stopping=stopping)


@pytest.mark.parametrize(
    ("argv", "cwd", "words"),
    [
        (["/no/such"], "", "/no/such: no such program"),
        (["no-such-program"], "", "no such program"),
        (["/etc"], "", "may not be executed"),
        (["/etc/passwd"], "", "may not be executed"),
        (["true"], "missing", "working directory .* does not exist"),
        ([], "", "no command"),
        ([""], "", "no command"),
        (["true", "a\0b"], "", "null byte"),
        (["true", "x" * 3_000_000], "", "too long"),
    ],
)
def test_what_cannot_be_started_is_said_in_plain_words(tmp_path: Path, argv: list[str], cwd: str, words: str) -> None:
    with pytest.raises(TaskError, match=words):
        run(argv, env=ENV, cwd=tmp_path / cwd, timeout=5, limit=10)


def test_a_file_that_is_no_program_is_said_to_be_none(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x00\x01")
    program.chmod(0o755)
    with pytest.raises(TaskError, match=r"[Ee]xec format error"):
        run([str(program)], env=ENV, cwd=tmp_path, timeout=5, limit=10)


def test_setup_runs_in_the_child(tmp_path: Path) -> None:
    assert shell("umask", tmp_path, setup=lambda: os.umask(0o027) and None).stdout == b"0027\n"
    assert os.umask(0o022) != 0o027


def test_a_setup_that_fails_is_told(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="its user or its limits could not be set"):
        shell("true", tmp_path, setup=lambda: os.close(-1))


def test_identity_of_users_and_groups() -> None:
    own = identity("")
    assert (own.uid, own.gid, own.own) == (os.geteuid(), os.getegid(), True)
    assert identity("root").home == "/root" or os.geteuid() != 0
    with pytest.raises(TaskError, match="user 'no-such-user' does not exist"):
        identity("no-such-user")


@pytest.mark.parametrize("user", ["4294967295", "-1", "99999999999999999999999", "root:no-such-group"])
def test_users_that_cannot_be_are_refused(user: str) -> None:
    with pytest.raises(TaskError, match=r"does not exist|does not run as root"):
        identity(user)


def test_another_user_is_become_or_refused(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        found = shell("id -u; id -g; id -G", Path("/"), user="12345:23456").stdout.split()
        assert found[:2] == [b"12345", b"23456"]
        assert b"0" not in found
    else:
        with pytest.raises(TaskError, match="does not run as root"):
            shell("id", tmp_path, user="12345")


def test_no_file_handle_is_left_behind(tmp_path: Path) -> None:
    shell("true", tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        shell("echo x; exec >&- 2>&-", tmp_path)
        with pytest.raises(TaskError):
            run(["/no/such"], env=ENV, cwd=tmp_path, timeout=1, limit=1)
    wait_for(lambda: len(os.listdir("/proc/self/fd")) <= before, 30, "the handles to be closed")
