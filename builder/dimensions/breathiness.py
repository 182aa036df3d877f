"""Breathiness: noise of the breath in dB re the harmonics of the voice.

Swept by the ratio of breath noise to a periodic voice at constant power. The noise has the spectrum of the voice itself (of its
glottal pulses, or of a real voice's mean period), so that neither loudness nor brightness tells; the voice is made steadier
than it is by itself, throughout and alike in all clips, because jitter hides under no less noise than its own. Measured by
Praat's harmonics-to-noise ratio, negated; witnessed by cepstral peak prominence, negated.

Noise makes periods look irregular to any meter, so hoarseness is linked, and breath is background noise and distortion to blind
meters. Running speech and syllables have consonants, which no breath makes noisier, and are left out.

References
----------
Boersma (1993), IFA Proceedings 17, 97-110. Hillenbrand et al. (1994), JSHR 37(4), 769-778.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from builder.acoustics import envelope, periodicity, voice
from builder.dimensions._contract import Band, Dimension, HeldBy, Planned
from builder.errors import Refused
from builder.records import FloatArray, Jnd, Reason, Sound, Source

BASE_DB = -15.0
"""Noise re harmonics in the middle of a sweep."""
STEADIER = float(np.log(0.15))
"""Log factor on the carrier's own jitter and shimmer: they alone would be as strong as noise at -22 dB."""
ALONE_DB = 80.0
"""Noise re harmonics, and harmonics re noise, where one of the two is wanted alone."""
CLEAR_DB = -20.0
"""Noise re harmonics of a clear voice: what is less is no breath to hear, and swings with formants and F0."""


def manipulate(source: Source, planned: Planned) -> Sound:
    """The voice with breath at the planned ratio.

    Raises
    ------
    Refused
        `does_nothing` on what has no breath to sweep.
    """
    if source.synthesise is None or "breathiness" not in source.controls:
        raise Refused(Reason.DOES_NOTHING, f"a {source.spec.kind} has no breath to sweep")
    periodic, noise = source.sound.once("periodic and noise", lambda _: _periodic_and_noise(source))
    time_s = np.arange(len(periodic)) / source.sound.sample_rate_hz
    return Sound(voice.breathed(periodic, noise, BASE_DB + planned.at(time_s)), source.sound.sample_rate_hz)


def _periodic_and_noise(source: Source) -> tuple[FloatArray, FloatArray]:
    """The voice without noise, and its noise alone, with the same levels in third-octave bands."""
    assert source.synthesise is not None
    steadier = partial(np.full_like, fill_value=STEADIER)
    periodic, noise = (
        source.synthesise({"hoarseness": steadier, "breathiness": partial(np.full_like, fill_value=alone_db)})
        for alone_db in (-ALONE_DB, ALONE_DB)
    )
    noise = envelope.with_bands_of(noise, periodic)
    return periodic.samples, noise.samples


DIMENSION = Dimension(
    name="breathiness",
    noun="breathiness",
    unit="dB",
    jnd=Jnd(
        steady=6.0,
        running=10.0,
        source="6 dB of noise to harmonics on steady vowels, 10 dB on running speech; conventions until listeners confirm them",
    ),
    max_span={"vowels": 36.0, "voice": 36.0},
    window_s=0.06,
    holds=("loudness", "pitch", "brightness"),
    linked=("hoarseness", "noise", "distortion"),
    restores=("loudness",),
    manipulate=manipulate,
    measure=periodicity.noise_to_harmonics_db,
    witness=periodicity.minus_cepstral_peak_db,
    band=Band(5000.0, "breath is heard where harmonics are weak, about the third formant and above it: 2 to 5 kHz"),
    held_by=(HeldBy(periodicity.noise_to_harmonics_db, 0.8, floor=CLEAR_DB),),
)
