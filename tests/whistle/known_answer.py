"""Known answers of the meters of whistling."""

from __future__ import annotations

import numpy as np
import pytest

from builder.dimensions import BY_NAME
from builder.records import Sound

RATE_HZ = 16_000
TIME_S = np.arange(2 * RATE_HZ) / RATE_HZ
NOISE = 0.05 * np.random.default_rng(1).standard_normal(len(TIME_S))
TONE = 0.05 * np.sqrt(2.0) * np.sin(2.0 * np.pi * 1000.0 * TIME_S)


def test_measure_reads_the_ratio_of_the_parts() -> None:
    """A tone 6 dB under noise of known power is read as -6 dB."""
    tone = TONE * 10.0 ** (-6.0 / 20.0)
    found = BY_NAME["whistle"].measure(Sound(NOISE + tone, RATE_HZ, {"signal": NOISE, "whistle": tone}))
    assert np.mean(found.value) == pytest.approx(-6.0, abs=0.1)


def test_the_witness_hears_the_tone_alone() -> None:
    """Ten dB more of the tone are heard as about ten in the samples alone."""
    weak, strong = (
        np.median(BY_NAME["whistle"].witness(Sound(NOISE + TONE * 10.0 ** (level_db / 20.0), RATE_HZ)).value) for level_db in (-5.0, 5.0)
    )
    assert strong - weak == pytest.approx(10.0, abs=1.5)
