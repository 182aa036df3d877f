"""Each of the nine categories, made the original way, changes its property the planned way, by an independent look at the samples."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest

from builder.records import FloatArray

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # a reader of files that librosa may use imports modules that Python deprecates
    pytest.importorskip("librosa", reason="the bench's own dependency: pip install '.[bench]'")
    from bench import original, versus

RATE_HZ = 48_000
N = 3 * RATE_HZ
TIME_S = np.arange(N) / RATE_HZ
RNG = np.random.default_rng(1)
TONE: FloatArray = 0.2 * np.sin(2.0 * np.pi * 440.0 * TIME_S)
HISS: FloatArray = 0.1 * RNG.standard_normal(N)
CLICKS: FloatArray = np.where(np.arange(N) % (RATE_HZ // 20) == 0, 0.5, 0.0)
MARK: FloatArray = np.where(np.abs(TIME_S - 1.5) < 0.05, 0.5, 0.01) * np.sign(TONE)

Look = Callable[[FloatArray, FloatArray], float]
"""(third of what was made, the same third of what it was made of) -> how much of the property there is."""


def centroid_hz(made: FloatArray, _: FloatArray) -> float:
    """Of the power spectrum."""
    power = np.abs(np.fft.rfft(made * np.hanning(len(made)))) ** 2
    return float(np.sum(power * np.fft.rfftfreq(len(made), 1.0 / RATE_HZ)) / np.sum(power))


def level(made: FloatArray, _: FloatArray) -> float:
    """RMS."""
    return float(np.sqrt(np.mean(made**2)))


def off(made: FloatArray, before: FloatArray) -> float:
    """RMS of what was added."""
    return level(made - before, before)


def swing(made: FloatArray, _: FloatArray) -> float:
    """Spread of the level of frames of 20 ms over its mean."""
    frames = np.sqrt(np.mean(made[: len(made) // 960 * 960].reshape(-1, 960) ** 2, axis=1))
    return float(np.std(frames) / np.mean(frames))


def smeared(made: FloatArray, _: FloatArray) -> float:
    """Share of the power that isn't in the clicks."""
    return 1.0 - float(np.sum(np.sort(made**2)[-20:]) / np.sum(made**2))


LOOKS: dict[str, tuple[FloatArray, Look]] = {
    "voice_pitch": (TONE, centroid_hz),
    "volume": (TONE, level),
    "voice_clarity": (HISS, centroid_hz),
    "audio_distortion": (TONE, off),
    "audio_roughness": (TONE, off),
    "background_noise": (TONE, off),
    "voice_vibration": (TONE, swing),
    "echo": (CLICKS, smeared),
}


@pytest.mark.parametrize("category", sorted(LOOKS))
@pytest.mark.parametrize("rising", [True, False])
def test_a_category_goes_its_way(category: str, rising: bool) -> None:
    """From first to last third there is more of the property where it rises, less where it falls; the length is kept."""
    before, look = LOOKS[category]
    made = original.made(category, before, RATE_HZ, rising=rising)
    assert made.shape == before.shape
    third = N // 3
    first, last = look(made[:third], before[:third]), look(made[-third:], before[-third:])
    assert (last > 1.05 * first) if rising else (first > 1.05 * last), (first, last)


def test_speed_goes_its_way() -> None:
    """What lies in the middle comes late where speed rises, for the first half took longer, and early where it falls."""
    places = []
    for rising in (True, False):
        made = original.made("speaking_speed", MARK, RATE_HZ, rising=rising)
        places.append(float(np.sum(np.arange(len(made)) * made**2) / np.sum(made**2)) / len(made))
    assert places[0] > 0.53
    assert places[1] < 0.47


def test_the_nine_are_the_dimensions_that_have_a_category() -> None:
    """Each category is one dimension's, and each dimension that names one is compared with it."""
    assert sorted(original.CATEGORIES) == sorted(versus.CATEGORY.values())
    assert len(original.CATEGORIES) == 9
