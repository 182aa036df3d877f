"""Vibrato: how far F0 swings to either side of its mean, in cents, at 5 to 6.5 Hz.

Swept by a sine on F0, one rate and phase per source: on the parameters of synthesis, and by Praat's PitchTier and overlap-add on
recordings. Measured by a local sine in Praat's F0, at the strongest rate from 3.5 to 8.5 Hz; witnessed by the range of F0 in
windows of 0.4 s by swift-f0, a neural tracker.

Mean F0 is held: a swing is even in semitones, and the measure of pitch averages it away. Harmonics that move through formants
make level swing along, as in any voice; its mean is brought back to the sham's, but the swing itself (tremolo) is linked. So
are all measures of how alike neighbouring periods and how deep the valleys between harmonics are: jitter, harmonicity, noise,
decay; harmonics that glide look irregular and smeared to them.

References
----------
Prame, E. (1994). Measurements of the vibrato rate of ten singers. JASA 96(4), 1979-1984.
Prame, E. (1997). Vibrato extent and intonation in professional Western lyric singing. JASA 102(1), 616-621.
"""

from __future__ import annotations

import numpy as np

from builder.acoustics import intonation, meters, modulation, trackers
from builder.dimensions._contract import Band, Dimension, HeldBy, Planned
from builder.errors import Refused
from builder.records import Contour, FloatArray, Jnd, Reason, Sound, Source

BASE_DEPTH_CENTS = 130.0
RATE_HZ = (5.0, 6.5)
HEARD_RATE_HZ = (3.5, 8.5)
WINDOW_S = 0.6
STEADY_CENTS = 30.0
"""Depth below which F0 counts as steady: a voice that is held has 10 to 30 cents in this band by itself."""


def manipulate(source: Source, planned: Planned) -> Sound:
    """The source with F0 swinging by the planned depth about 130 cents; rate and phase are the source's.

    Raises
    ------
    Refused
        `does_nothing` on synthesis without F0; on recordings as `intonation.changed`.
    """
    rng = np.random.default_rng(source.seed)
    rate_hz, phase = float(rng.uniform(*RATE_HZ)), float(rng.uniform())

    def semitones(time_s: FloatArray) -> FloatArray:
        depth_cents = BASE_DEPTH_CENTS + planned.at(time_s)
        return depth_cents / 100.0 * np.sin(2.0 * np.pi * (rate_hz * time_s + phase))

    if source.synthesise is not None and "pitch" in source.controls:
        return source.synthesise({"pitch": semitones})
    if source.synthesise is not None:
        raise Refused(Reason.DOES_NOTHING, f"a {source.spec.kind} has no F0 to swing")
    return intonation.changed(source.sound, semitones, planned.movement, source.start_s, source.end_s, planned.imposed)


def _in_cents(semitones: Contour) -> Contour:
    return Contour(semitones.time_s, 100.0 * semitones.value, semitones.counted)


def measure(sound: Sound) -> Contour:
    """Amplitude in cents of the strongest sine from 3.5 to 8.5 Hz in Praat's F0."""
    return modulation.swing_of_f0(_in_cents(meters.f0_semitones(sound)), HEARD_RATE_HZ, WINDOW_S)


def witness(sound: Sound) -> Contour:
    """Half the local range in cents of swift-f0's F0."""
    return modulation.range_of_f0(_in_cents(trackers.swift_f0_semitones(sound)))


DIMENSION = Dimension(
    name="vibrato",
    noun="vibrato",
    unit="cents",
    jnd=Jnd(steady=20.0, running=40.0, source="a convention until listeners confirm it"),
    max_span={"speech": 240.0, "vowels": 240.0, "voice": 240.0, "tone": 240.0},
    window_s=0.375,
    holds=("loudness", "pitch"),
    linked=("tremolo", "brightness", "roughness", "hoarseness", "breathiness", "noise", "reverberation"),
    restores=("loudness",),
    manipulate=manipulate,
    measure=measure,
    witness=witness,
    band=Band(1000.0, "F0 and a harmonic or two of it; what lies above moves along"),
    held_by=(HeldBy(measure, 0.8, floor=STEADY_CENTS),),
)
