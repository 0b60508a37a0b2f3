"""`bcs-scheduler dev`: the address of the API, and what it says about its end."""

from __future__ import annotations

import socket

import pytest

from bcs_scheduler import foreground


def test_a_free_port_is_taken_if_the_usual_one_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        usual = f"127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setattr(foreground, "USUAL_API", usual)
        assert foreground._free_api() == "127.0.0.1:0"
    assert foreground._free_api() == usual


def test_the_first_lines_say_what_ctrl_c_does() -> None:
    text = foreground.ENDS_ALL.format(data="/data")
    assert "Ctrl-C ends the scheduler, the cluster and all tasks." in text
    assert "Objects stay in /data" in text
