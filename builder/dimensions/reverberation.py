"""Reverberation: level of the reverberant field over the direct sound's, in dB.

A room of 0.5 to 0.7 s rings along, at a level that rises or falls; sham and both clips of a pair stand in the same room. The field
is there from the first sample, and its tail ends with the clip. The ratio is measured on the parts as they are in the final
samples; the witness is blind: how slowly bands decay behind loud moments.

What is steady hardly tells a room: on held vowels, tones and noise the witness hears nothing, so they are no carriers. Rows have
pauses that a room fills, and BS.1770 and ISO 532-1 don't weigh pauses alike: they don't reach the largest tier.

A room fills dips, blurs events and smears F0, so noise, tempo, harmonicity and vibrato are linked for their meters.

References
----------
Larsen, E., Iyer, N., Lansing, C. R. & Feng, A. S. (2008). On the minimum audible difference in direct-to-reverberant energy ratio.
JASA 124(1), 450-461 (2 to 3 dB at 0 and 10 dB, more at the extremes).
"""

from __future__ import annotations

from builder.acoustics import blind, mixing
from builder.dimensions._contract import Band, Dimension, HeldBy, Planned
from builder.records import Jnd, Sound, Source

MIX = mixing.Mix("direct", "reverberant", base_db=-9.0)
UNHEARD_DB = -18.0
"""Below, the blind meter reads a sound's own decays: it counts as no room."""


def manipulate(source: Source, planned: Planned) -> Sound:
    """The source in a room of its own seed; raises as `mixing.Mix.swept`."""
    return MIX.swept(source, planned.at, lambda sound: mixing.reverberant_field(sound, source.seed), keep_trend=planned.imposed)


DIMENSION = Dimension(
    name="reverberation",
    noun="reverberation",
    unit="dB",
    jnd=Jnd(steady=3.0, running=3.0, source="Larsen et al. (2008): 2 to 3 dB of direct-to-reverberant ratio at 0 and 10 dB"),
    max_span={"speech": 36.0, "syllables": 9.0, "voice_syllables": 18.0, "pulses": 9.0},
    window_s=mixing.RATIO_WINDOW_S,
    holds=("loudness", "brightness"),
    linked=("noise", "breathiness", "vibrato", "tempo"),
    restores=(),
    manipulate=manipulate,
    measure=MIX.ratio_db,
    witness=blind.decay_db,
    band=Band(0.0, "a room rings in whatever bands there are, and its decay is read off the strongest"),
    basis="parts",
    paper_category="echo",
    held_by=(HeldBy(blind.decay_db, 0.8, floor=UNHEARD_DB),),
)
