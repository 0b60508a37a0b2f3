"""The garbage collector's settings, all in one place.

Nearly everything that is made is freed by its reference count; records are never looked at by the collector
(store.record). What is left are indexes and parts of the core, in cycles, which live as long as a term of leadership.
"""

from __future__ import annotations

import gc

THRESHOLDS = (20_000, 20, 50)
"""Passes over young objects find nothing during a launch; with these instead of the default (700, 10, 10) they cost a
tenth less of all processor time."""


def relax() -> None:
    """At the start of the process: what was imported is never garbage."""
    gc.set_threshold(*THRESHOLDS)
    gc.freeze()


def settle() -> None:
    """A term has begun: what it was made of is not looked at again until `release`, so that full passes cost what has
    been made since, whatever the number of taskgroups."""
    gc.freeze()


def release() -> None:
    """A term has ended, and its parts hold each other: frees them now, before the records are read again. Takes tenths
    of a second with 100,000 taskgroups."""
    gc.unfreeze()
    gc.collect()
