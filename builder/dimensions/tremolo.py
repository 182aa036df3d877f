"""Tremolo: depth of a slow, regular swing of level, in dB re full modulation (20 log10 m).

Swept by a sinusoidal gain 1 + m sin at 4 to 6.5 Hz, one rate and phase per source. Measured by a local sine in the power of
short frames, at the strongest rate from 3 to 8 Hz; witnessed by peaks and troughs of Hilbert's envelope.

The unit is a log of the depth, so that from a swing that is just heard (m = 0.1) to a full one all tiers have room.

Loudness is held without being restored: the windows of momentary loudness (400 ms) rise and fall with the tremolo itself, and
matching them to the sham's would undo it. Instead the gain is divided by a power of its mean square over a cycle. BS.1770 goes
by mean power, ISO 532-1 by the mean of loudness, which a deep swing lowers: the power lies between what either would have.

The blind meter of distortion takes the swing for another shape of the wave: it's declared as linked.

Running speech and repeated syllables swing at 3 to 9 Hz by themselves, by more than any tremolo: they are no carriers here.

References
----------
Viemeister, N. F. (1979). Temporal modulation transfer functions based upon modulation thresholds. JASA 66(5), 1364-1380.
Fastl, H. & Zwicker, E. (2007). Psychoacoustics: Facts and Models, 3rd edition. Springer, chapter 10 (fluctuation strength).
"""

from __future__ import annotations

import numpy as np

from builder.acoustics import modulation
from builder.dimensions._contract import Band, Dimension, HeldBy, Planned
from builder.records import Contour, Jnd, Sound, Source

BASE_DEPTH_DB = -12.0
RATE_HZ = (4.0, 6.5)
HEARD_RATE_HZ = (3.0, 8.0)
WINDOW_S = 0.6
FRAME_S, HOP_S = 0.032, 0.005
HELD = 0.2
"""Power of the gain's mean square that the gain is divided by: 0.5 would hold BS.1770 still, about 0 ISO 532-1."""
STEADY_DB = -22.0
"""Depth below which a swing counts as none (m = 0.08): about the threshold for slow modulation of noise in Viemeister (1979)."""


def manipulate(source: Source, planned: Planned) -> Sound:
    """The source under a sinusoidal gain of the planned depth about -12 dB; rate and phase are the source's."""
    rng = np.random.default_rng(source.seed)
    rate_hz, phase = float(rng.uniform(*RATE_HZ)), float(rng.uniform())
    time_s = np.arange(len(source.sound.samples)) / source.sound.sample_rate_hz
    return modulation.amplitude_modulated(source.sound, BASE_DEPTH_DB + planned.at(time_s), rate_hz, phase, HELD)


def measure(sound: Sound) -> Contour:
    """Depth of the strongest modulation from 3 to 8 Hz, dB re full modulation."""
    return modulation.amplitude_depth_db(sound, HEARD_RATE_HZ, WINDOW_S, FRAME_S, HOP_S)


def witness(sound: Sound) -> Contour:
    """Modulation index from peaks and troughs of the envelope."""
    return modulation.peak_to_trough(sound)


DIMENSION = Dimension(
    name="tremolo",
    noun="tremolo",
    unit="dB",
    jnd=Jnd(steady=1.6, running=1.6, source="1.6 dB of depth, at m = 0.5 about 0.1 of m; a convention until listeners confirm it"),
    max_span={"vowels": 19.2, "voice": 19.2, "tone": 19.2, "noise": 19.2},
    window_s=0.375,
    holds=("loudness", "pitch"),
    linked=("distortion",),
    restores=(),
    manipulate=manipulate,
    measure=measure,
    witness=witness,
    band=Band(0.0, "one gain on whatever is there"),
    paper_category="voice_vibration",
    held_by=(HeldBy(measure, 0.8, floor=STEADY_DB),),
)
