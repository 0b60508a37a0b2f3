"""The settings of `bcs-scheduler`: what exists, its defaults, and where each value came from.

Every option can be given as a flag, an environment variable or in a TOML file; a flag wins over the environment, the
environment over the file, the file over the default. An option is named by its path (``scheduler.offer_hold``), from
which follow the variable (``BCS_SCHEDULER_OFFER_HOLD``) and the flag (``--scheduler-offer-hold``; a few have a short
one). All times are seconds, all sizes bytes. The values are explained in conf/scheduler.toml.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_origin, get_type_hints

import msgspec

from bcs_scheduler.addresses import check_file_url, check_mesos_url, parse_address, parse_http_url
from bcs_scheduler.configrules import broken_rules
from bcs_scheduler.publishing.target import parse_target
from store.factory import open_store

TEN_YEARS = 315_360_000.0
Seconds = Annotated[float, msgspec.Meta(ge=0, le=TEN_YEARS)]
Positive = Annotated[float, msgspec.Meta(gt=0, le=TEN_YEARS)]
Count = Annotated[int, msgspec.Meta(ge=1)]
Name = Annotated[str, msgspec.Meta(min_length=1)]


class ConfigError(Exception):
    """A setting is wrong or unknown. The message is one line that says where it was given, which, and why."""


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the groups of options."""


class StoreSettings(Section, frozen=True, kw_only=True):
    url: Name = "sqlite:////var/lib/bcs-scheduler/state.db"
    session_timeout: Annotated[float, msgspec.Meta(ge=1, le=3600)] = 10.0
    user: str = ""
    password_file: str = ""
    secret_key_file: str = ""

    def password(self) -> str:
        """Of `user`, empty without `password_file`. Raises ConfigError if it cannot be read."""
        return _text_of("store.password_file", self.password_file) if self.password_file else ""


class MesosSettings(Section, frozen=True, kw_only=True):
    url: Name = "http://127.0.0.1:5050"
    framework_name: Name = "bcs"
    user: str = ""
    roles: Annotated[tuple[Name, ...], msgspec.Meta(min_length=1)] = ("*",)
    principal: str = ""
    secret_file: str = ""
    failover_timeout: Seconds = 604800.0
    hostname: str = ""
    webui_url: str = ""
    gpu: bool = False
    heartbeat_tolerance: Count = 5
    patience: Positive = 60.0

    def secret(self) -> str:
        """The secret of `principal`, empty without `secret_file`. Raises ConfigError if it cannot be read."""
        return _text_of("mesos.secret_file", self.secret_file) if self.secret_file else ""


class ApiSettings(Section, frozen=True, kw_only=True):
    listen: Name = "127.0.0.1:8080"
    advertise: str = ""
    max_body_bytes: Count = 1024 * 1024
    request_timeout: Positive = 30.0
    tls_cert: str = ""
    tls_key: str = ""
    tls_client_ca: str = ""
    tokens_file: str = ""
    allow_anonymous: bool = False
    open_metrics: bool = False
    rate_limit: Annotated[float, msgspec.Meta(ge=0, le=1_000_000)] = 0.0
    rate_burst: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 200
    audit_file: str = ""

    @property
    def protected(self) -> bool:
        """Clients have to show who they are."""
        return bool(self.tokens_file or self.tls_client_ca)


class SchedulerSettings(Section, frozen=True, kw_only=True):
    scoring: Literal["spread", "binpack"] = "spread"
    offer_hold: Seconds = 5.0
    refuse_seconds_idle: Seconds = 120.0
    staging_timeout: Positive = 180.0
    silence_timeout: Positive = 720.0
    reconcile_interval: Positive = 900.0
    kill_retry: Positive = 10.0
    kill_retry_max: Positive = 60.0
    transaction_retention: Seconds = 86400.0
    transaction_keep: Count = 50
    transaction_keep_total: Count = 20_000
    command_keep: Count = 100
    command_keep_total: Count = 50_000
    version_history: Count = 10


class TransactionSettings(Section, frozen=True, kw_only=True):
    """Life periods by what the transaction does; afterwards it ends TIMEOUT."""

    default: Positive = 480.0
    launch: Positive = 1800.0
    inner_reschedule: Positive = 86400.0
    rolling_up: Positive = 300.0
    rolling_down: Positive = 7500.0
    inner_delete: Positive = 7500.0
    restart_reset: Positive = 1800.0
    update_delay: Seconds = 0.0


class ExecutorSettings(Section, frozen=True, kw_only=True):
    default: Literal["bcs", "mesos"] = "bcs"
    url: str = ""
    python: Name = "python3"
    docker_socket: Name = "/var/run/docker.sock"
    report_interval: Positive = 300.0
    log_max_bytes: Annotated[int, msgspec.Meta(ge=4096)] = 10 * 1024 * 1024
    log_files: Annotated[int, msgspec.Meta(ge=1, le=100)] = 5
    output_limit: Annotated[int, msgspec.Meta(ge=256, le=65536)] = 16384
    answer_timeout: Positive = 60.0
    reserve: Positive = 604800.0


class HealthSettings(Section, frozen=True, kw_only=True):
    prober: bool = True
    concurrency: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 256


class ServiceSettings(Section, frozen=True, kw_only=True):
    publish: str = ""


class WebhookSettings(Section, frozen=True, kw_only=True):
    local: bool = False
    total_timeout: Annotated[float, msgspec.Meta(ge=0.1, le=300)] = 30.0


class EventSettings(Section, frozen=True, kw_only=True):
    retention: Positive = 86400.0
    keep: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 50_000
    watchers: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 1_000


class AlarmSettings(Section, frozen=True, kw_only=True):
    url: str = ""
    token_file: str = ""
    convergence: Seconds = 600.0
    timeout: Annotated[float, msgspec.Meta(ge=0.1, le=300)] = 10.0


class MetricsSettings(Section, frozen=True, kw_only=True):
    taskgroup_label: bool = False
    application_series: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 2_000
    application_histograms: bool = False


class LogSettings(Section, frozen=True, kw_only=True):
    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["json", "console"] = "console"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that can be set. `cluster` is the BCS cluster id, e.g. ``BCS-MESOS-10001``."""

    cluster: Name = "BCS-LOCAL"
    store: StoreSettings = StoreSettings()
    mesos: MesosSettings = MesosSettings()
    api: ApiSettings = ApiSettings()
    scheduler: SchedulerSettings = SchedulerSettings()
    transactions: TransactionSettings = TransactionSettings()
    executor: ExecutorSettings = ExecutorSettings()
    health: HealthSettings = HealthSettings()
    services: ServiceSettings = ServiceSettings()
    webhooks: WebhookSettings = WebhookSettings()
    events: EventSettings = EventSettings()
    alarms: AlarmSettings = AlarmSettings()
    metrics: MetricsSettings = MetricsSettings()
    log: LogSettings = LogSettings()


class Option(NamedTuple):
    """One setting under its three names. `type` is what a value is converted to."""

    path: str
    type: Any
    default: Any

    @property
    def variable(self) -> str:
        return "BCS_" + self.path.replace(".", "_").upper()

    @property
    def flag(self) -> str:
        return SHORT_FLAGS.get(self.path) or "--" + self.path.replace(".", "-").replace("_", "-")


SHORT_FLAGS = {"store.url": "--store", "mesos.url": "--mesos", "api.listen": "--api"}

FOREIGN_VARIABLES = frozenset(
    {
        "BCS_SERVER",  # of the user's command, like those below
        "BCS_NAMESPACE",
        "BCS_CA_FILE",
        "BCS_TOKEN",
        "BCS_TOKEN_FILE",
        "BCS_CLIENT_CERT",
        "BCS_CLIENT_KEY",
        "BCS_CONFIG",  # names the file itself
        "BCS_CONTAINER_IP",  # a scheduler may itself run as a taskgroup
        "BCS_NODE_IP",
        "BCS_POD_ID",
        "BCS_ETH_NAME",
        "BCS_CNI_NAME",
    }
)
"""Variables that begin like ours but are no settings."""


def _options() -> Iterator[Option]:
    defaults = Settings()
    for name, type_ in get_type_hints(Settings, include_extras=True).items():
        value = getattr(defaults, name)
        if not isinstance(value, Section):
            yield Option(name, type_, value)
            continue
        for key, inner in get_type_hints(type(value), include_extras=True).items():
            yield Option(f"{name}.{key}", inner, getattr(value, key))


OPTIONS: Mapping[str, Option] = {option.path: option for option in _options()}
"""Every option by its path, in the order of the file."""

_CHECKS: Mapping[str, Callable[[str], object]] = {
    "store.url": open_store,  # made, not opened
    "mesos.url": check_mesos_url,
    "mesos.webui_url": lambda text: text and parse_http_url(text),
    "api.listen": lambda text: parse_address(text, allow_zero=True),
    "api.advertise": lambda text: text and parse_http_url(text),
    "executor.url": lambda text: check_file_url(text) if text else None,
    "services.publish": lambda text: text and parse_target(text),
    "alarms.url": lambda text: text and parse_http_url(text),
}


def load_settings(path: Path | str | None, environ: Mapping[str, str], flags: Mapping[str, Any]) -> Settings:
    """Puts the settings together from a file (None: none), the environment and flags.

    `flags` holds values by option path (``"mesos.url"``); a None means the flag was not given. Values may be text, as
    typed, or already of the right type. Raises ConfigError.
    """
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    layers = []
    if path is not None:
        layers.append(_from_file(Path(path)))
    layers += [_from_environment(environ), _from_flags(flags)]
    for layer in layers:
        for name, (origin, value) in layer.items():
            values[name] = _converted(OPTIONS[name], value, origin)
            origins[name] = origin
    tree: dict[str, Any] = {}
    for name, value in values.items():
        section, _, key = name.rpartition(".")
        (tree.setdefault(section, {}) if section else tree)[key] = value
    settings = msgspec.convert(tree, Settings)
    for option, message in broken_rules(settings):
        raise ConfigError(f"{origins.get(option, option)}: {message}")
    return settings


Layer = dict[str, tuple[str, Any]]
"""Option path -> (where it was given, for messages; the value)."""


def _from_file(path: Path) -> Layer:
    try:
        with path.open("rb") as file:
            document = tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the settings: {_reason(error)}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not a TOML file: {_reason(error)}") from None
    layer: Layer = {}
    sections = {name.partition(".")[0] for name in OPTIONS if "." in name}
    for name, value in document.items():
        if name in sections:
            if not isinstance(value, dict):
                raise ConfigError(f"{path}: {name}: is a section, write [{name}]")
            entries = {f"{name}.{key}": inner for key, inner in value.items()}
        else:
            entries = {name: value}
        for option, inner in entries.items():
            if option not in OPTIONS:
                unknown = f"unknown {'section' if isinstance(inner, dict) else 'setting'}"
                raise ConfigError(f"{path}: {option}: {unknown}{_nearest(option, [*OPTIONS, *sections])}")
            layer[option] = (f"{path}: {option}", inner)
    return layer


def _from_environment(environ: Mapping[str, str]) -> Layer:
    """Names that are no settings are left to `unknown_variables`: other programs set such names too."""
    known = {option.variable: option.path for option in OPTIONS.values()}
    return {known[name]: (f"environment {name}", value) for name, value in environ.items() if name in known}


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """One line for each variable that begins like a setting and is none, with the nearest setting. They do not stop the
    start: Kubernetes, for example, sets BCS_SERVICE_HOST in every container beside a service called bcs."""
    known = [option.variable for option in OPTIONS.values()]
    ours = {*known, *FOREIGN_VARIABLES}
    names = sorted(name for name in environ if name.startswith("BCS_") and name not in ours)
    return [f"environment {name}: no setting, ignored{_nearest(name, known)}" for name in names]


def _from_flags(flags: Mapping[str, Any]) -> Layer:
    layer: Layer = {}
    for name, value in flags.items():
        if name not in OPTIONS:
            raise ConfigError(f"flag {name}: unknown setting{_nearest(name, [*OPTIONS])}")
        if value is not None:
            layer[name] = (f"flag {OPTIONS[name].flag}", value)
    return layer


def _converted(option: Option, value: Any, origin: str) -> Any:
    """The value in the option's type. Text from the environment and from flags is read; a file must have the type."""
    lax = origin.startswith(("environment ", "flag "))
    if lax and isinstance(value, str) and get_origin(_bare(option.type)) is tuple:
        value = [item.strip() for item in value.split(",") if item.strip()]
    try:
        converted = msgspec.convert(value, option.type, strict=not lax)
        if option.path in _CHECKS:
            _CHECKS[option.path](converted)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{origin}: {_plain(str(error), value, option)}") from None
    except ValueError as error:
        raise ConfigError(f"{origin}: {error}") from None
    return converted


def _text_of(setting: str, path: str) -> str:
    """A password or the like, without blanks around it. Raises ConfigError."""
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{setting}: cannot read {path}: {_reason(error)}") from None


def _bare(type_: Any) -> Any:
    return type_.__origin__ if get_origin(type_) is Annotated else type_


def _plain(message: str, value: Any, option: Option) -> str:
    """msgspec's message in the words of a settings file, with the value that was given."""
    choices = getattr(_bare(option.type), "__args__", ()) if get_origin(_bare(option.type)) is Literal else ()
    if choices:
        near = _nearest(str(value), list(choices))
        return f"{value!r} is not one of {', '.join(choices)}{near}"
    words = {"`float`": "a number", "`int`": "a whole number", "`bool`": "true or false", "`str`": "text"}
    words |= {"`array`": "a list", "`object`": "a section"}
    message = message.partition(" - at ")[0].replace("Expected", "expected")
    for technical, word in words.items():
        message = message.replace(technical, word)
    return f"{message} (given: {value!r})"


def _nearest(name: str, known: list[str]) -> str:
    """ " (did you mean x?)" with the nearest known name, or nothing. A bare key also finds its section."""
    match = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if not match:
        tail = name.rpartition(".")[2]
        tails = {item.rpartition(".")[2]: item for item in known}
        match = [tails[key] for key in difflib.get_close_matches(tail, list(tails), n=1, cutoff=0.8)]
    return f" (did you mean {match[0]}?)" if match else ""


def _reason(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text.replace("\n", " ")
