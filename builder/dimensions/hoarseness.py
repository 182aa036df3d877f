"""Hoarseness: jitter, the irregularity of neighbouring periods, as its natural logarithm (0.4 is about half as much again).

Swept by the size of a random deviation of each period (and of each pulse's level in synthesis); the deviations themselves are
the same in the sham and in both clips. Measured by local jitter as Praat defines it, in windows of half a second; witnessed by
the harmonics-to-noise ratio, negated, which counts no periods.

Irregular periods fill the gaps between harmonics, so breathiness, noise and brightness are linked.
"""

from __future__ import annotations

import numpy as np

from builder.acoustics import periodicity
from builder.dimensions._contract import Band, Dimension, HeldBy, Planned
from builder.errors import Refused
from builder.records import FloatArray, Jnd, Reason, Sound, Source

BASE_JITTER = 0.016
"""Standard deviation of a period in the middle of a sweep, relative."""
CLEAR_LOG = float(np.log(0.0104))
"""Jitter of 1.04 %, the threshold for pathology that Praat's manual quotes from MDVP: less counts as a clear voice."""


def manipulate(source: Source, planned: Planned) -> Sound:
    """The voice with the planned jitter.

    Raises
    ------
    Refused
        `does_nothing` on what has no periods to disturb.
    """
    if source.synthesise is None or "hoarseness" not in source.controls:
        raise Refused(Reason.DOES_NOTHING, f"a {source.spec.kind} has no periods to disturb")
    middle = float(np.log(BASE_JITTER / float(source.spec.parameters["jitter"])))

    def log_factor(time_s: FloatArray) -> FloatArray:
        return middle + planned.at(time_s)

    return source.synthesise({"hoarseness": log_factor})


DIMENSION = Dimension(
    name="hoarseness",
    noun="hoarseness",
    unit="ln(jitter)",
    jnd=Jnd(
        steady=float(np.log(1.5)),
        running=float(np.log(1.5)),
        source="a factor of 1.5 in jitter; a convention until listeners confirm it",
    ),
    max_span={"vowels": 2.5, "voice": 2.5},
    window_s=periodicity.JITTER_WINDOW_S,
    holds=("loudness", "pitch"),
    linked=("breathiness", "brightness", "noise"),
    restores=("loudness",),
    manipulate=manipulate,
    measure=periodicity.jitter_log,
    witness=periodicity.noise_to_harmonics_db,
    band=Band(1000.0, "periods are told by the strongest harmonics of a voice, which lie below 1 kHz"),
    held_by=(HeldBy(periodicity.jitter_log, 0.8, floor=CLEAR_LOG),),
)
