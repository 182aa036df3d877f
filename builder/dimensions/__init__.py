"""Every dimension, one file each. Adding one is one file, one line here, one recipe."""

from __future__ import annotations

from builder.dimensions import breathiness, brightness, formants, hoarseness, loudness, pitch, tempo
from builder.dimensions._contract import Dimension, Planned

__all__ = ["BY_NAME", "DIMENSIONS", "Dimension", "Planned"]

DIMENSIONS: tuple[Dimension, ...] = (
    pitch.DIMENSION,
    loudness.DIMENSION,
    tempo.DIMENSION,
    brightness.DIMENSION,
    breathiness.DIMENSION,
    hoarseness.DIMENSION,
    formants.DIMENSION,
)

BY_NAME: dict[str, Dimension] = {dimension.name: dimension for dimension in DIMENSIONS}
