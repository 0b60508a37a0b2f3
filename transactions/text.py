"""Parts of messages for people."""

from __future__ import annotations

from store.ids import transaction_name


def counted(number: int, noun: str) -> str:
    """Returns the number with the noun, in the plural if the number is not 1: ``1 agent``, ``2 agents``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def are(number: int) -> str:
    """Returns the verb after a number: ``is`` after 1, else ``are``."""
    return "is" if number == 1 else "are"


def have(number: int) -> str:
    """Returns the verb after a number: ``has`` after 1, else ``have``."""
    return "has" if number == 1 else "have"


OPERATIONS = {"INNERSCALE": "step of an update", "FILL": "launch of missing taskgroups"}
"""Words for the types of transactions whose names mean nothing to users."""
VERDICTS = {
    "INIT": "is in progress",
    "FINISH": "finished",
    "FAIL": "failed",
    "TIMEOUT": "timed out",
    "CANCEL": "was cancelled",
    "SUPERSEDED": "was superseded",
}


def operation(type: str) -> str:
    """Returns the word for a type of transaction, such as ``launch``."""
    return OPERATIONS.get(type, type.lower())


def named(type: str, identity: str) -> str:
    """Returns the word for a type of transaction with its short name, such as ``launch 659201``. `identity`: id of the
    transaction."""
    return f"{operation(type)} {transaction_name(identity)}"


def verdict(status: str) -> str:
    """Returns the word for the status of a transaction, as a verb: ``timed out``."""
    return VERDICTS.get(status, status.lower())


_UNITS = ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def duration(seconds: float) -> str:
    """Returns seconds in the two largest units, rounded down: ``45s``, ``3m12s``, ``23h59m``, ``12d4h``. Less than a
    second is shown with one digit: ``0.5s``. Negative seconds count as 0."""
    if 0 < seconds < 1:
        return f"{seconds:.1g}s"
    rest = max(0, int(seconds))
    parts: list[str] = []
    for size, unit in _UNITS:
        amount, rest = divmod(rest, size)
        if parts or amount:
            parts.append(f"{amount}{unit}" if amount else "")
    return "".join(parts[:2]) or "0s"
