"""Every dimension, one file each. Adding one is one file, one line here, one recipe."""

from __future__ import annotations

from importlib import import_module

from builder.dimensions._contract import Band, Dimension, HeldBy, Need, Planned

__all__ = ["BY_NAME", "DIMENSIONS", "MEASURES", "Band", "Dimension", "HeldBy", "Need", "Planned"]

NAMES = (
    "pitch",
    "loudness",
    "tempo",
    "brightness",
    "formants",
    "roughness",
    "distortion",
    "noise",
    "reverberation",
    "clarity",
    "vibrato",
    "tremolo",
    "breathiness",
    "hoarseness",
    "pan",
)

DIMENSIONS: tuple[Dimension, ...] = tuple(import_module(f"{__name__}.{name}").DIMENSION for name in NAMES)

MEASURES: dict[str, tuple[Dimension, HeldBy]] = {
    how.name or dimension.name: (dimension, how) for dimension in DIMENSIONS for how in dimension.held_by
}
"""What leakage is published in: each dimension, and further measures of it under their own names."""

BY_NAME: dict[str, Dimension] = {dimension.name: dimension for dimension in DIMENSIONS}
