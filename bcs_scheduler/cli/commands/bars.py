"""The picture of `bcs queue top`: one bar for each queue and resource.

    batch   cpus  [█████████▓▓▓      |          ]   4/3/6

The bar stands for the whole cluster; of an extended resource, for the greatest amount of the queue. `█` is used, `▓` is
used above the deserved share, `░` is deserved and not used, `|` is the capability. The numbers are used, deserved and
capability amounts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.output.terminal import UNBOUNDED, Line, Style, Styled

RESOURCES = ("cpus", "mem", "disk", "gpus")
"""The resources in the order in which they are drawn; extended ones follow by name."""
AMOUNTS_OF = ("used", "deserved", "guarantee", "capability")
"""The amounts of a queue."""
USED, ABOVE, UNUSED, FREE, LIMIT = "█", "▓", "░", " ", "|"
SHORTEST, LONGEST = 20, 60
"""Places of a bar without its brackets: enough for a column beside the bar, and on the widest terminal."""
AMOUNTS, TREE_AMOUNTS = "USED/DESERVED/CAPABILITY", "USED/GUARANTEED/MAX"
"""Titles of the numbers, for queues of the policies `session` and `hierarchical`."""
GAP = "  "


class Bars:
    """The bars of queues, as `Client.queue_usage` gives them."""

    def __init__(self, queues: Sequence[Json], *, headers: bool = True, amounts: str = AMOUNTS) -> None:
        """`amounts`: the title of the numbers."""
        self._headers = headers
        self._titles = ("QUEUE", amounts, "WAITING", "WAITING")
        named = {name for queue in queues for field in AMOUNTS_OF for name in queue[field] or {}}
        names = (*RESOURCES, *sorted(named.difference(RESOURCES)))
        shown = [name for name in names if any(_matters(queue, name) for queue in queues)] or ["cpus"]
        self._rows = [(queue, name) for queue in queues for name in shown]

    def lines(self, width: int | None) -> Iterator[Line]:
        """One line for each queue and resource, of at most `width` places; None = no limit. On a narrow terminal the
        bars are shorter, the reasons become one number, and then columns on the right are left out."""
        names, amounts, reasons, numbers = self._columns()
        left = max(map(len, names), default=0) + len(GAP + "[]")
        room = (UNBOUNDED if width is None else width) - left
        bar, columns = _fitted(room, ((amounts, reasons), (amounts, numbers), (amounts,), ()))
        head = int(self._headers)
        sizes = [max(map(len, column), default=0) for column in columns]
        for number, name in enumerate(names):
            style: Style = "bold" if number < head else ""
            first = Styled(name.ljust(left - 2), style)
            cells = (GAP + column[number].ljust(size) for column, size in zip(columns, sizes, strict=True))
            last = Styled("".join(cells).rstrip(), style)
            if number < head:
                yield Line([first, Styled(" " * (bar + 2)), last])
            else:
                yield Line([first, Styled("["), *_bar(*self._rows[number - head], bar), Styled("]"), last])

    def _columns(self) -> tuple[list[str], list[str], list[str], list[str]]:
        """Names with resources; amounts; waiting taskgroups by reason; their number."""
        size = max((len(queue["name"]) for queue, _ in self._rows), default=0)
        names, amounts, reasons, numbers = ([title] if self._headers else [] for title in self._titles)
        last = None
        for queue, resource in self._rows:
            first, last = queue["name"] != last, queue["name"]
            names.append(f"{queue['name'] if first else '':{size}}{GAP}{resource}")
            amounts.append(_numbers(queue, resource))
            pending = queue["pending"] if first else {}
            reasons.append(", ".join(f"{count} {reason.replace('_', ' ')}" for reason, count in pending.items()))
            numbers.append(str(sum(pending.values())) if pending else "")
        return names, amounts, reasons, numbers


def _fitted(room: int, choices: Iterable[tuple[list[str], ...]]) -> tuple[int, tuple[list[str], ...]]:
    """The length of the bars, and the columns beside them that leave enough room."""
    left, columns = room, tuple[list[str], ...]()
    for columns in choices:
        left = room - sum(len(GAP) + max(map(len, column), default=0) for column in columns)
        if left >= SHORTEST:
            break
    return max(1, min(left, LONGEST)), columns


def _bar(queue: Json, resource: str, size: int) -> list[Styled]:
    used, deserved, capability = (_places(queue, field, resource, size) for field in ("used", "deserved", "capability"))
    used, share = used or 0, deserved
    regular = used if share is None else min(used, share)
    kept = max((share or 0) - used, 0)
    pieces = [
        Styled(USED * regular, "green"),
        Styled(ABOVE * (used - regular), "yellow"),
        Styled(UNUSED * kept),
        Styled(FREE * (size - used - kept)),
    ]
    if capability is not None and capability < size:
        return _marked(pieces, capability)
    return pieces


def _marked(pieces: Sequence[Styled], place: int) -> list[Styled]:
    """The pieces with the mark of the capability at a place."""
    found: list[Styled] = []
    for piece in pieces:
        if 0 <= place < len(piece):
            found += [Styled(piece[:place], piece.style), Styled(LIMIT, "red"), Styled(piece[place + 1 :], piece.style)]
        else:
            found.append(piece)
        place -= len(piece)
    return found


def _places(queue: Json, field: str, resource: str, size: int) -> int | None:
    """The end of an amount on the bar; None: the queue has no such amount. An amount above 0 takes a place."""
    amount = (queue[field] or {}).get(resource)
    total = queue["total"].get(resource) or max((queue[one] or {}).get(resource) or 0 for one in AMOUNTS_OF)
    if amount is None:
        return None
    if amount <= 0 or total <= 0:
        return 0
    return min(size, max(1, round(float(amount) / float(total) * size)))


def _matters(queue: Json, resource: str) -> bool:
    amounts = [(queue[field] or {}).get(resource) for field in AMOUNTS_OF]
    return any(amounts)


def _numbers(queue: Json, resource: str) -> str:
    found = [(queue[field] or {}).get(resource) for field in ("used", "deserved", "capability")]
    return "/".join("-" if amount is None else f"{amount:.10g}" for amount in found)
