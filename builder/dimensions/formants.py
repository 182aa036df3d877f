"""Formants: the frequency of the voice's resonances, as 100 times the natural logarithm of a factor on all of them (about %).

A shorter vocal tract has all its formants higher by one factor, at the same pitch: a smaller speaker. Swept by the poles of the
synthetic tract, or by moving the spectral envelope of a real vowel or syllable along frequency under unmoved harmonics. Measured
by how far the envelope lies along log frequency from the clip's own mean envelope; witnessed by how far Burg's formants do, as a
blurred histogram: one by one they're mixed up with one another in sweeps of this size.

A logarithm, because factors up and down from the middle then are alike. Running speech moves its formants from sound to sound
by far more than a vocal tract may, and is left out.

References
----------
Gaudrain, E. & Baskent, D. (2018). Discrimination of voice pitch and vocal-tract length in cochlear implant users.
Ear and Hearing 39(2), 226-237.
"""

from __future__ import annotations

from builder.acoustics import envelope
from builder.dimensions._contract import Band, Dimension, HeldBy, Planned
from builder.records import Jnd, Sound, Source


def manipulate(source: Source, planned: Planned) -> Sound:
    """The source with its resonances moved by the planned factor. Carriers are steady, so there is no trend to take out."""
    if source.synthesise is not None and "formants" in source.controls:
        return source.synthesise({"formants": planned.at})
    return envelope.warped(source.sound, planned.at)


DIMENSION = Dimension(
    name="formants",
    noun="formant frequency",
    unit="100 ln(frequency)",
    jnd=Jnd(
        steady=5.0,
        running=10.0,
        source="5 % on steady vowels and 10 % on running speech, after the differences of vocal-tract length that normal-hearing "
        "listeners tell in Gaudrain & Baskent (2018); conventions until listeners confirm them",
    ),
    max_span={"vowels": 30.0, "syllables": 30.0, "voice": 60.0},
    window_s=0.3,
    holds=("loudness", "pitch"),
    linked=("brightness", "clarity"),
    restores=("loudness",),
    manipulate=manipulate,
    measure=envelope.shift,
    witness=envelope.formant_shift,
    band=Band(5500.0, "the envelope is followed up to 5.5 kHz; an edge below stands still while the formants under it move"),
    held_by=(HeldBy(envelope.shift, 0.8),),
    about_mean=True,
    question="Do the resonances (formants) of the voice in this sound {first} or {second} in frequency over time?",
)
