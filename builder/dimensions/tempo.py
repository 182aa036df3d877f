"""Tempo: rate of syllables or pulses, natural logarithm (0.1 is about 10 %).

Swept by Praat's DurationTier on recordings, on the parameters of synthesis; the rate is normalised so that the clip
lasts exactly as long as its source. Measured on events picked from the level envelope, as the log of one over the
interval; witnessed by the envelope's local period (short-time autocorrelation), which picks no events and asks no sham, but
reads the same level envelope.

Running speech has a rate of its own that moves by a third from half to half, and no meter follows it surely enough to take
that out: so it's no carrier here. The carriers are a real syllable repeated, synthetic syllables, and pulses. A stretch keeps
the power of what it stretches, so loudness is held without being restored.

References
----------
Quene, H. (2007). On the just noticeable difference for tempo in speech. Journal of Phonetics 35(3), 353-362.
de Jong, N. H. & Wempe, T. (2009). Behavior Research Methods 41(2), 385-390.
"""

from __future__ import annotations

import numpy as np

from builder.acoustics import audio, meters, praat, voice
from builder.dimensions._contract import Band, Dimension, HeldBy, Planned
from builder.errors import Refused
from builder.records import FloatArray, Jnd, Reason, Sound, Source

LOCAL_FACTOR = (0.7, 1.4)
"""Allowed local change of duration: overlap-add drops or repeats too many periods beyond it."""


def manipulate(source: Source, planned: Planned) -> Sound:
    """The source with a planned local rate, its length kept. Carriers are steady, so there is no trend to take out.

    The ends are faded anew: a fade that was stretched along would tell the rate there.

    Raises
    ------
    Refused
        `out_of_range` where a stretch would last under 0.7 or over 1.4 times as long; `does_nothing` on steady sounds.
    """
    if source.synthesise is not None:
        if "tempo" not in source.controls:
            raise Refused(Reason.DOES_NOTHING, f"a {source.spec.kind} has no tempo to sweep")
        return source.synthesise({"tempo": planned.at})
    clip_time_s, original_time_s = voice.warp(planned.at, source.sound.duration_s)
    middle = (original_time_s[1:] + original_time_s[:-1]) / 2.0
    factor = np.diff(clip_time_s) / np.diff(original_time_s)
    if factor.min() < LOCAL_FACTOR[0] or factor.max() > LOCAL_FACTOR[1]:
        raise Refused(
            Reason.OUT_OF_RANGE,
            f"local durations of {factor.min():.2f} to {factor.max():.2f}, allowed is {LOCAL_FACTOR[0]} to {LOCAL_FACTOR[1]}",
        )
    points_s, factors = middle[2::5], factor[2::5]
    factors = factors * source.sound.duration_s / _integral(points_s, factors, source.sound.duration_s)
    overlap = source.sound.once("overlap", praat.Overlap)
    return audio.faded(overlap.with_durations(points_s, factors, source.seed))


def _integral(time_s: FloatArray, value: FloatArray, duration_s: float) -> float:
    """Integral from 0 to `duration_s` of a tier: straight between its points, constant outside them."""
    inside = float(np.sum((value[1:] + value[:-1]) / 2.0 * np.diff(time_s)))
    return inside + float(value[0] * time_s[0] + value[-1] * (duration_s - time_s[-1]))


DIMENSION = Dimension(
    name="tempo",
    noun="tempo",
    unit="ln(rate)",
    jnd=Jnd(
        steady=float(np.log(1.04)),
        running=float(np.log(1.15)),
        source="after Quene (2007), who found about 5 % for tempo in speech: 4 % on steady rows and 15 % for a gradual change on "
        "running speech are conventions until listeners confirm them",
    ),
    max_span={"syllables": 0.7, "voice_syllables": 0.7, "pulses": 0.7},
    window_s=0.3,
    holds=("pitch", "loudness", "brightness"),
    linked=(),
    restores=(),
    manipulate=manipulate,
    measure=meters.event_rate_log,
    witness=meters.periodicity_rate_log,
    band=Band(0.0, "level in time, of whatever is there"),
    paper_category="speaking_speed",
    held_by=(HeldBy(meters.event_rate_log, 0.8),),
    warps_time=True,
    about_mean=True,
)
