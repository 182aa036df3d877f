"""Roughness: depth of modulation at 70 Hz, in dB re full modulation (20 log10 m).

Swept by a sinusoidal gain 1 + m sin at 70 Hz, the rate at which sounds are roughest, divided by its own RMS. Measured by a
local sine in the power of short frames, at the strongest rate from 60 to 80 Hz; witnessed by the ripple of Hilbert's envelope.

The division keeps the mean power of each cycle, and both models of loudness average over far more than a cycle: so loudness
is held without being restored. Side bands fill the gaps between harmonics, which a spectral tilt takes for a change of
brightness: that is linked. So is jitter, for periods under another gain than their neighbours are placed a little off.

A carrier under 180 Hz has side bands that make it a lower voice, of 70 Hz or so, and is refused; a higher one is rejected
where its F0 goes over to such a multiple of its period. Of running speech, too few voices are high enough, and those that
are go under 180 Hz often enough that hardly a pair in four is left: so it's no carrier here, nor are repeated syllables.

Roughness in asper grows about as m to the power of 1.6: 1 dB of m is about 20 % of asper, 1.4 dB about 30 %.

References
----------
Fastl, H. & Zwicker, E. (2007). Psychoacoustics: Facts and Models, 3rd edition. Springer, chapter 11 (roughness).
Daniel, P. & Weber, R. (1997). Psychoacoustical roughness: implementation of an optimized model. Acustica 83, 113-123.
"""

from __future__ import annotations

import numpy as np

from builder.acoustics import meters, modulation
from builder.dimensions._contract import Band, Dimension, HeldBy, Need, Planned
from builder.errors import Refused
from builder.records import Contour, Jnd, Reason, Sound, Source

BASE_DEPTH_DB = -7.0
RATE_HZ = 70.0
HEARD_RATE_HZ = (60.0, 80.0)
WINDOW_S = 0.25
FRAME_S, HOP_S = 0.015, 0.002
"""A squared Hann window of 15 ms lets a ripple of 70 Hz through, but not one at the F0 of a voice from 180 Hz on."""
LOWEST_F0_HZ = 180.0
MIN_VOICED = 0.2
"""Share of frames with F0 from which on a sound has a voice: in noise some frames look voiced by chance."""
SMOOTH_DB = -14.0
"""Depth below which a 70 Hz modulation counts as smooth (m = 0.2); a convention until listeners confirm it."""


def manipulate(source: Source, planned: Planned) -> Sound:
    """The source under a 70 Hz gain of the planned depth about -7 dB; its phase is the source's.

    Raises
    ------
    Refused
        `out_of_range` where the median F0 is under 180 Hz: the modulation would be heard as a lower voice.
    """
    f0 = meters.f0_semitones(source.sound)
    f0_hz = 100.0 * 2.0 ** (f0.value[f0.valid] / 12.0)
    if f0_hz.size > MIN_VOICED * f0.value.size and np.median(f0_hz) < LOWEST_F0_HZ:
        raise Refused(Reason.OUT_OF_RANGE, f"a median F0 of {np.median(f0_hz):.0f} Hz, at least {LOWEST_F0_HZ:.0f} Hz is needed")
    phase = float(np.random.default_rng(source.seed).uniform())
    time_s = np.arange(len(source.sound.samples)) / source.sound.sample_rate_hz
    return modulation.amplitude_modulated(source.sound, BASE_DEPTH_DB + planned.at(time_s), RATE_HZ, phase)


def measure(sound: Sound) -> Contour:
    """Depth of the strongest modulation from 60 to 80 Hz, dB re full modulation."""
    return modulation.amplitude_depth_db(sound, HEARD_RATE_HZ, WINDOW_S, FRAME_S, HOP_S)


def witness(sound: Sound) -> Contour:
    """Modulation index from the ripple of the envelope."""
    return modulation.envelope_ripple(sound)


DIMENSION = Dimension(
    name="roughness",
    noun="roughness",
    unit="dB",
    jnd=Jnd(
        steady=1.0,
        running=1.4,
        source="about 20 % of asper, 30 % on running speech (roughness grows about as the depth to the power of 1.6); a convention "
        "until listeners confirm it",
    ),
    max_span={"vowels": 12.0, "voice": 12.0, "tone": 12.0, "noise": 12.0},
    window_s=0.155,
    holds=("loudness", "pitch"),
    linked=("brightness", "hoarseness"),
    restores=(),
    manipulate=manipulate,
    measure=measure,
    witness=witness,
    band=Band(0.0, "one gain on whatever is there"),
    needs=(Need("f0_hz", lambda _: LOWEST_F0_HZ, "have a median F0 of at least {:.0f} Hz"),),
    accepted={"vowels": 0.8},
    paper_category="audio_roughness",
    held_by=(HeldBy(measure, 0.8, floor=SMOOTH_DB),),
)
