"""The rule for names and namespaces, and for label and variable names.

Ids are split on ``.`` and appear in paths, so names are DNS-like labels (docs/original.md#names).
"""

from __future__ import annotations

import re

from bcs_scheduler.wire.problems import Problems, member

NAME_LENGTH = 63
LONGEST_NAME = 120
"""Characters of a name. The original has no bound; ids of tasks hold the name, the namespace and the cluster, and Mesos
takes 255 characters."""
DEFAULT_NAMESPACE = "defaultGroup"
"""The original's default, which its users have documents for; the one namespace with an upper-case letter."""
LABEL_KEY_LENGTH = 253
LABEL_KEY = r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?"
"""The keys that selectors of labels can name (`api.reading.query`)."""
LABEL_VALUE_LENGTH = 4096
NAME_RULE = (
    f"must be lower-case letters, digits and '-', start with a letter, end with a letter or digit, "
    f"and have at most {NAME_LENGTH} characters"
)
NAME = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?\Z")
_NAME_OF_THE_ORIGINAL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*\Z")
_PORT = re.compile(r"[A-Za-z0-9._-]{1,63}\Z")
_LABEL_KEY = re.compile(rf"{LABEL_KEY}\Z")
_VARIABLE = re.compile(r"[^=\0\s]+\Z")


def check_namespace(namespace: str, path: str, problems: Problems) -> None:
    if namespace != DEFAULT_NAMESPACE:
        check_name(namespace, path, problems, NAME_LENGTH)


def check_name(name: str, path: str, problems: Problems, longest: int = LONGEST_NAME) -> None:
    """Names that only the original takes are warned of: capitals, '_', a digit in front, more than 63 characters."""
    if NAME.match(name):
        return
    if is_name(name, longest):
        problems.warn(path, f"{NAME_RULE}, not {name[:80]!r}", "the name is accepted, but is not a DNS name")
    else:
        problems.add(path, f"{NAME_RULE}, not {name[:80]!r}")


def is_name(name: str, longest: int = LONGEST_NAME) -> bool:
    """True if an object may have this name, here and in the original."""
    return len(name) <= longest and _NAME_OF_THE_ORIGINAL.match(name) is not None


def check_host_name(name: str, path: str, problems: Problems) -> None:
    """A name that becomes part of the name of a host."""
    if name != DEFAULT_NAMESPACE and not NAME.match(name):
        problems.add(path, f"{NAME_RULE}, not {name[:80]!r}")


def check_labels(labels: dict[str, str], path: str, problems: Problems, *, selected: bool = True) -> None:
    """Labels and selectors: keys that a selector can name, any values; both bounded. `selected` False: annotations,
    whose keys may be any text."""
    for key, value in labels.items():
        if not key or len(key) > LABEL_KEY_LENGTH:
            problems.add(member(path, key), f"a key must have 1 to {LABEL_KEY_LENGTH} characters")
        elif selected and not _LABEL_KEY.match(key):
            words = (
                "must have a key of letters, digits, '.', '_', '-' and '/' that begins and ends with a letter or digit"
            )
            problems.add(member(path, key), f"{words}: selectors cannot name others")
        if len(value) > LABEL_VALUE_LENGTH:
            words = f"has {len(value)} characters, at most {LABEL_VALUE_LENGTH} are allowed"
            problems.add(member(path, key), words)


def check_port_name(name: str, path: str, problems: Problems) -> None:
    """Checks the name of a port, which becomes part of a variable (PORT_<name>) and of templates
    (``${bcs.ports.<name>}``)."""
    if not _PORT.match(name):
        problems.add(path, "must be a word of letters, digits, '.', '_' and '-', at most 63 long")


def check_variable(name: str, path: str, problems: Problems) -> None:
    if not _VARIABLE.match(name):
        problems.add(path, "must be the name of an environment variable: not empty, without '=' or blanks")
