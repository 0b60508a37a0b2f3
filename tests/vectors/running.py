"""Runs vectors one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from tests.vectors.adapters import ADAPTERS, Adapter
from tests.vectors.reading import PolicyVector


class Verdict(NamedTuple):
    """Result of one vector: it passes if there are no differences."""

    vector: PolicyVector
    differences: list[str]

    @property
    def line(self) -> str:
        """The one line that the runner prints."""
        name = f"{self.vector.id} [{self.vector.policy}] {self.vector.title}"
        return f"FAILED {name}: {'; '.join(self.differences)}" if self.differences else f"passed {name}"


def judge(vectors: Iterable[PolicyVector], adapters: Mapping[str, Adapter] = ADAPTERS) -> Iterator[Verdict]:
    """The verdicts in the order of the vectors. An adapter that raises fails its vector, and the others still run."""
    for vector in vectors:
        adapter = adapters.get(vector.policy)
        if adapter is None:
            yield Verdict(vector, [f"no engine runs the policy {vector.policy}"])
            continue
        try:
            found = adapter(vector)
        except Exception as error:
            found = [f"{type(error).__name__}: {error}"]
        yield Verdict(vector, [" ".join(line.split()) for line in found])
