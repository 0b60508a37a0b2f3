"""What conf/ ships fits what the code knows: example documents, alerting rules."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from bcs_scheduler.api.documents.validate import read_application
from bcs_scheduler.cli.documents import load_documents

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "conf" / "examples").iterdir())


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_document_is_accepted(path: Path) -> None:
    for document in load_documents([str(path)], "defaultGroup"):
        read = read_application(document.body, namespace=document.namespace, creating=True)
        assert read.metadata.name == document.name


def test_the_second_version_of_the_example_differs_in_version_and_number_only() -> None:
    first, second = (load_documents([str(ROOT / f"conf/examples/web{v}.json")], "d")[0].body for v in ("", "-v2"))

    def parts(body: dict[str, Any]) -> tuple[int, str]:
        return body["spec"].pop("instance"), body["spec"]["template"]["spec"]["containers"][0]["env"].pop(0)["value"]

    assert (parts(first), parts(second)) == ((5, "v1"), (8, "v2"))
    assert first == second


def test_alerting_rules_name_metrics_that_exist() -> None:
    rules = yaml.safe_load((ROOT / "conf/prometheus-rules.yaml").read_text())["groups"][0]["rules"]
    sources = "".join((ROOT / f"bcs_scheduler/{name}.py").read_text() for name in ("metrics", "gauges", "series"))
    assert len({rule["alert"] for rule in rules}) == len(rules) > 0
    for rule in rules:
        names = re.findall(r"bkbcs_scheduler_(\w+)", rule["expr"])
        assert names, rule["alert"]
        for name in names:
            plain = re.sub(r"_(total|bucket)$", "", name) if not name.startswith("cluster_") else "cluster_"
            assert f'"{plain}"' in sources or f'"{plain}{{' in sources or f'f"{plain}' in sources, name
