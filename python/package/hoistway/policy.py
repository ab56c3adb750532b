"""Schedulers written in Python, to try an idea before it is written in Rust.

They are slow: each call of the queue becomes a call of a method, and runs with them take turns.
docs/howto/sweep.md has the figure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Optional, Union

from . import _hoistway
from ._hoistway import Request

__all__ = ["Elevator", "Hold", "Request", "register"]


@dataclass(frozen=True)
class Hold:
    """The answer of :meth:`Elevator.choose` that leaves the device idle for a request that is expected."""

    until_ns: int
    """When to ask again, if no request comes before."""


class Elevator:
    """A scheduler. Derive from it and write ``insert`` and ``choose``.

    The host serialises all calls, and ``now_ns`` never decreases. An exception ends the run and is raised by ``run()``.
    """

    def __init__(self, requests: int, device_depth: int, capacity_sectors: int) -> None:
        """For a queue of this many ``requests`` before a device that accepts ``device_depth`` commands at a time."""

    def group(self, group: int, parent: int, weight: int) -> None:
        """A group was created, or its weight (1 to 10,000) changed. Group 0 is above all others."""

    def insert(self, request: Request, now_ns: int) -> None:
        """A request enters the queue."""
        raise NotImplementedError

    def choose(self, now_ns: int) -> Union[Request, Hold, None]:
        """The request that goes to the device next; it leaves the queue. None waits for a completion.

        Called only while requests are queued, whenever the device may accept one.
        """
        raise NotImplementedError

    def completed(self, request: Request, now_ns: int) -> None:
        """The device has finished a request."""

    def removed(self, request: Request, now_ns: int) -> None:
        """A queued request leaves without having been chosen: it was merged into another, or taken back."""


def register(name: str, factory: Callable[[int, int, int], Elevator], summary: Optional[str] = None) -> None:
    """Makes a scheduler known in this process, so that experiments may name it. At most 16 names; one that was registered
    before gets the new class. ``factory`` is the class, or a function with the arguments of ``Elevator.__init__``."""
    _hoistway.register(name, summary or f"{name}, in Python", factory)
