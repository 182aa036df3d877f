"""Pitch: F0 in semitones re 100 Hz.

Swept by Praat's Manipulation (PitchTier, pitch-synchronous overlap-add) on recordings, directly on synthesis.
Measured by Praat's autocorrelation; witnessed by swift-f0, a neural tracker.

A change of F0 moves harmonics through formants, so level follows (restored) and so does brightness (linked).

References
----------
Klatt, D. H. (1973). Discrimination of fundamental frequency contours in synthetic speech. JASA 53(1), 8-16.
Gaudrain, E. & Baskent, D. (2018). Discrimination of voice pitch and vocal-tract length in cochlear implant users.
Ear and Hearing 39(2), 226-237.
"""

from __future__ import annotations

import numpy as np

from builder.acoustics import meters, praat, statistics, trackers
from builder.dimensions._contract import Dimension, HeldBy, Planned
from builder.errors import Refused
from builder.records import Contour, Jnd, Reason, Sound, Source

MIN_VOICED_S = 0.5
MAX_SHIFT_SEMITONES = 9.0
"""Limit of the 95th percentile of |shift| from a source's own F0: up to 6 semitones are the sweep's, the rest is flattening."""


def manipulate(source: Source, planned: Planned) -> Sound:
    """The source with its own F0 trend taken out and the planned contour put in.

    Raises
    ------
    Refused
        `unvoiced` with under 0.5 s of F0; `out_of_range` where a shift exceeds 9 semitones or F0 leaves 60 to 700 Hz.
    """
    if source.synthesise is not None and "pitch" in source.controls:
        return source.synthesise({"pitch": planned.at})
    if source.synthesise is not None:
        raise Refused(Reason.DOES_NOTHING, f"a {source.spec.kind} has no pitch to sweep")
    overlap = source.sound.once("overlap", praat.Overlap)
    voiced_s = len(overlap.time_s) * praat.PITCH_STEP_S
    if voiced_s < MIN_VOICED_S:
        raise Refused(Reason.UNVOICED, f"{voiced_s:.2f} s of F0, at least {MIN_VOICED_S} s are needed")
    own = Contour(overlap.time_s, 12.0 * np.log2(overlap.f0_hz / 100.0))
    trend = statistics.drift_per_s(own, source.start_s, source.end_s) * (own.time_s - np.mean(own.time_s))
    centre = np.median(own.value - trend)
    wanted = centre + planned.movement * (own.value - trend - centre) + planned.at(own.time_s)
    shift = float(np.percentile(np.abs(wanted - own.value), 95))
    if shift > MAX_SHIFT_SEMITONES:
        raise Refused(Reason.OUT_OF_RANGE, f"a shift of {shift:.1f} semitones, at most {MAX_SHIFT_SEMITONES}")
    f0_hz = 100.0 * 2.0 ** (wanted / 12.0)
    if np.percentile(f0_hz, 2) < praat.PITCH_FLOOR_HZ or np.percentile(f0_hz, 98) > praat.PITCH_CEILING_HZ:
        raise Refused(Reason.OUT_OF_RANGE, f"F0 from {f0_hz.min():.0f} to {f0_hz.max():.0f} Hz, allowed is 60 to 700 Hz")
    return overlap.with_f0(np.clip(f0_hz, praat.PITCH_FLOOR_HZ, praat.PITCH_CEILING_HZ))


DIMENSION = Dimension(
    name="pitch",
    noun="pitch",
    unit="semitones",
    jnd=Jnd(
        steady=0.25,
        running=1.0,
        source="Klatt (1973): 2 Hz on an F0 ramp; Gaudrain & Baskent (2018): 1.95 semitones between voices; 1 semitone on "
        "running speech and 0.25 on steady sounds are conventions until listeners confirm them",
    ),
    max_span={"speech": 12.0, "voice": 12.0, "tone": 12.0},
    window_s=0.05,
    holds=("loudness",),
    linked=("brightness",),
    restores=("loudness",),
    manipulate=manipulate,
    measure=meters.f0_semitones,
    witness=trackers.swift_f0_semitones,
    paper_category="voice_pitch",
    held_by=(HeldBy(meters.f0_semitones, 0.8),),
)
