"""What was used last, as much of it as fits into a number of bytes: the cache of everything that may be large."""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Generic, TypeVar

import numpy as np

T = TypeVar("T")

SHARED = (type, ModuleType, BuiltinFunctionType)
"""What a value refers to and doesn't own."""


class Kept(Generic[T]):
    """Values by key, those used last.

    A value may grow while it's used, as a sound does by its analyses: it's weighed when the next one is asked for.

    Parameters
    ----------
    most_bytes
        What is kept beside the value in use.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._values: dict[Hashable, T] = {}
        self._bytes: dict[Hashable, int] = {}

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value of a key, made if it isn't kept; before that, what was used longest ago gives way."""
        if self._values:
            last = next(reversed(self._values))
            self._bytes[last] = held_bytes(self._values[last])
        value = self._values.pop(key) if key in self._values else self._made(make)
        self._values[key] = value
        return value

    def _made(self, make: Callable[[], T]) -> T:
        while sum(self._bytes.values()) > self._most_bytes:
            oldest = next(iter(self._values))
            del self._values[oldest], self._bytes[oldest]
        return make()


def held_bytes(value: object) -> int:
    """Bytes of all arrays and strings of bytes that a value holds, through whatever refers to them; each is counted once.

    A view counts as the whole array that it's of. An object that knows better says so by an `nbytes` of its own.
    """
    total, seen, waiting = 0, set[int](), [value]
    while waiting:
        item: Any = waiting.pop()
        if id(item) in seen or isinstance(item, SHARED):
            continue
        seen.add(id(item))
        if isinstance(item, FunctionType):
            waiting += item.__closure__ or ()
        elif isinstance(item, np.ndarray) and isinstance(item.base, np.ndarray):
            waiting.append(item.base)
        elif isinstance(item, (bytes, bytearray)):
            total += len(item)
        elif hasattr(item, "nbytes"):
            total += item.nbytes
        else:
            waiting += gc.get_referents(item)
    return total
