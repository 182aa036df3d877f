"""Pitch: F0 in semitones re 100 Hz.

Swept by Praat's Manipulation (PitchTier, pitch-synchronous overlap-add) on recordings, directly on synthesis.
Measured by Praat's autocorrelation; witnessed by swift-f0, a neural tracker.

A change of F0 moves harmonics through formants, so level follows (restored), and so do brightness and clarity (linked).

References
----------
Klatt, D. H. (1973). Discrimination of fundamental frequency contours in synthetic speech. JASA 53(1), 8-16.
Gaudrain, E. & Baskent, D. (2018). Discrimination of voice pitch and vocal-tract length in cochlear implant users.
Ear and Hearing 39(2), 226-237.
"""

from __future__ import annotations

from builder.acoustics import intonation, meters, trackers
from builder.dimensions._contract import Band, Dimension, HeldBy, Planned
from builder.errors import Refused
from builder.records import Jnd, Reason, Sound, Source


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
    return intonation.changed(source.sound, planned.at, planned.movement, source.start_s, source.end_s, planned.imposed)


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
    max_span={"speech": 12.0, "vowels": 12.0, "voice": 12.0, "tone": 12.0},
    window_s=0.05,
    holds=("loudness",),
    linked=("brightness", "clarity"),
    restores=("loudness",),
    manipulate=manipulate,
    measure=meters.f0_semitones,
    witness=trackers.swift_f0_semitones,
    band=Band(1000.0, "F0 and a harmonic or two of it; what lies above moves along"),
    paper_category="voice_pitch",
    held_by=(HeldBy(meters.f0_semitones, 0.8),),
)
