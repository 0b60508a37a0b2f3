"""The in-memory state: all records with the indexes kept beside them, and the unit of work that changes it."""

from __future__ import annotations

from store.state.census import Census as Census
from store.state.state import TABLES as TABLES
from store.state.state import Key as Key
from store.state.state import State as State
from store.state.state import Watch as Watch
from store.state.state import Watcher as Watcher
