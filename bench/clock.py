"""Who spends the time: a clock with a name for every stretch, and names put on functions from outside.

Times are CPU seconds of this process (all of its threads), so that other programs on the machine add little. What a function waits
for (a disk, its turn) isn't in them: compare with a wall clock beside them.
"""

from __future__ import annotations

import functools
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")

Seconds = dict[str, float]
"""By name; what has no name took none (a `defaultdict`)."""

Name = str | Callable[..., str]
"""A stretch's name, or what gives it from the arguments of the function."""


def add(into: Seconds, more: Seconds) -> None:
    """Add seconds to those under the same names."""
    for name, seconds in more.items():
        into[name] += seconds


class Clock:
    """Seconds by name, each moment counted once: under the innermost stretch that it lies in.

    Parameters
    ----------
    now
        Gives seconds.
    """

    def __init__(self, now: Callable[[], float] = time.process_time) -> None:
        self.seconds: Seconds = defaultdict(float)
        self.calls: Counter[str] = Counter()
        self._now = now
        self._open: list[str] = []
        self._since = 0.0

    @contextmanager
    def stretch(self, name: str) -> Iterator[None]:
        """Count under a name what isn't counted under a name further in."""
        self._turn()
        self._open.append(name)
        self.calls[name] += 1
        try:
            yield
        finally:
            self._turn()
            self._open.pop()

    def _turn(self) -> None:
        """Close the account of the stretch that's open, up to now."""
        now = self._now()
        if self._open:
            self.seconds[self._open[-1]] += now - self._since
        self._since = now

    def timed(self, function: Callable[..., T], name: Name) -> Callable[..., T]:
        """The function, its calls counted under a name."""

        @functools.wraps(function)
        def counted(*args: Any, **kwargs: Any) -> T:
            with self.stretch(name if isinstance(name, str) else name(*args, **kwargs)):
                return function(*args, **kwargs)

        return counted


@contextmanager
def replaced(changes: Sequence[tuple[Any, str, Callable[[Any], Any]]]) -> Iterator[None]:
    """Attributes of modules or classes changed for a while.

    Parameters
    ----------
    changes
        (owner, attribute, old value -> new value), done in order and undone in the opposite one.

    Raises
    ------
    AttributeError
        An owner has no such attribute: the code was changed, and what is timed must follow.
    """
    kept: list[tuple[Any, str, Any]] = []
    try:
        for owner, attribute, change in changes:
            old = getattr(owner, attribute)
            kept.append((owner, attribute, old))
            setattr(owner, attribute, change(old))
        yield
    finally:
        for owner, attribute, old in reversed(kept):
            setattr(owner, attribute, old)
