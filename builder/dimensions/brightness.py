"""Brightness: spectral tilt in dB per octave.

Swept by a time-varying tilt about 1 kHz, then brought back to the sham's loudness. Measured by the slope of third-octave
levels; witnessed by DIN 45692 sharpness.

The upper edge of the spectrum (clarity) is the same axis and is linked; so are the envelope's place (formants), and a
recording's own hiss, which is brought up and down (noise).

References
----------
DIN 45692:2009 (sharpness). 1 dB/octave on speech is about 0.1 acum.
"""

from __future__ import annotations

from builder.acoustics import filters, meters, statistics
from builder.dimensions._contract import Band, Dimension, HeldBy, Need, Planned
from builder.records import FloatArray, Jnd, Sound, Source

STEEPEST_DB_PER_OCTAVE = -8.5
"""Tilt of the dark end of a sweep beyond which few recordings can be held equally loud by both models of loudness: of 68 cuts of the
embedded corpus swept by 4 J, 60 % passed that stay above it, and 17 % of the others."""


def manipulate(source: Source, planned: Planned) -> Sound:
    """The source with its own trend of tilt taken out and the planned tilt put in."""
    own = meters.spectral_tilt_db_per_octave(source.sound)
    trend = 0.0 if planned.imposed else statistics.drift_per_s(own, source.start_s, source.end_s)
    middle_s = (source.start_s + source.end_s) / 2.0

    def db_per_octave(time_s: FloatArray) -> FloatArray:
        return planned.at(time_s) - trend * (time_s - middle_s)

    return filters.tilted(source.sound, db_per_octave)


DIMENSION = Dimension(
    name="brightness",
    noun="brightness",
    unit="dB/octave",
    jnd=Jnd(steady=1.0, running=1.0, source="1 dB/octave of tilt, about 0.1 acum on speech; a convention until listeners confirm it"),
    max_span={"speech": 8.0, "voice": 12.0, "noise": 8.0},
    window_s=meters.SPECTRUM_WINDOW_S,
    holds=("loudness", "pitch"),
    linked=("clarity", "formants", "noise"),
    restores=("loudness",),
    manipulate=manipulate,
    measure=meters.spectral_tilt_db_per_octave,
    witness=meters.sharpness_acum,
    band=Band(5600.0, "the tilt is read off third-octave bands from 200 Hz to 5 kHz, the last of which ends at 5.6 kHz"),
    needs=(
        Need(
            "tilt_db_per_octave",
            lambda span: STEEPEST_DB_PER_OCTAVE + abs(span) / 2.0,
            "fall by at most {:.1f} dB per octave",
        ),
    ),
    held_by=(HeldBy(meters.spectral_tilt_db_per_octave, 0.8),),
)
