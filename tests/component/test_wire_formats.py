"""bcs_scheduler.wire: what server and clients share is loaded without either, and agrees with the server."""

from __future__ import annotations

import subprocess
import sys

from bcs_scheduler.wire import redaction
from bcs_scheduler.wire.documents import namespaces
from store import records
from transactions import injection

SERVER = ("bcs_scheduler.api", "bcs_scheduler.core", "store", "offers", "transactions", "starlette", "kazoo")


def test_the_formats_are_loaded_without_the_server() -> None:
    program = (
        "import sys, bcs_scheduler.wire.normal, bcs_scheduler.wire.redaction, bcs_scheduler.wire.times\n"
        f"print([name for name in sys.modules if (name + '.').startswith({tuple(room + '.' for room in SERVER)!r})])"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"


def test_namespaces_are_in_the_default_queue_of_the_store() -> None:
    assert namespaces.DEFAULT_QUEUE == records.DEFAULT_QUEUE
    assert namespaces.NamespaceSpec().queue == records.DEFAULT_QUEUE


def test_a_reference_begins_as_the_injection_of_secrets_expects() -> None:
    assert redaction.REFERENCE == injection.REFERENCE
