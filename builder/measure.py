"""Samples to contours: sees the sound, never the plan.

Nothing here takes a plan, a direction or a source: by type, a measurement can't know what was asked for.
"""

from __future__ import annotations

from builder.dimensions import BY_NAME, MEASURES, Dimension
from builder.records import Contour, Sound


def measure(sound: Sound, dimension: Dimension) -> Contour:
    """A dimension's contour as heard in a sound.

    Returns
    -------
    Contour
        In the dimension's unit; empty or all `nan` where it can't be measured.
    """
    return sound.once(f"measure {dimension.name}", dimension.measure)


def witness(sound: Sound, dimension: Dimension) -> Contour:
    """The same property by the dimension's independent method."""
    return sound.once(f"witness {dimension.name}", dimension.witness)


def held(sound: Sound, name: str) -> Contour:
    """What must stay still when another dimension is swept, by its name in `MEASURES`."""
    return sound.once(f"held {name}", MEASURES[name][1].contour)


def measure_all(sound: Sound) -> dict[str, Contour]:
    """Every dimension's contour, by name."""
    return {name: measure(sound, dimension) for name, dimension in BY_NAME.items()}
