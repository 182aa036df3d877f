"""Whistling: level of a steady 1 kHz tone over the sound it lies in, in dB.

The tone is mixed in at a level that rises or falls, and read off the parts as they are in the final samples. The witness is blind: how far
the spectrum's peak at 1 kHz stands above the bands beside it. At 1 kHz the tone tilts no spectrum; what swings in the sound's level
drowns in it.
"""

from __future__ import annotations

import numpy as np

from builder.acoustics import meters, mixing
from builder.dimensions._contract import Band, Dimension, Planned
from builder.records import Contour, Jnd, Sound, Source

MIX = mixing.Mix("signal", "whistle", base_db=-9.0)
TONE_HZ = 1000.0
NEAR_HZ, FAR_HZ = 32.0, 150.0


def _tone(sound: Sound) -> Sound:
    time_s = np.arange(len(sound.samples)) / sound.sample_rate_hz
    return Sound(0.1 * np.sin(2.0 * np.pi * TONE_HZ * time_s), sound.sample_rate_hz)


def manipulate(source: Source, planned: Planned) -> Sound:
    """The source with a tone of 1 kHz; raises as `mixing.Mix.swept`."""
    return MIX.swept(source, planned.at, added=_tone, keep_trend=planned.imposed)


def witness(sound: Sound) -> Contour:
    """Power within 32 Hz of 1 kHz over that within 150 Hz beside it, dB; `nan` in frames without either."""
    time_s, power = meters.spectrogram(sound)
    away_hz = np.abs(np.linspace(0.0, sound.sample_rate_hz / 2.0, len(power)) - TONE_HZ)
    peak, beside = power[away_hz <= NEAR_HZ].sum(axis=0), power[(away_hz > NEAR_HZ) & (away_hz <= FAR_HZ)].sum(axis=0)
    both = (peak > 0.0) & (beside > 0.0)
    return Contour(time_s, np.where(both, 10.0 * np.log10(np.where(both, peak, 1.0) / np.where(both, beside, 1.0)), np.nan))


DIMENSION = Dimension(
    name="whistle",
    noun="whistling",
    unit="dB",
    jnd=Jnd(steady=3.0, running=3.0, source="3 dB; a convention until listeners confirm it"),
    max_span={"noise": 18.0},
    window_s=mixing.RATIO_WINDOW_S,
    holds=("loudness",),
    linked=("brightness", "roughness", "tremolo"),
    restores=(),
    manipulate=manipulate,
    measure=MIX.ratio_db,
    witness=witness,
    band=Band(0.0, "the tone is added, whatever the recording holds there"),
    basis="parts",
)
