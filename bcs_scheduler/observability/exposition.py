"""The Prometheus text format (version 0.0.4), written for scrapes of tens of thousands of samples.

prometheus-client's own writer checks and escapes every metric and label name of every sample again; ours are known to
be valid. Format: https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

PREFIX = "bkbcs_scheduler_"
"""Namespace and subsystem of the original's metrics."""


def text(registry: CollectorRegistry) -> bytes:
    """All metrics of the registry, whose names and label names must be valid."""
    lines: list[str] = []
    for metric in registry.collect():
        name = metric.name + "_total" if metric.type == "counter" else metric.name
        lines.append(f"# HELP {name} {_documentation(metric)}\n# TYPE {name} {metric.type}\n")
        for sample in metric.samples:
            if sample.labels:
                labels = ",".join([f'{label}="{_escaped(value)}"' for label, value in sample.labels.items()])
                lines.append(f"{sample.name}{{{labels}}} {_number(sample.value)}\n")
            else:
                lines.append(f"{sample.name} {_number(sample.value)}\n")
    return "".join(lines).encode()


def _documentation(metric: Metric) -> str:
    return metric.documentation.replace("\\", "\\\\").replace("\n", "\\n")


def _escaped(value: str) -> str:
    if "\\" in value or '"' in value or "\n" in value:
        return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    return value


def _number(value: float) -> str:
    """repr of a float, except that Prometheus spells infinity its own way."""
    spelt = repr(float(value))
    return {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}.get(spelt, spelt)
