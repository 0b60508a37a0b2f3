"""Every answer of the original has its form: no route of the API is written in our own form below its prefixes."""

from __future__ import annotations

import re
from typing import Any, get_args

from bcs_scheduler.api.http.operation import BASE
from bcs_scheduler.api.original import answers
from bcs_scheduler.api.original.paths import DRIVER, translate
from bcs_scheduler.api.routes import operations
from tests.goanswers import ANSWERS

OWN_SHAPE = {"any", "[]string"}
"""Types of data that has no form of the original: anything, and lists of ids."""


def shape(path: str) -> str:
    return re.sub(r"{[^}]*}|one\b", "{}", path)


def test_every_answer_of_the_table_is_written_in_the_form_of_the_original() -> None:
    known = {(one.method, shape(one.path)): one for one in operations()}
    missing = []
    for route, kind in ANSWERS.items():
        if kind in OWN_SHAPE:
            continue
        method, _, template = route.partition(" ")
        path = re.sub(r"{[^}]*}", "one", template)
        sent = translate(method, path if path.startswith("/v1/") else DRIVER[0] + path, lambda: ())
        assert sent is not None and sent.allowed is None, route
        operation = known[(sent.method, shape(sent.path))]
        answer: Any = (*get_args(operation.answer), operation.answer)[0]
        if (operation.method, operation.path.removeprefix(BASE)) not in answers.ROUTES and answer not in answers.FORMS:
            missing.append(route)
    assert missing == []


def test_every_route_with_a_form_exists() -> None:
    known = {(one.method, one.path.removeprefix(BASE)) for one in operations()}
    assert [route for route in answers.ROUTES if route not in known] == []
