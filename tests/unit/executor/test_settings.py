"""executor.settings: settings are read from the environment."""

from __future__ import annotations

import pytest

from bcs_scheduler.executor.settings import Settings, SettingsError, duration

ENVIRONMENT = {"MESOS_AGENT_ENDPOINT": "10.0.0.4:5051", "MESOS_FRAMEWORK_ID": "f", "MESOS_EXECUTOR_ID": "e"}


@pytest.mark.parametrize(
    ("text", "seconds"), [("15mins", 900.0), ("10secs", 10.0), ("0.5secs", 0.5), ("200ms", 0.2), ("1hrs", 3600.0)]
)
def test_durations(text: str, seconds: float) -> None:
    assert duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "secs", "5 parsecs", "mins5"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(SettingsError):
        duration(text)


def test_what_is_absent_has_the_defaults_of_mesos() -> None:
    settings = Settings.of(ENVIRONMENT)
    assert (settings.checkpoint, settings.recovery_timeout, settings.shutdown_grace) == (False, 900.0, 5.0)
    assert settings.domain_socket == settings.token == ""


@pytest.mark.parametrize("name", sorted(ENVIRONMENT))
def test_what_must_be_there(name: str) -> None:
    with pytest.raises(SettingsError, match=name):
        Settings.of({**ENVIRONMENT, name: ""})


def test_an_endpoint_without_port() -> None:
    with pytest.raises(SettingsError, match="host:port"):
        Settings.of({**ENVIRONMENT, "MESOS_AGENT_ENDPOINT": "10.0.0.4"})


def test_the_token_is_not_shown() -> None:
    settings = Settings.of({**ENVIRONMENT, "MESOS_EXECUTOR_AUTHENTICATION_TOKEN": "hunter2"})
    assert settings.token == "hunter2"
    assert "hunter2" not in repr(settings)
