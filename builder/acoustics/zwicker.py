"""ISO 532-1 loudness and DIN 45692 sharpness of many frames at once, by metasona's native library.

metasona's own functions take one frame each and check and copy it, which takes ten times as long as the models themselves; here
its C functions are called frame by frame on two arrays. What they return is the same to the last bit.

References
----------
ISO 532-1:2017. Acoustics: Methods for calculating loudness, Part 1: Zwicker method.
DIN 45692:2009. Measurement technique for the simulation of the auditory sensation of sharpness.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
from metasona._abi import get_native_library

from builder.records import FloatArray

N_BANDS = 28
N_BARK = 240
FREE_FIELD = 0


def _at(array: FloatArray) -> Callable[[int], object]:
    """Of a row's number: a pointer to where it begins in a C-contiguous array."""
    start, step = array.ctypes.data, array.strides[0]
    return lambda row: ctypes.byref(ctypes.c_double.from_address(start + step * row))


def loudness(level_db_spl: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Loudness of each frame by the method for stationary sounds, in a free field.

    Parameters
    ----------
    level_db_spl
        float64, shape (n_frames, 28): third-octave band levels, 25 Hz to 12.5 kHz, dB re 20 micropascals.

    Returns
    -------
    sone
        float64, shape (n_frames,).
    specific_sone_per_bark
        float64, shape (n_frames, 240): specific loudness each 0.1 Bark.

    Raises
    ------
    ValueError
        A level isn't finite, or beyond what the standard covers.
    """
    levels = np.ascontiguousarray(level_db_spl, dtype=np.float64)
    sone, specific = np.zeros(len(levels)), np.zeros((len(levels), N_BARK))
    function = get_native_library().lib.ms_loudness_from_levels
    level_at, sone_at, specific_at = _at(levels), _at(sone), _at(specific)
    failed = 0
    for frame in range(len(levels)):
        failed |= function(level_at(frame), N_BANDS, FREE_FIELD, sone_at(frame), specific_at(frame), N_BARK)
    if failed:
        raise ValueError("a frame has no loudness: levels must be finite and at most 120 dB SPL up to 250 Hz")
    return sone, specific


def sharpness(specific_sone_per_bark: FloatArray) -> FloatArray:
    """Sharpness of each frame.

    Parameters
    ----------
    specific_sone_per_bark
        float64, shape (n_frames, 240), as `loudness` returns it.

    Returns
    -------
    ndarray
        float64, shape (n_frames,), acum; 0 of a silent frame.

    Raises
    ------
    ValueError
        A value isn't finite, or is negative.
    """
    patterns = np.ascontiguousarray(specific_sone_per_bark, dtype=np.float64)
    acum = np.zeros(len(patterns))
    function = get_native_library().lib.ms_sharpness_din
    pattern_at, acum_at = _at(patterns), _at(acum)
    failed = 0
    for frame in range(len(patterns)):
        failed |= function(pattern_at(frame), N_BARK, acum_at(frame))
    if failed:
        raise ValueError("a frame has no sharpness: specific loudness must be finite and at least 0")
    return acum
