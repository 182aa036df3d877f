"""What a dimension is: the facts and functions that the stages need of it, and nothing else.

To add one: write `dimensions/<name>.py` with a `DIMENSION`, add its name to `NAMES` in `dimensions/__init__.py`, write
`recipes/<name>.yaml`, and a known-answer test. The laws in `tests/test_laws.py` run over it by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from builder.acoustics import curves
from builder.records import Contour, FloatArray, Jnd, Sound, Source


@dataclass(frozen=True)
class Planned:
    """The contour that a clip is asked to follow.

    Parameters
    ----------
    curve, span
        Shape of progress; signed end-to-end change in the dimension's unit (0 for a sham).
    start_s, end_s
        The stretch of the clip that the sweep covers.
    movement
        What is kept of the carrier's own movement about its trend: 1 all, 0 none.
    imposed
        Whether the carrier's own trend stays in: what a label that is only imposed would have been put on. Never published.
    """

    curve: str
    span: float
    start_s: float
    end_s: float
    movement: float = 1.0
    imposed: bool = False

    def at(self, time_s: FloatArray) -> FloatArray:
        """The planned value at given times: span * (progress - 1/2)."""
        return curves.planned(self.curve, self.span, time_s, self.start_s, self.end_s)

    def seen_at(self, time_s: FloatArray, window_s: float) -> FloatArray:
        """The planned value as a meter with a window of `window_s` sees it."""
        return curves.planned_as_seen(self.curve, self.span, time_s, self.start_s, self.end_s, window_s)


@dataclass(frozen=True)
class Band:
    """How far up a recording must reach to carry a dimension; synthesis always does.

    Parameters
    ----------
    needs_hz
        Least bandwidth of a recording (`acoustics.bandwidth.bandwidth_hz`); 0 where any will do. One figure for all tiers, so that
        they have the same sources.
    reason
        What lies there that the sweep or its meters act on.
    """

    needs_hz: float
    reason: str


@dataclass(frozen=True)
class Need:
    """What a real source must have to carry a sweep, as far as the survey tells; the sweep itself looks again.

    Speakers are given to splits by it, so that each split has voices that can carry what the recipe asks of it.

    Parameters
    ----------
    fact
        Which fact of a `records.Carrier`.
    at_least
        Span, in the dimension's unit -> the least value of the fact.
    words
        What such sources do, with a place for the value (of a reach in Hz): "have a median F0 of at least {:.0f} Hz".
    """

    fact: Literal["f0_hz", "reach_octaves", "tilt_db_per_octave"]
    at_least: Callable[[float], float]
    words: str


@dataclass(frozen=True)
class HeldBy:
    """A measure that must stay still when another dimension is swept.

    Parameters
    ----------
    measure
        Sound alone -> contour.
    limit_jnd
        Largest |contrast| against the sham, in J of the dimension.
    factor_per_ten
        For levels: the factor by which what is averaged grows over ten units (power: 10 per 10 LU; loudness: 2 per 10 phon).
        None averages the values themselves.
    floor
        Values below count as this: of a property that is too weak to be heard, more or less of it is no change.
    name
        Of a second measure of the dimension, under which its leakage is published and can be declared linked.
    """

    measure: Callable[[Sound], Contour]
    limit_jnd: float
    factor_per_ten: float | None = None
    floor: float | None = None
    name: str | None = None

    def contour(self, sound: Sound) -> Contour:
        """The measure's contour, nothing of it below the floor."""
        found = self.measure(sound)
        return found if self.floor is None else Contour(found.time_s, np.maximum(found.value, self.floor), found.counted)


@dataclass(frozen=True)
class Dimension:
    """One audible property.

    Its contours rise as what the question calls it rises: background noise is measured in dB re the signal, not as SNR.

    Parameters
    ----------
    name
        Column value and configuration name.
    noun
        What the question calls it.
    unit
        Of contours, spans and effects.
    jnd
        The unit that tiers count in.
    max_span
        Largest end-to-end change by source kind, in the unit; kinds that aren't named can't carry the dimension.
    window_s
        Width of the heard measure's window, for comparing its contour to the planned one.
    holds
        Dimensions that must stay still while this one is swept.
    linked
        Dimensions, or named measures of a held one, that can't be held by nature, or that their meters can't tell from this one
        (noise hides the periods of a voice); declared, and measured by the audit.
    restores
        Held dimensions that are matched to the sham's contour after the sweep.
    manipulate
        (source, planned) -> the swept sound, as long as the source; the carrier's own trend is taken out first, unless
        `planned.imposed`. Raises `Refused`.
    measure
        Sound alone -> contour in the unit; of a `parts` dimension, from the sound's parts: empty where it has none.
    witness
        Samples alone -> contour by an independent method, rising and falling with the dimension.
    band
        How far up a recording must reach to be swept.
    needs
        What else a real source must have, where the survey can tell.
    accepted
        Source kind -> share of real candidates with what they need that pass all rules of the label, on the tier where fewest do; where
        it isn't told, a half.
    basis
        `heard`: the label is measured on the clip alone. `parts`: the property is a relation between parts that we mixed, and
        is computed exactly from them as they are in the final samples; what can be measured from the clip alone is the
        witness's, and is published beside it.
    paper_category
        What the original study calls it; None if it has none.
    held_by
        Measures that must all stay still when another dimension is swept; all but the first have a name of their own.
    restore
        (sound, sham, shape, linked) -> the sound with the sham's contour; the shape is `Planned.seen_at` of the sweep whose
        effect is undone, linked what that sweep declares. None where there is no way.
    warps_time
        Whether the sweep moves moments within the clip.
    about_mean
        Whether contours lie about the clip's own mean instead of the sweep's middle: the meter reads changes alone, or the sweep keeps
        the length of the clip and with it the mean rate.
    stereo
        Whether its clips have two channels; such a dimension isn't part of the configuration `all`.
    question, answers
        The question, with places for the noun and for both answers in either order, and the answers for a rise and for a fall.
    """

    name: str
    noun: str
    unit: str
    jnd: Jnd
    max_span: Mapping[str, float]
    window_s: float
    holds: tuple[str, ...]
    linked: tuple[str, ...]
    restores: tuple[str, ...]
    manipulate: Callable[[Source, Planned], Sound]
    measure: Callable[[Sound], Contour]
    witness: Callable[[Sound], Contour]
    band: Band
    needs: tuple[Need, ...] = ()
    accepted: Mapping[str, float] = field(default_factory=dict)
    paper_category: str | None = None
    held_by: tuple[HeldBy, ...] = ()
    restore: Callable[[Sound, Sound, Callable[[FloatArray, float], FloatArray], tuple[str, ...]], Sound] | None = None
    warps_time: bool = False
    basis: Literal["heard", "parts"] = "heard"
    about_mean: bool = False
    stereo: bool = False
    question: str = "Does the {noun} of this sound {first} or {second} over time?"
    answers: tuple[str, str] = ("increase", "decrease")
