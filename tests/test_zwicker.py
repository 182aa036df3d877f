"""Many frames at once say what metasona's own functions say of each."""

from __future__ import annotations

import metasona
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from builder.acoustics import zwicker

LEVELS = arrays.arrays(np.float64, st.tuples(st.integers(1, 6), st.just(28)), elements=st.floats(-60.0, 110.0, width=32))


@given(LEVELS)
def test_each_frame_is_what_the_library_says(level_db_spl: np.ndarray) -> None:
    """Loudness, specific loudness and sharpness are those of metasona's functions to the last bit, whatever the order in memory."""
    sone, specific = zwicker.loudness(np.asfortranarray(level_db_spl))
    for frame, level in enumerate(level_db_spl):
        one = metasona.loudness_from_levels(level)
        assert sone[frame] == one.loudness_sone
        np.testing.assert_array_equal(specific[frame], one.specific_loudness_sone_per_bark)
    heard = specific[sone > 0.0]
    expected = [metasona.sharpness_din45692(pattern).sharpness_acum for pattern in heard]
    np.testing.assert_array_equal(zwicker.sharpness(heard), expected)


def test_no_frames_are_no_values() -> None:
    """Of nothing there is nothing."""
    sone, specific = zwicker.loudness(np.zeros((0, 28)))
    assert sone.shape == (0,)
    assert specific.shape == (0, 240)
    assert zwicker.sharpness(specific).shape == (0,)


def test_a_refused_frame_is_said() -> None:
    """Levels that aren't finite, or that the standard doesn't cover, and negative loudness are errors and not numbers."""
    for wrong in (np.nan, 130.0):
        levels = np.full((2, 28), 40.0)
        levels[1, 0] = wrong
        with pytest.raises(ValueError, match="finite and at most 120 dB SPL"):
            zwicker.loudness(levels)
    with pytest.raises(ValueError, match="at least 0"):
        zwicker.sharpness(np.full((1, 240), -1.0))
