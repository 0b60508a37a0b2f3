"""Reads the settings of `bcs-scheduler` (bcs_scheduler.settings.sections) from file, environment and flags.

Every option can be given as a flag, an environment variable or in a TOML file; a flag wins over the environment, the
environment over the file, the file over the default. An option is named by its path (``scheduler.offer_hold``), from
which follow the variable (``BCS_SCHEDULER_OFFER_HOLD``) and the flag (``--scheduler-offer-hold``; a few have a short
one).
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_origin, get_type_hints

import msgspec

from bcs_scheduler.net.addresses import check_file_url, check_mesos_url, parse_address, parse_http_url
from bcs_scheduler.publishing.target import parse_target
from bcs_scheduler.settings.cross_field_checks import broken_rules
from bcs_scheduler.settings.sections import ConfigError, Help, Section, Settings, reason
from store.factory import open_store


class Option(NamedTuple):
    """One setting under its three names. Values are converted to `type`. `help` is the description in one line."""

    path: str
    type: Any
    default: Any
    help: str

    @property
    def variable(self) -> str:
        return "BCS_" + self.path.replace(".", "_").upper()

    @property
    def flag(self) -> str:
        return SHORT_FLAGS.get(self.path) or "--" + self.path.replace(".", "-").replace("_", "-")

    @property
    def shown_default(self) -> str:
        """The default as a value of the flag."""
        match self.default:
            case bool(value):
                return "true" if value else "false"
            case float(value):
                return f"{value:.15g}"
            case tuple(values):
                return ",".join(values)
        return str(self.default)


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
        "BCS_DEV_PORTS",  # of `bcs-scheduler dev`
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
            yield Option(name, type_, value, _help_of(type_))
            continue
        for key, inner in get_type_hints(type(value), include_extras=True).items():
            yield Option(f"{name}.{key}", inner, getattr(value, key), _help_of(inner))


def _help_of(type_: Any) -> str:
    return next(note.text for note in type_.__metadata__ if isinstance(note, Help))


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
        raise ConfigError(f"{path}: cannot read the settings: {reason(error)}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not a TOML file: {reason(error)}") from None
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
    return [f"environment {name}: unknown setting, ignored{_nearest(name, known)}" for name in names]


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
        value = _items(value)
    try:
        converted = msgspec.convert(value, option.type, strict=not lax)
        if option.path in _CHECKS:
            _CHECKS[option.path](converted)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{origin}: {_plain(str(error), value, option)}") from None
    except ValueError as error:
        raise ConfigError(f"{origin}: {error}") from None
    return converted


def _items(text: str) -> list[Any]:
    """The items of a list in a flag or the environment: an array of TOML, or texts with commas between them."""
    if text.lstrip().startswith("["):
        with suppress(tomllib.TOMLDecodeError):  # "[::1]:5050" is a text
            return list(tomllib.loads(f"items = {text}")["items"])
    return [item.strip() for item in text.split(",") if item.strip()]


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
