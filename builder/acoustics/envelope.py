"""Spectral envelopes: giving a sound another's bands."""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy import fft as scipy_fft

from builder.acoustics import filters, meters
from builder.records import Sound

MAX_BAND_GAIN_DB = 40.0


def with_bands_of(sound: Sound, reference: Sound) -> Sound:
    """A steady mono sound with the third-octave levels and then the tilt of a reference, as nearly as a smooth gain can.

    Parameters
    ----------
    reference
        Steady, at the same rate. Its median band levels are brought to the sound by a gain that is straight over log frequency
        between the bands' middles; what is left of the tilt, where bands between low harmonics can't be emptied, by a tilt.

    Returns
    -------
    Sound
        As many samples; unchanged where either is too short to have a spectrum.
    """
    if min(len(meters.third_octave_levels_db(each)[0]) for each in (sound, reference)) == 0:
        return sound
    wanted, now = (np.median(meters.third_octave_levels_db(each)[1], axis=1) for each in (reference, sound))
    band_gain_db = np.clip(wanted - now, -MAX_BAND_GAIN_DB, MAX_BAND_GAIN_DB)
    frequency_hz = scipy_fft.rfftfreq(len(sound.samples), 1.0 / sound.sample_rate_hz)
    gain_db = np.interp(np.log(np.maximum(frequency_hz, 1.0)), np.log(meters.THIRD_OCTAVE_HZ), band_gain_db)
    spectrum = scipy_fft.rfft(sound.samples) * 10.0 ** (gain_db / 20.0)
    made = Sound(scipy_fft.irfft(spectrum, len(sound.samples)), sound.sample_rate_hz)
    tilts = [np.nanmean(meters.spectral_tilt_db_per_octave(each).value) for each in (reference, made)]
    return filters.tilted(made, partial(np.full_like, fill_value=tilts[0] - tilts[1]))
