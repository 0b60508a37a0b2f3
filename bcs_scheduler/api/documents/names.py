"""The rule for names and namespaces, and for label and variable names.

Ids are split on ``.`` and appear in paths, so names are DNS-like labels (bcs_api section 1, W20).
"""

from __future__ import annotations

import re

from bcs_scheduler.api.documents.walk import Problems, member

NAME_LENGTH = 63
DEFAULT_NAMESPACE = "defaultGroup"
"""The original's default, which its users have documents for; the one namespace with an upper-case letter."""
LABEL_KEY_LENGTH = 253
LABEL_VALUE_LENGTH = 4096
NAME_RULE = (
    f"must be lower-case letters, digits and '-', start with a letter, end with a letter or digit, "
    f"and have at most {NAME_LENGTH} characters"
)
REQUEST_IP = "io.tencent.bcs.netsvc.requestip"
_NAME = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?\Z")
_PORT = re.compile(r"[A-Za-z0-9._-]{1,63}\Z")
_VARIABLE = re.compile(r"[^=\0\s]+\Z")


def check_namespace(namespace: str, path: str, problems: Problems) -> None:
    if namespace != DEFAULT_NAMESPACE:
        check_name(namespace, path, problems)


def check_name(name: str, path: str, problems: Problems) -> None:
    if not _NAME.match(name):
        problems.add(path, f"{NAME_RULE}, not {name[:80]!r}")


def check_labels(labels: dict[str, str], path: str, problems: Problems) -> None:
    """Labels and annotations: any text, bounded."""
    for key, value in labels.items():
        at = member(path, key)
        if not key or len(key) > LABEL_KEY_LENGTH:
            problems.add(at, f"a key must have 1 to {LABEL_KEY_LENGTH} characters")
        elif key.startswith(REQUEST_IP):
            problems.add(at, "reserved addresses are not supported by this release")
        if len(value) > LABEL_VALUE_LENGTH:
            problems.add(at, f"has {len(value)} characters, at most {LABEL_VALUE_LENGTH} are allowed")


def check_port_name(name: str, path: str, problems: Problems) -> None:
    """It becomes part of a variable (PORT_<name>) and of templates (``${bcs.ports.<name>}``)."""
    if not _PORT.match(name):
        problems.add(path, "must be a word of letters, digits, '.', '_' and '-', at most 63 long")


def check_variable(name: str, path: str, problems: Problems) -> None:
    if not _VARIABLE.match(name):
        problems.add(path, "must be the name of an environment variable: not empty, without '=' or blanks")
