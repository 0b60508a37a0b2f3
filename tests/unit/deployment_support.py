"""Documents of kind deployment to test with."""

from __future__ import annotations

from typing import Any

from tests.unit.api_support import document


def deployment(name: str = "front", namespace: str = "shop", instance: int = 2, **rolling: Any) -> dict[str, Any]:
    """The application of `document` as a deployment; `rolling`: of its strategy."""
    raw = document(name, namespace, instance)
    strategy = {"type": "RollingUpdate", "rollingupdate": rolling}
    return {**raw, "kind": "deployment", "spec": {**raw["spec"], "selector": {"app": name}, "strategy": strategy}}
