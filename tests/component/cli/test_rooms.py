"""The modules of the command line: without circles, and loaded when they are used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from bcs_scheduler.cli.client.kinds import BY_DOCUMENT
from bcs_scheduler.cli.client.kinds import KINDS as ALL_KINDS
from bcs_scheduler.cli.kinds.registry import functions_of, operations_of
from tests.component.cli.standin import APPS, StandIn, application, ok

ROOT = Path(__file__).parents[3]
CLI = ROOT / "bcs_scheduler" / "cli"
SERVER = ("bcs_scheduler.api", "bcs_scheduler.core", "offers", "transactions", "starlette", "kazoo", "numpy")


def loaded_by(program: str, names: tuple[str, ...]) -> list[str]:
    """Which of these packages a new interpreter has after the program."""
    after = f"\nimport sys\nprint([name for name in {names!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program + after], capture_output=True, text=True, check=True, cwd=ROOT)
    found: list[str] = ast.literal_eval(done.stdout.splitlines()[-1])
    return found


def test_modules_import_each_other_in_no_circle() -> None:
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in CLI.rglob("*.py")}
    imports = {name: _imports(path, set(names)) for name, path in names.items()}
    while imports:
        free = {name for name, needed in imports.items() if not needed & set(imports)}
        assert free, f"a circle among {sorted(imports)}"
        imports = {name: needed for name, needed in imports.items() if name not in free}


def _imports(path: Path, known: set[str]) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {name for alias in node.names if (name := f"{node.module}.{alias.name}") in known}
            found |= {node.module} & known
    return found


LIBRARIES = (
    "requests",
    "urllib3",
    "rich",
    "yaml",
    "jinja2",
    "msgspec",
    "structlog",
    "asyncio",
    "jsonpath_ng",
    "tomlkit",
    "http.client",
    "email",
    "ssl",
    "shutil",
    "random",
    "encodings.idna",
)
"""What no common command loads. The first ten take as long as a tenth of the time that a command may take; http.client,
with email and ssl, a fifth; the others some milliseconds."""
UNUSED = (
    "bcs_scheduler.cli.commands.suggestions",
    "bcs_scheduler.cli.crashes",
    "bcs_scheduler.cli.document_files",
    "bcs_scheduler.cli.documents",
    "bcs_scheduler.cli.kinds.workloads.application_operations",
    "bcs_scheduler.cli.kinds.workloads.deployment_operations",
    "bcs_scheduler.cli.kinds.workloads.events",
    "bcs_scheduler.cli.output.expressions",
    "bcs_scheduler.cli.waiting",
)
"""Modules for changes, waits, events and completions, which a list of applications does not need."""
KINDS = ("agents", "commands", "configuration", "extensions", "services")


def test_help_loads_no_library_but_click() -> None:
    program = "from bcs_scheduler.cli.main import run\nassert run(['--help']) == 0"
    libraries = set(LIBRARIES) - {"shutil"}  # click asks shutil for the width
    assert loaded_by(program, (*SERVER, *libraries, "store", "httptools")) == []


@pytest.mark.parametrize("words", ["get app", "get app web -o json", "get app -A --sort-by age", "get app web -o name"])
def test_a_list_with_its_answer_loads_neither_other_kinds_nor_libraries(server: StandIn, words: str) -> None:
    server.on("GET", APPS, ok([application()]))
    server.on("GET", "/applications", ok([application()]))
    server.on("GET", f"{APPS}/web", ok(application()))
    program = (
        f"from bcs_scheduler.cli.main import run\nassert run(['--server', {server.url!r}, *{words.split()!r}]) == 0"
    )
    others = tuple(f"bcs_scheduler.cli.kinds.objects.{kind}" for kind in KINDS)
    assert loaded_by(program, (*SERVER, *LIBRARIES, *UNUSED, *others)) == []


def test_completion_of_names_loads_no_other_kind_and_no_library(server: StandIn) -> None:
    server.on("GET", APPS, ok([application()]))
    variables = {"_BCS_COMPLETE": "bash_complete", "COMP_WORDS": "bcs get app w", "COMP_CWORD": "3"}
    program = (
        f"import os\nos.environ |= {{'BCS_SERVER': {server.url!r}}} | {variables!r}\n"
        "from bcs_scheduler.cli.main import run\nassert run([]) == 0"
    )
    lists = ("bcs_scheduler.cli.kinds.workloads.applications", "bcs_scheduler.cli.commands.reading.lists")
    assert loaded_by(program, (*SERVER, *LIBRARIES, *lists)) == []
    assert [request.path for request in server.seen] == [APPS]


def test_every_kind_has_the_functions_that_its_properties_promise() -> None:
    for name, kind in ALL_KINDS.items():
        functions = functions_of(name)
        assert functions.read is not None or kind.scope == "alone", name
        assert bool(functions.columns) != kind.printed, name
    assert all(operations_of(document).delete is not None for document in BY_DOCUMENT)


def test_every_module_is_loaded_without_the_server() -> None:
    modules = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in CLI.rglob("*.py")]
    program = "import importlib\n" + "\n".join(f"importlib.import_module({name!r})" for name in sorted(modules))
    assert loaded_by(program, SERVER) == []


def test_every_completion_exists() -> None:
    from bcs_scheduler.cli.commands import arguments, suggestions

    names = [name for name in vars(arguments) if getattr(vars(arguments)[name], "__name__", "") == "complete"]
    assert "kinds_and_names" in names
    assert [name for name in names if not hasattr(suggestions, name)] == []
