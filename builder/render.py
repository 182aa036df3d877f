"""One planned clip to samples: pure in the plan row and its source.

After a sweep nothing touches the samples but what restores a held dimension, and the rounding to 16 bit.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from builder.acoustics import audio
from builder.dimensions import BY_NAME, Dimension, Planned
from builder.errors import Refused
from builder.records import PairPlan, Reason, Sound, Source
from builder.words import counted


def planned(pair: PairPlan, source: Source, sign: int) -> Planned:
    """The contour asked of one clip of a pair: sign +1 rises, -1 falls, 0 is the sham."""
    curve = pair.curve if sign else "flat"
    return Planned(curve, sign * pair.span, source.start_s, source.end_s, pair.movement)


def sham(pair: PairPlan, source: Source) -> Sound:
    """The same pipeline under a flat curve; made once per source, dimension and movement.

    Raises
    ------
    Refused
        As `clip`; a refused sham is refused again without being tried again.
    """
    dimension = BY_NAME[pair.dimension]

    def attempt(_: Sound) -> Sound | tuple[Reason, str]:
        try:
            return _rendered(dimension, source, planned(pair, source, 0))
        except Refused as refusal:
            return refusal.reason, refusal.detail  # the exception would keep its frames, and all that they hold

    made = source.sound.once(f"sham {dimension.name} {pair.movement}", attempt)
    if isinstance(made, tuple):
        raise Refused(*made)
    return made


def clip(pair: PairPlan, source: Source, sign: int) -> Sound:
    """One clip as it is published: rounded to 16 bit, as long as its source to the sample.

    Parameters
    ----------
    pair
        What to make.
    source
        Realised from `pair.source`.
    sign
        +1 rises, -1 falls, 0 is the sham (a control).

    Raises
    ------
    Refused
        `does_nothing` where the samples equal the sham's; `no_headroom` over -1 dBFS; and what the dimension refuses.
    """
    flat = sham(pair, source)
    if sign == 0:
        return flat
    return _rendered(BY_NAME[pair.dimension], source, planned(pair, source, sign), flat)


def imposed(pair: PairPlan, source: Source, sign: int) -> Sound:
    """The sweep put on a source as it is, with its own trend and movement, and nothing restored: no clip that is published.

    Raises
    ------
    Refused
        As `clip`.
    """
    asked = replace(planned(pair, source, sign), movement=1.0, imposed=True)
    return _rendered(BY_NAME[pair.dimension], source, asked)


def _rendered(dimension: Dimension, source: Source, contour: Planned, flat: Sound | None = None) -> Sound:
    made = dimension.manipulate(source, contour)
    if len(made.samples) != len(source.sound.samples):
        raise Refused(Reason.OUT_OF_RANGE, f"{counted(len(made.samples), 'sample')} came back, {len(source.sound.samples)} went in")
    if flat is not None:
        made = _restored(dimension, made, flat, contour)
    peak_dbfs = audio.peak_dbfs(made)
    if peak_dbfs > audio.PEAK_LIMIT_DBFS:
        raise Refused(Reason.NO_HEADROOM, f"peak {peak_dbfs:+.2f} dBFS, at most {audio.PEAK_LIMIT_DBFS:+.0f} is allowed")
    return audio.rounded_to_pcm16(made)


def _restored(dimension: Dimension, made: Sound, flat: Sound, contour: Planned) -> Sound:
    """A swept sound with its held dimensions matched to the sham; a sweep that changed nothing is refused before."""
    if np.array_equal(np.rint(made.samples * audio.PCM16_SCALE), np.rint(flat.samples * audio.PCM16_SCALE)):
        raise Refused(Reason.DOES_NOTHING, f"a span of {contour.span:g} {dimension.unit} leaves every sample as it was")
    for name in dimension.restores:
        restore = BY_NAME[name].restore
        if restore is not None:
            made = restore(made, flat, contour.seen_at, dimension.linked)
    return made
