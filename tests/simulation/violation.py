"""What invariants raise."""

from __future__ import annotations


class Violation(AssertionError):
    """An invariant does not hold. `objects` are the ids whose stories tell why."""

    def __init__(self, number: str, message: str, *objects: str) -> None:
        super().__init__(number, message, *objects)
        self.number, self.message, self.objects = number, message, objects

    def __str__(self) -> str:
        return f"{self.number}: {self.message}"
