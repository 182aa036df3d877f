"""A second tracker of F0, independent of Praat: swift-f0, a small neural network on a spectrogram, for witnesses."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from swift_f0 import SwiftF0

from builder.acoustics import audio, meters
from builder.records import Contour, Sound

SWIFT_RATE_HZ = 16_000
SWIFT_MIN_CONFIDENCE = 0.5


@lru_cache(maxsize=1)
def _swift() -> SwiftF0:
    return SwiftF0(threads=1)


def swift_f0_semitones(sound: Sound) -> Contour:
    """F0 by swift-f0 in semitones re 100 Hz at 16 ms steps; `nan` under its confidence of 0.5. Empty under 0.1 s."""
    return sound.once("swift_f0_semitones", _swift_f0_semitones)


def _swift_f0_semitones(sound: Sound) -> Contour:
    if sound.duration_s < 0.1:
        return meters.EMPTY
    samples = audio.resampled(sound.mono, sound.sample_rate_hz, SWIFT_RATE_HZ)
    found = _swift().detect(samples.astype(np.float32), SWIFT_RATE_HZ)
    f0_hz = np.asarray(found.pitch_hz, dtype=np.float64)
    sure = (np.asarray(found.confidence) >= SWIFT_MIN_CONFIDENCE) & (f0_hz > 0.0)
    semitones = 12.0 * np.log2(np.where(sure, f0_hz, 100.0) / 100.0)
    return Contour(np.asarray(found.timestamps, dtype=np.float64), np.where(sure, semitones, np.nan))
