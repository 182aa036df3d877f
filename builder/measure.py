"""Samples to contours: sees the sound, never the plan.

Nothing here takes a plan, a direction or a source: by type, a measurement can't know what was asked for.
"""

from __future__ import annotations

import numpy as np

from builder.dimensions import BY_NAME, MEASURES, Dimension
from builder.records import Contour, Sound

LEAST_RATE_HZ = 8000
"""Below this rate filters of the standards aren't stable, or what the meters ask for isn't there."""


def measure(sound: Sound, dimension: Dimension) -> Contour:
    """A dimension's contour as heard in a sound.

    Returns
    -------
    Contour
        In the dimension's unit; empty or all `nan` where it can't be measured.
    """
    if sound.sample_rate_hz < LEAST_RATE_HZ:
        return Contour(np.zeros(0), np.zeros(0))
    return sound.once(f"measure {dimension.name}", dimension.measure)


def no_value(sound: Sound, contour: Contour) -> str | None:
    """Why a sound's contour has no value, for people; None where it has one."""
    if contour.valid.any():
        return None
    if sound.sample_rate_hz < LEAST_RATE_HZ:
        return f"sampled at {sound.sample_rate_hz} Hz; from {LEAST_RATE_HZ} Hz on sounds are measured"
    return "nothing of it in this sound, or the sound is too short, too quiet, or no mix whose parts are known"


def witness(sound: Sound, dimension: Dimension) -> Contour:
    """The same property by the dimension's independent method."""
    return sound.once(f"witness {dimension.name}", dimension.witness)


def held(sound: Sound, name: str) -> Contour:
    """What must stay still when another dimension is swept, by its name in `MEASURES`."""
    return sound.once(f"held {name}", MEASURES[name][1].contour)


def measure_all(sound: Sound) -> dict[str, Contour]:
    """Every dimension's contour, by name."""
    return {name: measure(sound, dimension) for name, dimension in BY_NAME.items()}
