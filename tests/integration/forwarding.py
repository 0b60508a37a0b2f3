"""The server behind a forwarded port."""

from __future__ import annotations

import requests


def page_behind(address: str) -> str:
    """The page of the server at HOST:PORT; empty while the taskgroup runs and its server does not listen yet."""
    try:
        return requests.get(f"http://{address}/", timeout=30).text
    except requests.ConnectionError:
        return ""
