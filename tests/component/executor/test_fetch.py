"""Fetching for tasks, from real servers and files."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.executor.content.fetch import download, fetch_all
from bcs_scheduler.executor.model import Uri
from bcs_scheduler.executor.runtime import TaskError
from tests.component.executor.webserver import Web, content, protected, raw, serving, serving_tls, status


@pytest.fixture
def web() -> Iterator[Web]:
    with serving() as found:
        yield found


def get(directory: Path, *uris: Uri) -> None:
    fetch_all(uris, directory, threading.Event())


def refused(directory: Path, uri: Uri, words: str) -> str:
    """The message; nothing may be left behind."""
    before = sorted(directory.rglob("*"))
    with pytest.raises(TaskError, match=words) as caught:
        get(directory, uri)
    assert sorted(directory.rglob("*")) == before
    return str(caught.value)


def test_a_file_is_fetched_under_its_own_name(web: Web, tmp_path: Path) -> None:
    web.pages["/a/tool"] = content(b"x" * 1_000_000)
    get(tmp_path, Uri(web.url("/a/tool?version=1"), executable=True), Uri(web.url("/a/tool"), output="sub/other"))
    assert (tmp_path / "tool").read_bytes() == b"x" * 1_000_000
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("tool", "sub/other")] == [0o755, 0o644]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sub", "tool"]


def test_an_output_with_a_slash_is_a_directory(web: Web, tmp_path: Path) -> None:
    web.pages["/tool"] = content(b"x")
    get(tmp_path, Uri(web.url("/tool"), output="bin/"), Uri(web.url("/tool"), output=str(tmp_path / "elsewhere")))
    assert (tmp_path / "bin/tool").read_bytes() == (tmp_path / "elsewhere").read_bytes() == b"x"


def test_files_and_paths_are_copied(tmp_path: Path) -> None:
    source = tmp_path / "a file"
    source.write_text("content")
    (tmp_path / "task").mkdir()
    get(tmp_path / "task", Uri(str(source), output="one"), Uri(source.as_uri(), output="two"))
    assert [(tmp_path / "task" / name).read_text() for name in ("one", "two")] == ["content", "content"]


def test_credentials_given_or_in_the_url_are_sent(web: Web) -> None:
    web.pages["/secret"] = protected(b"x", "me", "p:w")
    assert download(web.url("/secret"), "me", "p:w", 10, 10) == b"x"
    assert download(f"http://me:p%3Aw@127.0.0.1:{web.port}/secret", "", "", 10, 10) == b"x"


def test_credentials_follow_to_the_same_host_and_to_no_other(web: Web) -> None:
    with serving() as other:
        web.pages["/same"] = status(302, Location="/secret")
        web.pages["/secret"] = protected(b"x", "me", "pw")
        web.pages["/away"] = status(307, Location=f"http://you:xx@127.0.0.1:{other.port}/got")
        web.pages["/name"] = status(301, Location=web.url("/secret", "localhost"))
        other.pages["/got"] = content(b"y")
        assert download(web.url("/same"), "me", "pw", 10, 10) == b"x"
        assert download(web.url("/away"), "me", "pw", 10, 10) == b"y"
        assert [("authorization" in headers) for _, headers in other.requests] == [False]
        with pytest.raises(TaskError, match="401"):
            download(web.url("/name"), "me", "pw", 10, 10)


def test_redirects_end(web: Web, tmp_path: Path) -> None:
    web.pages["/loop"] = status(302, Location="/loop")
    web.pages["/file"] = status(302, Location="file:///etc/passwd")
    refused(tmp_path, Uri(web.url("/loop")), "redirected more than 10 times")
    refused(tmp_path, Uri(web.url("/file")), "redirected to file:///etc/passwd, which is not followed")


@pytest.mark.parametrize(
    ("page", "words"),
    [
        (status(404), "404 Not Found"),
        (status(500), "500 Internal Server Error"),
        (status(204), "204"),
        (content(b"half", claimed=8), "truncated: 4 of 8 bytes"),
        (raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"), "truncated"),
        (raw(b"nonsense\r\n\r\n"), "unusable answer"),
        (raw(b""), "unusable answer|closed"),
        (raw(b"HTTP/1.1 302 Found\r\nLocation: http://[::1\r\nContent-Length: 0\r\n\r\n"), "unusable|not a URL"),
    ],
)
def test_failures_name_the_uri_and_the_cause_without_credentials(
    web: Web, tmp_path: Path, page: Any, words: str
) -> None:
    web.pages["/x"] = page
    said = refused(tmp_path, Uri(f"http://me:pw@127.0.0.1:{web.port}/x?token=abc", output="x"), words)
    assert f"http://127.0.0.1:{web.port}/x" in said
    assert not any(word in said for word in ("pw", "me:", "abc"))


def test_a_chunked_answer_and_one_without_length_are_read_to_their_end(web: Web) -> None:
    web.pages["/chunks"] = raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n")
    web.pages["/open"] = content(b"abc", claimed=-1)
    assert [download(web.url(path), "", "", 10, 3) for path in ("/chunks", "/open")] == [b"abc", b"abc"]


def test_more_than_the_limit_is_refused(web: Web) -> None:
    web.pages["/x"] = content(b"abcd")
    with pytest.raises(TaskError, match="more than 3 bytes"):
        download(web.url("/x"), "", "", 10, 3)


def test_nobody_listening_and_no_such_host(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        refused(tmp_path, Uri(f"http://127.0.0.1:{free.getsockname()[1]}/x"), "connection refused")
    refused(tmp_path, Uri("http://host.invalid/x"), "host.invalid/x: .*(name|resol)")


@pytest.mark.parametrize(
    ("value", "output", "words"),
    [
        ("hdfs://x/y", "", "only http, https, file"),
        ("relative", "", "only http, https, file"),
        ("http://[::1/x", "", "unreadable|not a URL|only http"),
        ("http://127.0.0.1:99999/x", "", "not a URL"),
        ("http://127.0.0.1:1/", "", "names no file"),
        ("/etc/passwd", "../x", "leads out of the task's directory"),
        ("/etc/passwd", "a/../../x", "leads out of the task's directory"),
        ("/etc", "x", "not a regular file|is a directory"),
        ("/dev/zero", "x", "not a regular file"),
        ("/no/such", "", "no such file"),
    ],
)
def test_unusable_uris(tmp_path: Path, value: str, output: str, words: str) -> None:
    refused(tmp_path, Uri(value, output=output), words)


def test_a_pipe_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path, Uri(str(tmp_path / "pipe"), output="x"), "not a regular file")


def test_a_server_that_says_nothing_is_given_up_in_time(web: Web) -> None:
    web.pages["/x"] = web.hang
    with pytest.raises(TaskError, match=r"took too long|timed out"):
        download(web.url("/x"), "", "", 0.3, 10)
    assert not web.ending.is_set()


def test_a_server_that_trickles_is_given_up_in_time(web: Web) -> None:
    def trickle(handler: Any) -> None:
        handler.send_response(200)
        handler.end_headers()
        while not web.ending.wait(0.02):
            handler.wfile.write(b"x")

    web.pages["/x"] = trickle
    with pytest.raises(TaskError, match=r"took too long|timed out"):
        download(web.url("/x"), "", "", 0.3, 1000)


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\n\r\nabc"])
def test_stopping_ends_a_download(web: Web, tmp_path: Path, head: bytes) -> None:
    stopping = threading.Event()

    def hang(handler: Any) -> None:
        handler.wfile.write(head)
        handler.wfile.flush()
        stopping.set()
        web.hang(handler)

    web.pages["/x"] = hang
    with pytest.raises(TaskError, match="given up"):
        fetch_all([Uri(web.url("/x"))], tmp_path, stopping)
    assert list(tmp_path.iterdir()) == []


def test_stopping_ends_a_connection_attempt(tmp_path: Path) -> None:
    """A full backlog leaves further attempts to connect without an answer."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(0)
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(silent.getsockname())
        stopping = threading.Event()
        stopping.set()
        with pytest.raises(TaskError, match="given up"):
            fetch_all([Uri(f"http://127.0.0.1:{silent.getsockname()[1]}/x")], tmp_path, stopping)
        for filler in fillers:
            filler.close()


def test_a_name_service_that_hangs_delays_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release, asked, stopping = threading.Event(), threading.Event(), threading.Event()
    answered: list[bool] = []

    def hang(*args: Any, flags: int = 0, **more: Any) -> Any:
        if not flags:
            asked.set()
            answered.append(release.wait(120.0))
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    with pytest.raises(TaskError, match="timed out"):
        download("http://slow.invalid/x", "", "", 0.3, 10)
    asked.clear()
    threading.Thread(target=lambda: asked.wait(60.0) and stopping.set()).start()  # type: ignore[func-returns-value]
    with pytest.raises(TaskError, match="given up"):
        fetch_all([Uri("http://slow.invalid/x")], tmp_path, stopping)
    assert answered == [], "the name service has not answered yet"
    release.set()


def test_a_full_disk_is_told_and_leaves_nothing(web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(tempfile.TemporaryDirectory[str]):
        def __enter__(self) -> str:
            os.symlink("/dev/full", os.path.join(self.name, "content"))
            return self.name

    monkeypatch.setattr(tempfile, "TemporaryDirectory", Full)
    web.pages["/x"] = content(b"x" * 100_000)
    refused(tmp_path, Uri(web.url("/x")), "no space left on device")


def test_what_is_there_stays_when_a_new_version_cannot_be_fetched(web: Web, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("old")
    web.pages["/x"] = content(b"new", claimed=8)
    refused(tmp_path, Uri(web.url("/x")), "truncated")
    assert (tmp_path / "x").read_text() == "old"


@pytest.mark.parametrize(
    ("name", "trusted", "words"),
    [
        ("IP:127.0.0.1", True, ""),
        ("IP:127.0.0.1", False, "(?i)certificate"),
        ("DNS:elsewhere", True, "(?i)certificate"),
    ],
    ids=["trusted", "signed by nobody known", "of another"],
)
def test_https_with_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, trusted: bool, words: str
) -> None:
    """Credentials are told to no server that is not what it says."""
    with serving_tls(tmp_path, name) as (web, certificate):
        if trusted:
            monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        web.pages["/rules"] = protected(b"rule one", "reader", "word")
        uri = Uri(f"https://127.0.0.1:{web.port}/rules", user="reader", password="word")
        if words:
            refused(tmp_path, uri, words)
            assert web.requests == []
        else:
            get(tmp_path, uri)
            assert (tmp_path / "rules").read_bytes() == b"rule one"


def test_fetched_files_belong_to_the_owner(web: Web, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        with pytest.raises(TaskError, match="does not run as root"):
            fetch_all([], tmp_path, threading.Event(), "12345")
        return
    web.pages["/x"] = content(b"x")
    fetch_all([Uri(web.url("/x"), output="new/x")], tmp_path, threading.Event(), "12345")
    assert [(tmp_path / name).stat().st_uid for name in ("new", "new/x")] == [12345, 12345]
