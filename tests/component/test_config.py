"""Settings: precedence, conversion, and the one line that names what is wrong."""

from __future__ import annotations

import io
import json
import logging
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
import structlog
from click.testing import CliRunner

from bcs_scheduler.main import main
from bcs_scheduler.net.addresses import parse_address
from bcs_scheduler.observability.logs import PACKAGES, configure_logging
from bcs_scheduler.settings.command_line import read_settings
from bcs_scheduler.settings.config import OPTIONS, Option, load_settings, unknown_variables
from bcs_scheduler.settings.sections import ConfigError, LogSettings, Settings

CONF = Path(__file__).parents[2] / "conf" / "scheduler.toml"


def refusal(
    tmp_path: Path,
    file: str | None = None,
    environ: Mapping[str, str] | None = None,
    flags: dict[str, object] | None = None,
) -> str:
    path = None
    if file is not None:
        path = tmp_path / "s.toml"
        path.write_text(file)
    with pytest.raises(ConfigError) as caught:
        load_settings(path, environ or {}, flags or {})
    message = str(caught.value)
    assert "\n" not in message
    return message.replace(f"{tmp_path}/", "")


def test_flag_wins_over_environment_over_file_over_default(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(
        'cluster = "file"\n[mesos]\nurl = "http://file:1"\nuser = "file"\n'
        '[api]\nlisten = "file:1"\n[log]\nlevel = "debug"\n'
    )
    environ = {"BCS_MESOS_URL": "http://env:2", "BCS_API_LISTEN": "env:2", "PATH": "/bin"}
    environ["BCS_API_ALLOW_ANONYMOUS"] = "true"
    settings = load_settings(path, environ, {"api.listen": "flag:3", "mesos.url": None})
    assert settings.api.listen == "flag:3"
    assert settings.mesos.url == "http://env:2"
    assert (settings.cluster, settings.mesos.user, settings.log.level) == ("file", "file", "debug")
    assert settings.scheduler == Settings().scheduler


def test_text_is_read_as_the_type_of_the_option() -> None:
    environ = {
        "BCS_MESOS_ROLES": "web, batch",
        "BCS_MESOS_GPU": "true",
        "BCS_API_MAX_BODY_BYTES": "2048",
        "BCS_SCHEDULER_OFFER_HOLD": "2.5",
        "BCS_METRICS_TASKGROUP_LABEL": "1",
    }
    settings = load_settings(None, environ, {"scheduler.scoring": "binpack", "scheduler.version_history": 3})
    assert settings.mesos.roles == ("web", "batch")
    assert settings.mesos.gpu is True
    assert settings.metrics.taskgroup_label is True
    assert settings.api.max_body_bytes == 2048
    assert settings.scheduler.offer_hold == 2.5
    assert settings.scheduler.scoring == "binpack"
    assert settings.scheduler.version_history == 3


@pytest.mark.parametrize(
    ("text", "roles"),
    [
        ("web", ("web",)),
        ("web,batch,", ("web", "batch")),
        ('["web", "batch"]', ("web", "batch")),
        (" [ 'web' ] ", ("web",)),
        ("[web], batch", ("[web]", "batch")),  # not an array of TOML
    ],
)
def test_lists_in_the_environment_have_commas_or_are_arrays_of_toml(text: str, roles: tuple[str, ...]) -> None:
    assert load_settings(None, {"BCS_MESOS_ROLES": text}, {}).mesos.roles == roles
    assert load_settings(None, {}, {"mesos.roles": text}).mesos.roles == roles


def test_an_array_of_other_types_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"environment BCS_MESOS_ROLES: expected text, got a whole number"):
        load_settings(None, {"BCS_MESOS_ROLES": '["web", 3]'}, {})


@pytest.mark.parametrize(
    ("file", "message"),
    [
        (
            "[scheduler]\noffer_hodl = 1",
            "s.toml: scheduler.offer_hodl: unknown setting (did you mean scheduler.offer_hold?)",
        ),
        ("offer_hold = 1", "s.toml: offer_hold: unknown setting (did you mean scheduler.offer_hold?)"),
        ("[schedulr]\noffer_hold = 1", "s.toml: schedulr: unknown section (did you mean scheduler?)"),
        ("[zzz]\nx = 1", "s.toml: zzz: unknown section"),
        ("store = 3", "s.toml: store: is a section, write [store]"),
        ("[store]\nurl = 3", "s.toml: store.url: expected text, got a whole number (given: 3)"),
        ("[scheduler]\noffer_hold = '3'", "s.toml: scheduler.offer_hold: expected a number, got text (given: '3')"),
        ("[scheduler]\noffer_hold = nan", "s.toml: scheduler.offer_hold: expected a number >= 0.0 (given: nan)"),
        ("[log]\nformat = 'jsn'", "s.toml: log.format: 'jsn' is not one of json, console (did you mean json?)"),
        ("[mesos]\nroles = []", "s.toml: mesos.roles: expected a list of length >= 1 (given: [])"),
        ("[mesos]\nroles = ['a', 'a']", "s.toml: mesos.roles: a role is named twice"),
        ("[mesos]\nsecret_file = '/x'", "s.toml: mesos.secret_file: a secret needs mesos.principal too"),
        (
            "[scheduler]\nkill_retry_max = 1",
            "s.toml: scheduler.kill_retry_max: must not be less than scheduler.kill_retry",
        ),
    ],
)
def test_a_wrong_file_is_refused_by_name(tmp_path: Path, file: str, message: str) -> None:
    assert refusal(tmp_path, file) == message


def test_broken_and_missing_files_are_named(tmp_path: Path) -> None:
    assert refusal(tmp_path, "a = ").startswith("s.toml: not a TOML file: ")
    with pytest.raises(ConfigError, match=r"nowhere\.toml: cannot read the settings: No such file or directory"):
        load_settings(tmp_path / "nowhere.toml", {}, {})


def test_variables_of_other_programs_are_named_and_do_not_stop_the_start() -> None:
    environ = {
        "BCS_API_LISTN": "x",
        "BCS_SERVICE_HOST": "10.0.0.1",
        "BCS_MESOS_USER": "nobody",
        "BCS_SERVER": "x",
        "BCSX": "1",
    }
    assert load_settings(None, environ, {}).mesos.user == "nobody"
    lines = unknown_variables(environ)
    assert lines[0] == "environment BCS_API_LISTN: unknown setting, ignored (did you mean BCS_API_LISTEN?)"
    assert [line.split(":")[0] for line in lines] == ["environment BCS_API_LISTN", "environment BCS_SERVICE_HOST"]


def test_the_start_goes_on_with_a_warning(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("BCS_SERVICE_HOST", "10.0.0.1")
    read_settings(None, {})
    assert "bcs-scheduler: warning: environment BCS_SERVICE_HOST: unknown setting, ignored" in capsys.readouterr().err


def test_wrong_environment_and_flags_are_refused_by_name(tmp_path: Path) -> None:
    wrong = refusal(tmp_path, environ={"BCS_SCHEDULER_OFFER_HOLD": "inf"})
    assert wrong == "environment BCS_SCHEDULER_OFFER_HOLD: expected a number <= 315360000.0 (given: 'inf')"
    assert refusal(tmp_path, flags={"api.listen": "8080"}) == "flag --api: '8080' is not host:port"
    flag = refusal(tmp_path, flags={"scheduler.scoring": "bin"})
    assert flag.startswith("flag --scheduler-scoring: 'bin' is not one of spread, binpack")


def test_variables_of_other_programs_are_left_alone() -> None:
    environ = {"BCS_SERVER": "http://x", "BCS_POD_ID": "0.a", "BCSX": "1", "HOME": "/"}
    assert load_settings(None, environ, {}) == Settings()


def test_the_secret_is_read_at_the_start(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    flags: dict[str, object] = {"mesos.principal": "bcs", "mesos.secret_file": str(secret)}
    assert refusal(tmp_path, flags=flags).startswith("mesos.secret_file: cannot read secret: No such file")
    secret.write_text("s3cret\n")
    assert load_settings(None, {}, flags).mesos.secret() == "s3cret"


def test_store_urls_are_checked_by_the_store(tmp_path: Path) -> None:
    for url in ("memory:", f"sqlite:///{tmp_path}/x.db", "zk://a:1,b:2/bcs"):
        assert load_settings(None, {}, {"store.url": url}).store.url == url
    assert list(tmp_path.iterdir()) == []
    message = refusal(tmp_path, environ={"BCS_STORE_URL": "redis://x"})
    assert message.startswith("environment BCS_STORE_URL: store URL 'redis://x' is not understood")


@pytest.mark.parametrize(
    "text",
    ["http://m1", "http://m1:5050", "http://m1,m2:15050/", "zk://z1:2181,[::1]:2182/mesos", "zk://u:p@z1/mesos/x"],
)
def test_mesos_urls(text: str) -> None:
    assert load_settings(None, {}, {"mesos.url": text}).mesos.url == text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("m1:5050", "is not a Mesos URL"),
        ("https://m1", "is not a Mesos URL"),
        ("zk://z1:2181", "has no path"),
        ("zk://z1:2181/", "has no path"),
        ("http://", "is not host:port"),
        ("http://m1:99999", "no valid port"),
        ("http://m1:0", "port 0 cannot be reached"),
        ("http://m1,,m2", "is not host:port"),
        ("zk://z1:b/mesos", "no valid port"),
    ],
)
def test_wrong_mesos_urls(tmp_path: Path, text: str, problem: str) -> None:
    message = refusal(tmp_path, flags={"mesos.url": text})
    assert message.startswith("flag --mesos: ")
    assert problem in message


def test_addresses_print_as_they_are_read() -> None:
    for text in ("127.0.0.1:80", "[::1]:80", "host:65535"):
        assert str(parse_address(text)) == text
    with pytest.raises(ValueError, match="port 0"):
        parse_address("host:0")


def test_the_example_file_is_the_defaults_and_names_every_option() -> None:
    assert load_settings(CONF, {}, {}) == Settings()
    document = tomllib.loads(CONF.read_text())
    named = {f"{name}.{key}" for name, value in document.items() if isinstance(value, dict) for key in value}
    named |= {name for name, value in document.items() if not isinstance(value, dict)}
    assert named == set(OPTIONS)


def test_the_example_file_explains_every_option() -> None:
    """A comment stands above each option, or above the one it belongs to directly."""
    lines = CONF.read_text().splitlines()
    for number, line in enumerate(lines):
        if re.match(r"\w+ = ", line):
            above = lines[number - 1]
            assert above.startswith("#") or re.match(r"\w+ = ", above), line


UNITS = {float: ("Seconds ", "Requests per second ", "Part of "), int: ("Number of ", "Number that ", "Bytes ", "kB ")}
"""First words of the descriptions of numbers."""


@pytest.mark.parametrize("option", OPTIONS.values(), ids=list(OPTIONS))
def test_every_setting_is_described_in_one_line_with_its_unit(option: Option) -> None:
    assert 10 < len(option.help) <= 74 and "\n" not in option.help and option.help.endswith(".")
    if type(option.default) in UNITS:
        assert option.help.startswith(UNITS[type(option.default)])


@pytest.mark.parametrize("option", OPTIONS.values(), ids=list(OPTIONS))
def test_the_shown_default_is_the_default(option: Option) -> None:
    settings: object = load_settings(None, {}, {option.path: option.shown_default})
    for part in option.path.split("."):
        settings = getattr(settings, part)
    assert settings == option.default


def test_the_help_shows_each_setting_in_two_lines_of_80_columns() -> None:
    lines = CliRunner().invoke(main, ["serve", "--help"]).output.splitlines()
    assert max(map(len, lines)) <= 80
    for option in OPTIONS.values():
        at = lines.index(f"  {option.flag} VALUE [default: {option.shown_default or 'empty'}]")
        assert lines[at + 1].strip() == option.help


def test_the_example_file_names_the_units_of_the_descriptions() -> None:
    """The comment above a setting, or above the settings that share it, has the unit that the description begins with.
    The first comment of [transactions] has the unit of all its settings."""
    words = {"Seconds": "second", "Requests": "requests", "Bytes": "bytes|size of a file", "kB": "kB"}
    section, comment, first, checked = "", "", "", set[str]()
    before = ""
    for line in CONF.read_text().splitlines():
        if found := re.match(r"\[(\w+)\]", line):
            section, first = f"{found[1]}.", ""
        elif line.startswith("#"):
            comment = comment + line if before.startswith("#") else line
        elif found := re.match(r"(\w+) = ", line):
            first = first or comment
            unit = words.get(OPTIONS[section + found[1]].help.split()[0])
            if unit is not None:
                checked.add(section + found[1])
                text = first + comment if section == "transactions." else comment
                assert re.search(unit, text, re.IGNORECASE), section + found[1]
        before = line
    assert checked == {path for path, option in OPTIONS.items() if option.help.split()[0] in words}


def test_names_of_options_follow_one_rule() -> None:
    option = OPTIONS["scheduler.offer_hold"]
    assert (option.variable, option.flag, option.default) == ("BCS_SCHEDULER_OFFER_HOLD", "--scheduler-offer-hold", 5.0)
    flags = [option.flag for option in OPTIONS.values()]
    assert len(set(flags)) == len(flags)
    assert {"--cluster", "--mesos", "--store", "--api"} <= set(flags)
    values = msgspec.to_builtins(Settings()).values()
    assert len(OPTIONS) == sum(len(value) if isinstance(value, dict) else 1 for value in values)


@pytest.fixture
def restored_logging() -> object:
    root, ours = logging.getLogger(), [logging.getLogger(name) for name in PACKAGES]
    before, levels = (root.handlers[:], root.level), [logger.level for logger in ours]
    yield None
    root.handlers[:], root.level = before
    for logger, level in zip(ours, levels, strict=True):
        logger.setLevel(level)


@pytest.mark.usefixtures("restored_logging")
def test_json_logs_carry_context_and_those_of_libraries_too() -> None:
    stream = io.StringIO()
    configure_logging(LogSettings(format="json"), stream)
    with structlog.contextvars.bound_contextvars(cause="api-1"):
        structlog.get_logger(component="core").info("taskgroup launched", taskgroup="0.web")
        logging.getLogger("kazoo.client").warning("connection %s", "dropped")
        logging.getLogger("kazoo.client").info("not shown")
    structlog.get_logger(component="core").debug("not shown")
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert first["message"] == "taskgroup launched"
    assert (first["component"], first["taskgroup"], first["cause"]) == ("core", "0.web", "api-1")
    assert (second["message"], second["component"], second["level"]) == (
        "connection dropped",
        "kazoo.client",
        "warning",
    )
    assert second["cause"] == "api-1"


@pytest.mark.usefixtures("restored_logging")
def test_the_level_debug_is_for_our_own_packages_only() -> None:
    """Libraries write headers, queries and frames at lower levels."""
    stream = io.StringIO()
    configure_logging(LogSettings(level="debug"), stream)
    for name in ("uvicorn.error", "websockets.server", "kazoo.client", "httpcore.http11", "asyncio", "another"):
        for level in (logging.DEBUG, logging.INFO):
            assert not logging.getLogger(name).isEnabledFor(level), name
        assert logging.getLogger(name).isEnabledFor(logging.WARNING)
    for name in ("store.sqlite.store", "bcs_scheduler.local.cluster"):
        assert logging.getLogger(name).isEnabledFor(logging.DEBUG), name
    configure_logging(LogSettings(level="error"), stream)
    for name in ("uvicorn.error", "store.sqlite.store"):
        assert not logging.getLogger(name).isEnabledFor(logging.WARNING), name


@pytest.mark.usefixtures("restored_logging")
def test_console_logs_do_not_print_local_variables() -> None:
    stream = io.StringIO()
    configure_logging(LogSettings(format="console"), stream)
    secret = "".join(["hush", "-", "hush"])
    try:
        raise RuntimeError("broken")
    except RuntimeError:
        structlog.get_logger(component="core").exception("went wrong")
    assert "RuntimeError: broken" in stream.getvalue()
    assert secret not in stream.getvalue()
