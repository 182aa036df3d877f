"""Loudness: BS.1770 momentary loudness in LU.

Swept by a gain. The whole pair is turned down together, by plan, so that neither clip peaks over -1 dBFS: nothing is
clipped and the two clips share their mid-point. Measured by BS.1770; witnessed by ISO 532-1 loudness level.

References
----------
ITU-R BS.1770-4 (2015). ISO 532-1:2017.
J of 2 LU on speech: PMC6862772 (2.0 dB in speech).
"""

from __future__ import annotations

import numpy as np

from builder.acoustics import audio, filters, meters, statistics
from builder.dimensions._contract import Band, Dimension, HeldBy, Planned
from builder.records import Jnd, Sound, Source

LEVEL = "loudness_level"
"""ISO 532-1 loudness level, as a measure of its own."""


def manipulate(source: Source, planned: Planned) -> Sound:
    """The source with its own trend of loudness taken out and the planned gain put in, with headroom for both signs."""
    sound = source.sound
    own = meters.momentary_loudness_lufs(sound)
    trend = 0.0 if planned.imposed else statistics.drift_per_s(own, source.start_s, source.end_s)
    time_s = np.arange(len(sound.samples)) / sound.sample_rate_hz
    middle_s = (source.start_s + source.end_s) / 2.0
    flattening_db = -trend * (time_s - middle_s)
    flat = filters.scaled_by_db(sound, flattening_db)
    change_db = planned.at(time_s)
    loudest = max(audio.peak_dbfs(filters.scaled_by_db(flat, sign * change_db)) for sign in (1.0, -1.0))
    headroom_db = min(0.0, audio.PEAK_LIMIT_DBFS - 0.5 - loudest)
    return filters.scaled_by_db(flat, change_db + headroom_db)


def restore(sound: Sound, sham: Sound, shape: filters.Shape, linked: tuple[str, ...]) -> Sound:
    """The sound as loud as the sham: on both models as far as that goes, or by BS.1770 alone where loudness level is linked."""
    return filters.with_loudness_of(sound, sham, shape, level_share=0.0 if LEVEL in linked else filters.LEVEL_SHARE)


DIMENSION = Dimension(
    name="loudness",
    noun="loudness",
    unit="LU",
    jnd=Jnd(steady=1.0, running=2.0, source="PMC6862772: 2.0 dB in speech; 1 dB on steady sounds"),
    max_span={"speech": 24.0, "voice": 24.0, "tone": 24.0, "noise": 24.0},
    window_s=meters.MOMENTARY_WINDOW_S,
    holds=("pitch", "tempo", "brightness"),
    linked=(),
    restores=(),
    manipulate=manipulate,
    measure=meters.momentary_loudness_lufs,
    witness=meters.loudness_level_phon,
    band=Band(0.0, "one gain on whatever is there"),
    paper_category="volume",
    held_by=(
        HeldBy(meters.momentary_loudness_lufs, 0.8, factor_per_ten=10.0),
        HeldBy(meters.loudness_level_phon, 1.0, factor_per_ten=2.0, name=LEVEL),
    ),
    restore=restore,
)
