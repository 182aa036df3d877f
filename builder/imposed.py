"""What labels would have been worth that are only imposed: sweeps put on raw recordings, and what is then heard.

A recording moves by itself: voices fall and fade towards the end of a sentence. Who copies the label from the knob that was turned
doesn't see that. So for some candidates of running speech the same sweep is also put on the recording as it is, its own trend left in
and nothing held, and the labelling rule is asked what can be heard. These clips are counted and thrown away.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from builder import label, measure, render
from builder.dimensions import BY_NAME
from builder.errors import Refused
from builder.records import Margins, PairPlan, Sound, Source

KIND = "speech"
"""The kind of source that moves by itself; held vowels and repeated syllables are still by making."""
PER_CELL = 8
"""Candidates of a cell that are tried, the first ones, published or not."""


def outcome(pair: PairPlan, source: Source, margins: Margins) -> dict[str, Any]:
    """What both clips of a pair would say, had the sweep been put on the raw recording.

    Returns
    -------
    dict
        `dimension`, `tier`, `curve`, `source_id`, and `clips`, one for a rise and one for a fall: `rule`, what the labelling rule hears
        (1 what was imposed, -1 the opposite, 0 nothing), and `slope`, the same of the sign of the Theil-Sen slope alone; or `refused`,
        the reason why the sweep can't be made there.
    """
    raw = Source(source.spec, Sound(source.sound.samples, source.sound.sample_rate_hz), source.start_s, source.end_s, source.seed)
    head = {"dimension": pair.dimension, "tier": pair.tier, "curve": pair.curve, "source_id": source.spec.source_id}
    return {**head, "clips": [_said(pair, raw, sign, margins) for sign in (1, -1)]}


def _said(pair: PairPlan, raw: Source, sign: int, margins: Margins) -> dict[str, Any]:
    try:
        sound = render.imposed(pair, raw, sign)
    except Refused as refusal:
        return {"refused": refusal.reason.value}
    heard = label.hear(measure.measure(sound, BY_NAME[pair.dimension]), raw.start_s, raw.end_s)
    slope = sign * heard.trend
    return {"rule": sign * label.direction_of(heard, pair.jnd, margins), "slope": int(np.sign(slope)) if np.isfinite(slope) else 0}
