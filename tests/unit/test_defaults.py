"""Every default is written once: settings, options, the executor's model, the example file and the documents agree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bcs_scheduler import service
from bcs_scheduler.api.admission import Admission
from bcs_scheduler.api.http.operation import ApiSettings as ApiOptions
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.executor import model
from bcs_scheduler.mesos.launches.executor_info import ExecutorOptions
from bcs_scheduler.mesos.settings import MesosSettings as MesosOptions
from bcs_scheduler.settings.config import OPTIONS
from bcs_scheduler.settings.sections import ExecutorSettings, Settings
from bcs_scheduler.version import VERSION
from store.records import definition, objects
from store.records.workloads import Strategy
from transactions.resource_request import EXECUTOR

TOP = Path(__file__).parents[2]
DEFAULT = Settings()
WORDS = {"a week": 604_800, "a day": 86_400, "an hour": 3_600, "1 MiB": 1024 * 1024}
VALUE = r"(?P<value>\d[\d,.]*|a week|a day|an hour)(?: s| kB| bytes)?(?: by default)?"
SETTING = r"`(?P<path>[a-z]+\.[a-z_]+)`"
WITH_DEFAULT = (
    re.compile(rf"{SETTING}(?: seconds)? \({VALUE}\)"),  # `mesos.patience` (60 s)
    re.compile(rf"{SETTING}, {VALUE}\)"),  # (kept for `scheduler.transaction_retention`, a day)
    re.compile(rf"{VALUE} \w+ \({SETTING}\)"),  # 2,000 applications (`metrics.application_series`)
)


def test_an_operator_without_a_file_gets_the_defaults_of_the_options() -> None:
    assert service.core_options(DEFAULT) == CoreOptions()
    assert service.mesos_settings(DEFAULT, "") == MesosOptions(master=DEFAULT.mesos.url)
    fetched = Settings(executor=ExecutorSettings(url="file:///bcs-executor.pyz"))
    assert service.executor_options(fetched, "") == ExecutorOptions(uri=fetched.executor.url, cache=False)
    assert service.api_options(DEFAULT) == ApiOptions(version=VERSION)
    admission = Admission()
    assert (DEFAULT.webhooks.local, DEFAULT.webhooks.total_timeout) == (admission.local, admission.total)
    assert admission.limit == DEFAULT.api.max_body_bytes == ApiOptions().max_body


def test_the_options_of_the_program_carry_the_traits_of_its_cluster_manager() -> None:
    """A standby has no cluster manager, and counts quotas as the leader does."""
    traits = service.driver_factory(DEFAULT, "http://127.0.0.1:8080")(lambda *events: None).traits
    assert service.core_options(DEFAULT).traits == traits
    assert service.api_options(DEFAULT).overhead == traits.overhead == EXECUTOR


def test_the_executor_assumes_what_the_scheduler_sends_by_default() -> None:
    """The executor imports nothing of the scheduler, so it writes these numbers a second time."""
    group, options = model.Group(), ExecutorOptions(uri="")
    assert (group.report_interval, group.log_max_bytes, group.log_files, group.docker) == (
        options.report_interval,
        options.log_max_bytes,
        options.log_files,
        options.docker,
    )
    assert model.Message().output_limit == DEFAULT.executor.output_limit
    assert model.Message().timeout == CoreOptions().answer_timeout


def documented() -> list[tuple[str, str, str]]:
    """(file, setting, default) of each place in the documents that names a setting with its default."""
    found = []
    for path in sorted([TOP / "README.md", *TOP.glob("docs/**/*.md")]):
        text = " ".join(path.read_text(encoding="utf-8").split())
        for pattern in WITH_DEFAULT:
            found += [(path.name, m["path"], m["value"]) for m in pattern.finditer(text) if m["path"] in OPTIONS]
    return found


def number(words: str) -> float:
    return WORDS[words] if words in WORDS else float(words.rstrip(".,").replace(",", ""))


def test_the_documents_name_the_defaults_of_the_code() -> None:
    places = documented()
    wrong = [(*place, OPTIONS[place[1]].default) for place in places if number(place[2]) != OPTIONS[place[1]].default]
    assert wrong == []
    assert len(places) >= 15 and len({setting for _, setting, _ in places}) >= 10


def test_the_words_of_the_example_file_are_its_values() -> None:
    """Such as "Default: a week." above 604800.0; that the values are the code's is a test of test_config.py."""
    lines = (TOP / "conf" / "scheduler.toml").read_text(encoding="utf-8").splitlines()
    told = [
        (match[1], lines[at + 1].partition(" = ")[2])
        for at, line in enumerate(lines)
        if (match := re.search(r"Default: ([^.]+)\.", line))
    ]
    assert len(told) == 4
    for words, value in told:
        assert float(value) == WORDS[words], (words, value)


@pytest.mark.parametrize(
    ("section", "field", "default"),
    [
        ("| Field | Default | Meaning |", "killPolicy.gracePeriod", definition.KillPolicy().grace_period),
        ("| Field | Default | Meaning |", "killPolicy.shutdownDelaySeconds", definition.KillPolicy().shutdown_delay),
        ("| Field | Default | Meaning |", "restartPolicy", definition.RestartPolicy().policy),
        ("| Process field |", "startGracePeriod", definition.Process(start="x").start_grace),
        ("| `spec.strategy.rollingupdate` |", "maxUnavailable", Strategy().max_unavailable),
        ("| `spec.strategy.rollingupdate` |", "maxSurge", Strategy().max_surge),
        ("| `spec.strategy.rollingupdate` |", "upgradeDuration", Strategy().pause),
        ("| Field of kind `admissionwebhook` |", ".timeoutSeconds", objects.Hook(name="h", url="u").timeout),
    ],
)
def test_the_tables_of_documents_name_the_defaults_of_the_records(section: str, field: str, default: object) -> None:
    text = (TOP / "docs" / "api.md").read_text(encoding="utf-8")
    table = text[text.index(section) :].partition("\n\n")[0]
    row = next(line for line in table.splitlines() if line.startswith(f"| `{field}`"))
    told = row.split("|")[2].strip().strip("`")
    assert told == (f"{default:g}" if isinstance(default, int | float) else default)
