"""The frozen records that pass between stages. Every physical field carries its unit in its name.

Times are in seconds from the start of the clip; samples are float64 in [-1, 1] (full scale = 1); a contour's value is
`nan` where the dimension does not exist (F0 in silence).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from builder.keys import digest

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
T = TypeVar("T")

CONTROLS = "controls"
"""Configuration and folder of clips without a direction."""


class Direction(StrEnum):
    """Which way the swept dimension goes over the clip."""

    UP = "up"
    DOWN = "down"


class Reason(StrEnum):
    """Why a source or a pair was not published. Every refusal is counted under one of these."""

    # the corpus
    NO_SPEAKER = "no_speaker"
    OUTSIDE = "outside"
    LEFT_OUT = "left_out"
    OVER_LIMIT = "over_limit"
    # the source file or its cut
    UNREADABLE = "unreadable"
    NOT_FINITE = "not_finite"
    NOT_MONO = "not_mono"
    RATE_TOO_LOW = "rate_too_low"
    TOO_SHORT = "too_short"
    SILENT = "silent"
    NOISY = "noisy"
    CLIPPED = "clipped"
    UNVOICED = "unvoiced"
    NOT_REPEATABLE = "not_repeatable"
    TOO_QUIET = "too_quiet"
    OVER_QUOTA = "over_quota"
    # the splits
    TEXT_IN_OTHER_SPLIT = "text_in_other_split"
    RECORDING_IN_OTHER_SPLIT = "recording_in_other_split"
    # the sweep
    DOES_NOTHING = "does_nothing"
    OUT_OF_RANGE = "out_of_range"
    NARROW_BAND = "narrow_band"
    NO_HEADROOM = "no_headroom"
    # the label
    UNMEASURABLE = "unmeasurable"
    CONTRADICTED = "contradicted"
    UNCLEAR = "unclear"
    TOO_SMALL = "too_small"
    NOT_SALIENT = "not_salient"
    NOT_FLAT = "not_flat"
    DIFFERENCE_UNFIT = "difference_unfit"
    WITNESS_CONTRADICTS = "witness_contradicts"
    WITNESS_UNMEASURABLE = "witness_unmeasurable"
    WITNESS_UNDECIDED = "witness_undecided"
    LEAK = "leak"
    DUPLICATE = "duplicate"


@dataclass(frozen=True, eq=False)
class Sound:
    """Samples and their rate.

    Parameters
    ----------
    samples
        float64, shape (n,) for mono or (n, 2) for stereo, full scale 1.
    sample_rate_hz
        Samples per second.
    parts
        What the sound was mixed from, by name, each of the shape of `samples`; they add up to it (to the rounding to 16 bit).
        Only where we made the mix: a file that was read has none.
    """

    samples: FloatArray
    sample_rate_hz: int
    parts: Mapping[str, FloatArray] = field(default_factory=dict, repr=False)
    _memo: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def duration_s(self) -> float:
        """Length in seconds."""
        return len(self.samples) / self.sample_rate_hz

    @property
    def channels(self) -> tuple[FloatArray, ...]:
        """Samples of each channel, shape (n,)."""
        return (self.samples,) if self.samples.ndim == 1 else tuple(self.samples.T)

    @property
    def mono(self) -> FloatArray:
        """Mean of the channels, shape (n,)."""
        return self.samples if self.samples.ndim == 1 else self.samples.mean(axis=1)

    def each(self, change: Callable[[FloatArray], FloatArray]) -> Sound:
        """The sound with a linear change made to its samples and to each of its parts alike."""
        return Sound(change(self.samples), self.sample_rate_hz, {name: change(part) for name, part in self.parts.items()})

    def knows(self, name: str) -> bool:
        """Whether the result of `name` is kept."""
        return name in self._memo

    def once(self, name: str, compute: Callable[[Sound], T]) -> T:
        """The result of `compute(self)`, computed at the first call and kept under `name`.

        Analyses that several measures share (spectrogram, F0, momentary loudness) cost once per sound this way.
        """
        if name not in self._memo:
            self._memo[name] = compute(self)
        result: T = self._memo[name]
        return result


@dataclass(frozen=True, eq=False)
class Contour:
    """A dimension's value over time.

    Parameters
    ----------
    time_s
        float64, shape (n_frames,): centre of each frame.
    value
        float64, shape (n_frames,), in the dimension's unit; `nan` where undefined.
    counted
        bool, shape (n_frames,): frames that are loud enough to be asked for a value; None for all. The share of valid
        frames is a share of these, so that pauses don't count against a clip.
    """

    time_s: FloatArray
    value: FloatArray
    counted: BoolArray | None = None

    @property
    def valid(self) -> BoolArray:
        """bool, shape (n_frames,): where the value exists."""
        return np.isfinite(self.value)


@dataclass(frozen=True)
class Jnd:
    """The unit that tiers count in, in the dimension's unit, with where it comes from.

    Parameters
    ----------
    steady
        On carriers that hold still by themselves: synthesis, repeated syllables.
    running
        On running speech.
    source
        Paper or standard, or what makes it a convention.
    """

    steady: float
    running: float
    source: str

    def on(self, kind: str) -> float:
        """The unit that applies on a source kind."""
        return self.running if kind == "speech" else self.steady


@dataclass(frozen=True, slots=True)
class Carrier:
    """What the survey knows of a stretch of a recording: enough to tell, before anything is made of it, which sweeps it can carry.

    Parameters
    ----------
    bandwidth_hz
        How far up its whole recording reaches.
    f0_hz
        Its median F0; 0 where none was found.
    reach_octaves
        How far up it reaches by itself in three quarters of its frames, re 1 kHz; -inf where nothing is heard.
    tilt_db_per_octave
        Its median spectral tilt; -inf where nothing is heard.
    """

    bandwidth_hz: float
    f0_hz: float
    reach_octaves: float
    tilt_db_per_octave: float


@dataclass(frozen=True)
class SourceSpec:
    """What is swept, fully determined: enough to make the same samples again.

    Parameters
    ----------
    kind
        `speech`, `syllables`, `vowels` (real), `voice`, `voice_syllables`, `tone`, `noise` or `pulses` (synthetic).
    source_id
        Opaque, stable identifier of the recording cut or synthesis.
    parameters
        JSON-able values that the kind's maker understands.
    speaker_id, language, text
        Who speaks what in which language (ISO 639-1); None where there is no such thing or it isn't known.
    licence, attribution
        SPDX licence identifier and the line that must be printed with it.
    carrier
        What the survey knows of it; None for synthesis, and where nothing was surveyed. Not part of what it is: it decides neither
        the digest nor the row.
    """

    kind: str
    source_id: str
    parameters: Mapping[str, Any]
    speaker_id: str | None
    language: str | None
    text: str | None
    licence: str
    attribution: str
    carrier: Carrier | None = field(default=None, compare=False, repr=False)

    @cached_property
    def digest(self) -> str:
        """Of everything here, 32 hexadecimal digits; computed once, for it's part of the digest of every shard that may use it."""
        values = (self.kind, self.source_id, dict(self.parameters), self.speaker_id, self.language, self.text, self.licence)
        return digest([*values, self.attribution], 32)


@dataclass(frozen=True, eq=False)
class Source:
    """A source as sound, ready to be swept.

    Parameters
    ----------
    spec
        Where it comes from.
    sound
        Mono, at its own level about the reference level, ends faded.
    start_s, end_s
        The active region: what a sweep covers.
    seed
        For random parts of a resynthesis; the same for the sham and both clips of a pair.
    controls
        Dimensions that `synthesise` can move directly.
    synthesise
        Makes the sound again under controls (dimension -> change at each time); None for recordings.
    """

    spec: SourceSpec
    sound: Sound
    start_s: float
    end_s: float
    seed: int
    controls: frozenset[str] = frozenset()
    synthesise: Callable[[Mapping[str, Callable[[FloatArray], FloatArray]]], Sound] | None = None


@dataclass(frozen=True)
class Margins:
    """By how much a measurement must agree before it's a label; the recipe's `margins` and `isolation`.

    Parameters
    ----------
    min_contrast_jnd
        Smallest |contrast| as heard, in J.
    min_share_of_plan
        Smallest |contrast| as heard, as a share of the planned one.
    min_valid, min_valid_third
        Smallest share of counted frames with a value, over the active region and in each of its thirds.
    min_counted
        Smallest share of frames that are counted (loud enough to be asked for a value).
    difference_gain
        Allowed gain of the difference contour on the planned curve.
    min_r_squared
        Smallest share of the difference contour's variance that the planned curve explains.
    min_salience
        Smallest total change over standard deviation of the residual; 0 asks for nothing.
    max_leak_jnd
        Largest |contrast| of a held dimension against the sham, in J.
    bases
        Which label bases are published: `heard` (the clip alone), `parts` (exact, from what the clip was mixed from),
        `difference` (heard against the sham only).
    max_control_jnd
        Largest |contrast| as heard of a control, in J.
    """

    min_contrast_jnd: float = 1.0
    min_share_of_plan: float = 0.5
    min_valid: float = 0.6
    min_valid_third: float = 0.2
    min_counted: float = 0.4
    difference_gain: tuple[float, float] = (0.6, 1.4)
    min_r_squared: float = 0.7
    min_salience: float = 0.0
    max_leak_jnd: float = 0.8
    bases: tuple[str, ...] = ("heard", "parts")
    max_control_jnd: float = 0.5


@dataclass(frozen=True)
class PairPlan:
    """A rising and a falling clip, fully determined: the unit that is accepted or rejected whole.

    Parameters
    ----------
    dimension, tier, curve, split
        The cell, with the source's kind.
    span
        Unsigned end-to-end change in the dimension's unit; 0 for a control.
    planned_contrast
        Unsigned change from first to last third that the span gives on this curve.
    jnd
        J on this kind of source, in the dimension's unit.
    source
        What is swept.
    movement
        Share of the carrier's own movement about its trend that is kept.
    sample_rate_hz
        Working and published rate.
    """

    dimension: str
    tier: str
    curve: str
    split: str
    span: float
    planned_contrast: float
    jnd: float
    source: SourceSpec
    movement: float
    sample_rate_hz: int

    @property
    def cell(self) -> Cell:
        """The cell that the pair competes for."""
        return Cell(self.dimension, self.tier, self.curve, self.source.kind, self.split)


@dataclass(frozen=True, order=True)
class Cell:
    """What is filled to an exact count of pairs, so that balance holds by construction."""

    dimension: str
    tier: str
    curve: str
    kind: str
    split: str

    @property
    def is_control(self) -> bool:
        """Whether the cell holds single flat clips instead of pairs."""
        return self.curve == "flat"

    def __str__(self) -> str:
        return " x ".join((self.dimension, self.tier, self.curve, self.kind, self.split))


@dataclass(frozen=True)
class ShardPlan:
    """A part of the build that is made on its own: planned rows in, one Parquet and one report out.

    Parameters
    ----------
    dimension, split
        What it belongs to.
    index, count
        This shard's number (from 0) and how many the dimension and split have.
    wanted
        Pairs (or single controls) to fill per cell.
    controls
        Whether this shard holds controls.
    pool
        Real sources that only this shard may use, by kind.
    spans
        (tier, curve, kind) -> (span, planned contrast, J).
    movement
        Kind -> share of the carrier's own movement that is kept.
    margins
        Of the label rule.
    seed, sample_rate_hz
        The recipe's.
    sex
        Speaker -> f or m, of speakers in the pool of whom it's known: candidates take turns by it.
    """

    dimension: str
    split: str
    index: int
    count: int
    wanted: tuple[tuple[Cell, int], ...]
    pool: Mapping[str, tuple[SourceSpec, ...]]
    spans: Mapping[tuple[str, str, str], tuple[float, float, float]]
    movement: Mapping[str, float]
    margins: Margins
    seed: int
    sample_rate_hz: int
    controls: bool = False
    sex: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Path of the shard below the data folder, without its ending."""
        folder = f"{CONTROLS}/{self.dimension}-" if self.controls else f"{self.dimension}/"
        return f"{folder}{self.split}-{self.index:05d}-of-{self.count:05d}"

    @property
    def n_wanted(self) -> int:
        """Pairs (or controls) that the shard must fill."""
        return sum(count for _, count in self.wanted)

    @property
    def n_clips(self) -> int:
        """Clips to publish: two of each pair, and single controls."""
        return self.n_wanted * (1 if self.controls else 2)
