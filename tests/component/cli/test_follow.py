"""`bcs follow` and what templates are given; the template for HAProxy is judged by HAProxy itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.cli.commands.reading.follow import view
from tests.component.cli.standin import Answer, Json, StandIn, failed

WATCH = "/namespaces/defaultGroup/endpoints/watch"
HAPROXY = Path(__file__).parents[3] / "conf" / "haproxy.cfg.template"


def member(index: int, **fields: Any) -> Json:
    port = {"name": "http", "hostPort": 31000 + index, "containerPort": 80, "hostIP": "10.0.0.1", "protocol": "tcp"}
    port["address"] = f"10.0.0.1:{31000 + index}"
    name = f"web-{index}"
    target = {"kind": "taskgroup", "id": f"{index}.web.x.y.1", "name": name, "namespace": "shop", "image": ""}
    head = {"networkMode": "HOST", "nodeIP": "10.0.0.1", "containerIP": "10.0.0.1", "targetRef": target}
    return {**head, "application": "web", "ready": True, "reason": "", "weight": 1, "ports": [port], **fields}


def endpoint(name: str = "front", *members: Json, **fields: Any) -> Json:
    return {
        "kind": "endpoint",
        "metadata": {"name": name, "namespace": "defaultGroup", "labels": {}},
        "resourceVersion": "7",
        "ready": sum(m["ready"] for m in members),
        "omitted": 0,
        "ports": [{"name": "http", "protocol": "http", "servicePort": 8000}],
        "eps": list(members),
        **fields,
    }


def stream(*frames: tuple[str, Any]) -> Answer:
    text = "".join(f"event: {event}\ndata: {json.dumps(data)}\n\n" for event, data in frames)
    return Answer(200, f"retry: 1000\n\n:\n\n{text}".encode(), {"Content-Type": "text/event-stream"})


def template(folder: Path, text: str) -> str:
    path = folder / "file.template"
    path.write_text(text)
    return str(path)


def test_a_file_is_made_from_what_there_is(server: StandIn, bcs: Any, tmp_path: Path) -> None:
    one, two = endpoint("front", member(0), member(1, ready=False, reason="ending")), endpoint("back")
    server.on("GET", WATCH, stream(("endpoint", one), ("endpoint", two), ("synced", {"endpoints": 2})))
    source = template(
        tmp_path,
        "{% for s in services %}{{ s.name }}:{% for p in s.ports %}{% for m in p.servers %} {{ m.name }}="
        "{{ m.address }}{{ '!' if not m.ready }}{% endfor %}{% endfor %}\n\n{% endfor %}{{ end }}",
    )
    output = tmp_path / "out"
    given = ("follow", "--template", source, "--output", str(output), "--set", "end=done", "--once")
    assert bcs(*given).code == 0
    assert output.read_text() == "back:\nfront: web-0=10.0.0.1:31000 web-1=10.0.0.1:31001!\ndone"
    assert bcs(*given, "front").code == 0
    assert output.read_text() == "front: web-0=10.0.0.1:31000 web-1=10.0.0.1:31001!\ndone"
    assert "service defaultGroup/missing does not exist" in bcs(*given, "front", "missing").err
    assert {"name": "front"} in [request.query for request in server.seen]


def test_only_what_the_check_accepts_is_put_in_place(server: StandIn, bcs: Any, tmp_path: Path) -> None:
    server.on("GET", WATCH, stream(("endpoint", endpoint()), ("synced", {"endpoints": 1})))
    output, mark = tmp_path / "out", tmp_path / "reloaded"
    output.write_text("old")
    output.chmod(0o600)
    given = ("follow", "--template", template(tmp_path, "new"), "--output", str(output), "--once")
    refused = bcs(*given, "--check", "false", "--reload", f"touch {mark}")
    assert (refused.code, output.read_text(), mark.exists()) == (1, "old", False)
    assert "check failed with 1" in refused.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file.template", "out"]
    assert bcs(*given, "--check", "grep -q new {}", "--reload", f"touch {mark}").code == 0
    assert (output.read_text(), mark.exists(), output.stat().st_mode & 0o777) == ("new", True, 0o600)
    mark.unlink()
    assert bcs(*given, "--reload", f"touch {mark}").code == 0
    assert not mark.exists()
    output.write_text("other")
    failed_reload = bcs(*given, "--reload", f"{sys.executable} -c 'raise SystemExit(3)'")
    assert (failed_reload.code, output.read_text()) == (1, "new")
    assert "reload failed with 3" in failed_reload.err


def test_what_cannot_be_is_said_at_once(server: StandIn, bcs: Any, tmp_path: Path) -> None:
    server.on("GET", WATCH, stream(("endpoint", endpoint()), ("synced", {"endpoints": 1})))
    output = ("--output", str(tmp_path / "out"), "--once")
    broken = bcs("follow", "--template", template(tmp_path, "{% for %}"), *output)
    assert (broken.code, "line 1" in broken.err) == (2, True)
    unknown = bcs("follow", "--template", template(tmp_path, "{{ services[0].nam }}"), *output)
    assert (unknown.code, "nam" in unknown.err) == (2, True)
    assert bcs("follow", "--template", template(tmp_path, ""), "--set", "x", *output).code == 2
    server.on("GET", WATCH, failed(403, "needs the role viewer", "forbidden"))
    assert "needs the role viewer" in bcs("follow", "--template", template(tmp_path, ""), *output).err


@pytest.mark.parametrize("address", ["", "10.0.0.1", "10.0.0.1:80 backup", "a\nserver b:1", "[::1:80"])
def test_what_is_no_address_is_no_server(address: str) -> None:
    bad = member(0)
    bad["ports"][0]["address"] = address
    (port,) = view(endpoint("front", bad, member(1)))["ports"]
    assert [server["name"] for server in port["servers"]] == ["web-1"]


def test_no_two_servers_have_one_name() -> None:
    again = member(0)
    again["targetRef"] = {**again["targetRef"], "id": "0.web.x.y.2"}
    (port,) = view(endpoint("front", member(0), again))["ports"]
    assert [server["name"] for server in port["servers"]] == ["web-0", "web-0-2"]


def test_haproxy_takes_what_its_template_makes(server: StandIn, bcs: Any, tmp_path: Path) -> None:
    web = endpoint("front", member(0, weight=300), member(1, ready=False, reason="unreachable"))
    web["metadata"]["labels"] = {"BCSBALANCE": "leastconn"}
    web["ports"] = [
        {"name": "http", "protocol": "http", "servicePort": 80, "domainName": "shop.example.org", "path": "/a"}
    ]
    twin = endpoint("front-http", member(4))
    twin["ports"] = [{"name": "x", "protocol": "http", "servicePort": 80}]
    other = endpoint("other", member(2), member(3, ready=False, reason="ending"))
    other["ports"] = [
        {"name": "http", "protocol": "http", "servicePort": 80},
        {"name": "game", "protocol": "udp", "servicePort": 81},
        {"name": "line", "protocol": "tcp", "servicePort": 82},
        {"name": "admin", "protocol": "tcp"},
    ]
    server.on(
        "GET", WATCH, stream(("endpoint", web), ("endpoint", twin), ("endpoint", other), ("synced", {"endpoints": 3}))
    )
    output = tmp_path / "haproxy.cfg"
    result = bcs(
        "follow", "--template", str(HAPROXY), "--output", str(output), "--once", "--set", f"socket={tmp_path}/s"
    )
    assert result.code == 0, result.err
    checked = subprocess.run(
        ["/usr/sbin/haproxy", "-c", "-f", str(output)], capture_output=True, text=True, check=False
    )
    text = output.read_text()
    assert checked.returncode == 0, checked.stderr + text
    assert "WARNING" not in checked.stderr, checked.stderr
    assert (
        "use_backend front:http if { hdr(host),field(1,:),lower -m str shop.example.org } { path,concat(/) -m beg /a/ }"
        in text
    )
    assert "default_backend front-http:x" in text
    assert "default_backend other:http" not in text
    assert "server web-0 10.0.0.1:31000 weight 256" in text
    assert "server web-1 10.0.0.1:31001 backup" in text
    assert "balance leastconn" in text
    assert "31003" not in text
    assert text.count("frontend port-") == 2
