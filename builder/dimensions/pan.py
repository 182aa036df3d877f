"""Pan: where between left and right a sound is, as the level of the right channel re the left in dB.

Swept by panning a mono source with constant power: the sum of both channels' powers is the source's at every sample, so loudness
is held by construction. Measured by both channels' energies in windows; witnessed by the median of third-octave level
differences. Interaural correlation is no witness: it's 1 at any level difference of the same samples.

Level is all that moves: no delay between the ears and no decorrelation is added. In the mean of both channels, which is what a mono
model hears, a sound 6 dB to the right is as one 6 dB to the left: both clips of a pair are the same sound then, and nothing tells
the answer.

References
----------
J of 1 dB: after Breebaart, J. & Faller, C. (2007). Spatial Audio Processing. Wiley (about 1 dB about the middle).
"""

from __future__ import annotations

import numpy as np

from builder.acoustics import stereo
from builder.dimensions._contract import Band, Dimension, HeldBy, Planned
from builder.records import Jnd, Sound, Source

MAX_SPAN_DB = 24.0
"""From 12 dB on the left to 12 dB on the right: beyond about that much a sound is all at one ear."""


def manipulate(source: Source, planned: Planned) -> Sound:
    """The source in two channels with the planned level difference; it's in the middle where the plan is 0."""
    time_s = np.arange(len(source.sound.samples)) / source.sound.sample_rate_hz
    return stereo.panned(source.sound, planned.at(time_s))


DIMENSION = Dimension(
    name="pan",
    noun="position",
    unit="dB",
    jnd=Jnd(
        steady=1.0,
        running=1.0,
        source="after Breebaart & Faller (2007): level differences between the ears of about 1 dB are just noticed about the middle; "
        "for a gradual change a convention until listeners confirm it",
    ),
    max_span=dict.fromkeys(("speech", "syllables", "vowels", "voice", "voice_syllables", "tone", "noise", "pulses"), MAX_SPAN_DB),
    window_s=stereo.WINDOW_S,
    holds=("loudness",),
    linked=(),
    restores=(),
    manipulate=manipulate,
    measure=stereo.level_difference_db,
    witness=stereo.band_level_difference_db,
    band=Band(0.0, "one gain a channel on whatever is there"),
    held_by=(HeldBy(stereo.level_difference_db, 0.8),),
    stereo=True,
    question="Does this sound move to the {first} or to the {second} over time?",
    answers=("right", "left"),
)
