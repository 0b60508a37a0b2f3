"""`--validate` of the commands that send documents, and the warnings that the server answers with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.component.cli.standin import ACCEPTED, APPS, DOCUMENT, MISSING, Answer, StandIn, application, ok, write

WARNING = {"path": "$.spec.colour", "message": "unknown field", "hint": "did you mean color?"}
LINE = "warning: $.spec.colour: unknown field; did you mean color?\n"


def warned(status: int = 202) -> Answer:
    answer = ok(ACCEPTED, status)
    return answer._replace(body={**answer.body, "warnings": [WARNING, WARNING]})


@pytest.mark.parametrize("sent", ["Strict", "Warn", "Original", "Ignore"])
@pytest.mark.parametrize("command", ["apply", "update"])
def test_the_flag_becomes_the_query_parameter(
    server: StandIn, bcs: Any, tmp_path: Path, command: str, sent: str
) -> None:
    server.on("GET", f"{APPS}/web", ok(application()))
    server.on("PUT", APPS, ok(ACCEPTED, 202))
    assert bcs(command, "-f", write(tmp_path, DOCUMENT), "--validate", sent.lower()).code == 0
    assert server.requests("PUT")[0].query["fieldValidation"] == sent
    assert all("fieldValidation" not in request.query for request in server.requests("GET"))


def test_without_the_flag_the_server_decides(server: StandIn, bcs: Any, tmp_path: Path) -> None:
    server.on("GET", f"{APPS}/web", MISSING)
    server.on("POST", APPS, ok(ACCEPTED, 202))
    assert bcs("apply", "-f", write(tmp_path, DOCUMENT)).err == ""
    assert "fieldValidation" not in server.requests("POST")[0].query


def test_warnings_are_printed_to_standard_error_once(server: StandIn, bcs: Any, tmp_path: Path) -> None:
    server.on("GET", f"{APPS}/web", MISSING)
    server.on("POST", APPS, warned())
    result = bcs("apply", "-f", write(tmp_path, DOCUMENT), "-o", "text")
    place = f"{tmp_path / 'web.json'}: application/web: "
    line = LINE.replace("warning: ", f"warning: {place}")
    assert result == (0, "application/web created (transaction application-1)\n", line)


def test_diff_warns_and_with_strict_refuses(server: StandIn, bcs: Any, tmp_path: Path) -> None:
    server.on("GET", "/namespaces/defaultGroup/configmaps/conf", MISSING)
    file = write(tmp_path, {"kind": "configmap", "metadata": {"name": "conf"}, "colour": "blue"})
    result = bcs("diff", "-f", file)
    assert result.code == 1 and result.err == "warning: $.colour: unknown field\n"
    assert bcs("diff", "-f", file, "--validate", "ignore").err == ""
    strict = bcs("diff", "-f", file, "--validate", "strict")
    assert strict.code == 2 and "$.colour: unknown field" in strict.err
