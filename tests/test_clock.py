"""Every moment that the bench times is counted once, and what it changed from outside is put back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace

import pytest

from bench.clock import Clock, replaced


def ticks(*times: float) -> Clock:
    """A clock that reads given times."""
    read: Iterator[float] = iter(times)
    return Clock(lambda: next(read))


def test_a_stretch_within_another_is_counted_once() -> None:
    """The outer stretch has what the inner one hasn't, and nothing of what lies between stretches."""
    clock = ticks(0.0, 1.0, 4.0, 6.0, 100.0, 101.0)
    with clock.stretch("outer"), clock.stretch("inner"):
        pass
    with clock.stretch("outer"):
        pass
    assert clock.seconds == {"outer": 1.0 + 2.0 + 1.0, "inner": 3.0}
    assert clock.calls == {"outer": 2, "inner": 1}


def test_a_stretch_that_fails_is_counted_too() -> None:
    """An exception ends a stretch like any other end."""
    clock = ticks(0.0, 2.0)
    with pytest.raises(ValueError, match="planned"), clock.stretch("fails"):
        raise ValueError("planned")
    assert clock.seconds == {"fails": 2.0}


def test_what_is_replaced_comes_back() -> None:
    """In the opposite order, also after an exception; an attribute that isn't there is an error."""
    owner = SimpleNamespace(value=1)
    twice = [(owner, "value", lambda old: old + 1), (owner, "value", lambda old: old * 10)]
    with suppress(ValueError), replaced(twice):
        assert owner.value == 20
        raise ValueError
    assert owner.value == 1
    with pytest.raises(AttributeError, match="absent"), replaced([(owner, "value", str), (owner, "absent", str)]):
        pass
    assert owner.value == 1
