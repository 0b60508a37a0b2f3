"""Data for programs: JSON, YAML, and the results of expressions and templates."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bcs_scheduler.cli.output.formats import Form
    from bcs_scheduler.cli.output.terminal import Terminal


def print_data(out: Terminal, data: Any, form: str) -> None:
    """Prints JSON (`form` json) or YAML (`form` yaml), never wrapped or coloured."""
    if form == "yaml":
        from bcs_scheduler.wire.yamltext import text_of

        text = text_of(data).rstrip("\n")
    else:
        text = json.dumps(data, indent=2, ensure_ascii=False)
    out.file.write(text + "\n")
    out.file.flush()


def print_form(out: Terminal, data: Any, form: Form) -> bool:
    """Prints data in a format for programs. False if the format is for tables or names. Raises UsageError."""
    if form.is_data:
        print_data(out, data, form.name)
    elif form.name in ("jsonpath", "template"):
        from bcs_scheduler.cli.output.expressions import by_path, by_template

        printed = by_path(form.argument, data) if form.name == "jsonpath" else by_template(form.argument, data)
        out.file.write(printed if printed.endswith("\n") or not printed else printed + "\n")
        out.file.flush()
    else:
        return False
    return True
