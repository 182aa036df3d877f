"""Clarity: how far up the spectrum reaches, from muffled to clear, in octaves of low-pass cutoff re 1 kHz.

Swept by a time-varying low-pass of 144 dB per octave about 1.7 kHz, then brought back to the sham's loudness. Measured by the
highest frequency within 55 dB of the frame's strongest band; witnessed by DIN 45692 sharpness.

A low-pass can only take away, so a source must reach up to the sweep's clear end by itself. A trend of its own that is left
behind the middle cutoff is taken out.

No gain gives a muffled sound its loudness back by BS.1770 and by ISO 532-1 alike: at equal LUFS, each octave that is cut off
below 3 kHz costs 2 to 4 phon. So loudness is held by BS.1770; loudness level is linked, as brightness is, and as the formants are
that go out. With the highest bands a recording's own hiss goes out, and the bands that ring longest and shortest: the blind meters of
noise and reverberation follow by nature.

Tones are no carriers, for their few harmonics would go out one by one; nor are pulses, of which most are tones.

References
----------
DIN 45692:2009 (sharpness). A contrast of 2 J moves it by about 0.1 acum on voices, 0.2 to 0.3 on running speech and noise.
"""

from __future__ import annotations

import numpy as np

from builder.acoustics import bandwidth, filters, meters, statistics
from builder.dimensions._contract import Band, Dimension, HeldBy, Need, Planned
from builder.errors import Refused
from builder.records import FloatArray, Jnd, Reason, Sound, Source
from builder.words import reaching

BASE_OCTAVES = 0.8
"""Cutoff in the middle of every sweep: 1.7 kHz, so that four octaves about it end below 8 kHz."""
SLOPE_DB_PER_OCTAVE = 144.0


def manipulate(source: Source, planned: Planned) -> Sound:
    """The source behind a low-pass at the base cutoff plus the planned one, less the trend that is left at the base.

    Raises
    ------
    Refused
        `out_of_range` where the source doesn't reach up to the highest cutoff in three quarters of its frames.
    """
    _check_reach(source.sound, _highest_cutoff_octaves(planned.span))
    trend = 0.0
    if not planned.imposed:
        trend = source.sound.once("clarity trend", lambda sound: _trend_at_base(sound, source.start_s, source.end_s))
    middle_s = (source.start_s + source.end_s) / 2.0

    def cutoff_octaves(time_s: FloatArray) -> FloatArray:
        return BASE_OCTAVES + planned.at(time_s) - trend * (time_s - middle_s)

    return filters.low_passed(source.sound, cutoff_octaves, SLOPE_DB_PER_OCTAVE)


def _trend_at_base(sound: Sound, start_s: float, end_s: float) -> float:
    """Octaves per second by which the edge drifts behind a low-pass that holds still."""
    still = filters.low_passed(sound, lambda time_s: np.full_like(time_s, BASE_OCTAVES), SLOPE_DB_PER_OCTAVE)
    return statistics.drift_per_s(bandwidth.upper_edge_octaves(still), start_s, end_s)


def _highest_cutoff_octaves(span: float) -> float:
    return BASE_OCTAVES + abs(span) / 2.0


def _check_reach(sound: Sound, needed: float) -> None:
    reach = sound.once("clarity reach", bandwidth.reach_octaves)
    if reach < needed:
        reach_hz, needed_hz = (meters.REFERENCE_HZ * 2.0**octave for octave in (reach, needed))
        raise Refused(Reason.OUT_OF_RANGE, f"the source {reaching(reach_hz)}, the sweep needs {needed_hz:.0f} Hz")


MAX_SPAN = {"speech": 3.0, "syllables": 4.0, "vowels": 4.0, "voice": 4.0, "voice_syllables": 4.0, "noise": 4.0}

DIMENSION = Dimension(
    name="clarity",
    noun="clarity",
    unit="octaves",
    jnd=Jnd(
        steady=1.0 / 3.0,
        running=0.5,
        source="1/3 octave of cutoff on steady sounds and 1/2 on running speech, some 0.05 to 0.15 acum: conventions until listeners "
        "confirm them",
    ),
    max_span=MAX_SPAN,
    window_s=bandwidth.WINDOW_S,
    holds=("loudness", "pitch"),
    linked=("brightness", "formants", "loudness_level", "noise", "reverberation"),
    restores=("loudness",),
    manipulate=manipulate,
    measure=bandwidth.upper_edge_octaves,
    witness=meters.sharpness_acum,
    band=Band(
        round(meters.REFERENCE_HZ * 2.0 ** (BASE_OCTAVES + max(MAX_SPAN.values()) / 2.0)),
        "the clear end of the largest sweep: a low-pass can only take away what is there",
    ),
    needs=(Need("reach_octaves", _highest_cutoff_octaves, "reach up to {:.0f} Hz in three quarters of their frames"),),
    paper_category="voice_clarity",
    held_by=(HeldBy(bandwidth.upper_edge_octaves, 0.8),),
)
