"""Read and check recipes: all faults of all files at once, each with its line and the nearest known key.

A recipe holds values only (see `strict_yaml`). `include:` names one other file (which may not include further) whose keys are
defaults. A release recipe lists dimension recipes under `dimensions:`, or says `all` for `<dimension>.yaml` of each; keys that it
sets itself (not through its include) override theirs, also the counts and tiers that they give single sources. Paths are relative
to the file that's loaded.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from builder import licences
from builder.acoustics import curves, voice
from builder.dimensions import BY_NAME, Dimension
from builder.errors import RecipeError
from builder.records import Cell, Margins
from builder.seeds import PUBLIC_BELOW, SecretSeed, name_of
from builder.strict_yaml import Strict, YamlFile, checked, one_of, spelt
from builder.words import nearest

SPLITS = ("train", "validation", "test")
SplitName = Literal["train", "validation", "test"]
ALL = "all"
SPEECH_KINDS = ("speech", "syllables", "vowels")
KINDS = (*SPEECH_KINDS, *voice.MAKERS)
SourceKind = Annotated[str, AfterValidator(lambda value: one_of(value, KINDS, "kind of source"))]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Counts = Mapping[SplitName, Annotated[int, Field(ge=0)]]
AsTuple = BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)


def _distinct(values: tuple[str, ...], what: str) -> tuple[str, ...]:
    """The values, if there are any and none stands twice."""
    if not values:
        raise ValueError(f"at least one {what} is needed")
    for value in values:
        if values.count(value) > 1:
            raise ValueError(f"{what} {value!r} is listed twice")
    return values


class SplitRule(Strict):
    """One split: its share of speakers, and what it needs at least."""

    share: Annotated[float, Field(gt=0.0, le=1.0)]
    min_speakers: Annotated[int, Field(ge=1)] = 1
    min_cuts: Annotated[int, Field(ge=1)] = 1


class SpeechRule(Strict):
    """How speech is read, cut and chosen from; units are seconds, hertz and decibels.

    `corpus` is one corpus recipe, a list of them, or null. `max_cuts_per_speaker` keeps a speaker's cuts of lowest keyed hash; null
    keeps all.
    """

    corpus: Annotated[str | tuple[str, ...] | None, AsTuple]
    channels: Literal["mono", "mix"] = "mix"
    min_rate_hz: Annotated[int, Field(ge=8000)] = 16_000
    min_s: Annotated[float, Field(ge=1.5)] = 2.0
    max_s: Annotated[float, Field(le=30.0)] = 4.0
    max_pause_s: Annotated[float, Field(gt=0.1)] = 0.6
    min_voiced: Share = 0.35
    max_clipped: Annotated[int, Field(ge=0)] = 3
    min_snr_db: Annotated[float, Field(ge=0.0, le=60.0)] = 15.0
    min_level_dbfs: Annotated[float, Field(ge=-70.0, le=0.0)] = -50.0
    max_cuts_per_speaker: Annotated[int, Field(ge=1)] | None = None

    @field_validator("corpus")
    @classmethod
    def _each_once(cls, value: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
        return _distinct(value, "corpus") if isinstance(value, tuple) else value

    @property
    def corpora(self) -> tuple[str, ...]:
        """The corpus recipes, none or several."""
        return (self.corpus,) if isinstance(self.corpus, str) else self.corpus or ()

    @model_validator(mode="after")
    def _ordered(self) -> SpeechRule:
        if self.max_s < 1.5 * self.min_s:
            raise ValueError("max_s must be at least 1.5 times min_s, or speech can't be cut at pauses")
        return self


class SourceRule(Strict):
    """One kind of source for a dimension."""

    kind: SourceKind
    pairs_per_cell: Counts = Field(default_factory=dict)
    tiers: Annotated[tuple[str, ...], AsTuple] | None = None
    movement: Share = 1.0

    @field_validator("tiers")
    @classmethod
    def _each_once(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return None if value is None else _distinct(value, "tier")


class MarginRule(Strict):
    """Margins of the label rule; see `records.Margins`."""

    min_contrast_jnd: Annotated[float, Field(ge=1.0)] = 1.0
    min_share_of_plan: Annotated[float, Field(ge=0.25, le=1.0)] = 0.5
    min_valid: Share = 0.6
    min_valid_third: Share = 0.2
    min_counted: Share = 0.4
    max_control_jnd: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.5
    min_gain: Annotated[float, Field(gt=0.0, le=1.0)] = 0.6
    max_gain: Annotated[float, Field(ge=1.0, le=3.0)] = 1.4
    min_r_squared: Share = 0.7
    min_salience: Annotated[float, Field(ge=0.0)] = 0.0


class IsolationRule(Strict):
    """Limits of what a held dimension may move."""

    max_leak_jnd: Annotated[float, Field(gt=0.0, le=1.0)] = 0.8


class DimensionRecipe(Strict):
    """What to build of one dimension. `clips`, where it names a split, is spread evenly over the cells and replaces `pairs_per_cell`."""

    dimension: str
    sources: Annotated[tuple[SourceRule, ...], AsTuple]
    tiers: Mapping[str, Annotated[float, Field(ge=1.0, le=1000.0)]]
    curves: Annotated[tuple[str, ...], AsTuple]
    pairs_per_cell: Counts
    clips: Counts = Field(default_factory=dict)
    controls_per_kind: Counts = Field(default_factory=dict)
    margins: MarginRule = MarginRule()
    isolation: IsolationRule = IsolationRule()
    bases: Annotated[tuple[Literal["heard", "parts", "difference"], ...], AsTuple] = ("heard", "parts")
    max_pairs_per_shard: Annotated[int, Field(ge=1)] = 500

    @field_validator("dimension")
    @classmethod
    def _known_dimension(cls, value: str) -> str:
        return one_of(value, BY_NAME, "dimension")

    @field_validator("tiers")
    @classmethod
    def _some_tiers(cls, value: Mapping[str, float]) -> Mapping[str, float]:
        _distinct(tuple(value), "tier")
        return dict(sorted(value.items(), key=lambda item: (item[1], item[0])))

    @field_validator("curves")
    @classmethod
    def _known_curves(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(one_of(curve, curves.CURVES, "curve") for curve in _distinct(value, "curve"))

    @field_validator("bases")
    @classmethod
    def _known_bases(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not {"heard", "parts"} <= set(value):
            raise ValueError("heard and parts must be among the bases: add difference to them, for training splits")
        return _distinct(value, "basis")

    @field_validator("sources")
    @classmethod
    def _each_kind_once(cls, value: tuple[SourceRule, ...]) -> tuple[SourceRule, ...]:
        _distinct(tuple(rule.kind for rule in value), "kind of source")
        return value

    @model_validator(mode="after")
    def _sources_fit(self) -> DimensionRecipe:
        limits = self.spec.max_span
        for rule in self.sources:
            if rule.kind not in limits:
                raise ValueError(f"sources: {rule.kind} can't carry {self.dimension}; kinds that can: {', '.join(sorted(limits))}")
            for tier in rule.tiers or ():
                if tier not in self.tiers:
                    known = ", ".join(self.tiers)
                    raise ValueError(f"sources: {rule.kind}: unknown tier {tier!r}{nearest(tier, list(self.tiers))}; known: {known}")
                if not self.reaches(rule.kind, tier):
                    raise ValueError(
                        f"sources: {rule.kind}: tier {tier} needs a span beyond {limits[rule.kind]:g} {self.spec.unit}, "
                        f"the most that {self.dimension} allows there; leave the tier out"
                    )
        if not any(self.tiers_on(rule) for rule in self.sources):
            raise ValueError(f"tiers: {self.dimension} reaches none of them on any of its sources")
        return self

    @property
    def spec(self) -> Dimension:
        """The dimension itself."""
        return BY_NAME[self.dimension]

    def span(self, kind: str, tier: str, curve: str) -> float:
        """Unsigned end-to-end change that gives a tier's contrast on a curve, in the dimension's unit."""
        contrast = self.tiers[tier] * self.spec.jnd.on(kind)
        return round(contrast / curves.end_to_start(curve), 6)

    def reaches(self, kind: str, tier: str) -> bool:
        """Whether every curve of the recipe can span the tier within the dimension's limit on this kind."""
        return all(self.span(kind, tier, curve) <= self.spec.max_span[kind] + 1e-6 for curve in self.curves)

    def tiers_on(self, rule: SourceRule) -> tuple[str, ...]:
        """Tiers that are built on a kind of source: those listed, else all that it can reach; smallest first."""
        in_order = sorted(self.tiers, key=lambda tier: (self.tiers[tier], tier))
        return tuple(tier for tier in in_order if (rule.tiers is None or tier in rule.tiers) and self.reaches(rule.kind, tier))

    def pairs(self, rule: SourceRule, split: str) -> int:
        """Pairs per cell of a kind of source in a split: what `clips` asks for, else the source's own count, else the dimension's."""
        clips: Mapping[Any, int] = self.clips
        counts: Mapping[Any, int] = {**self.pairs_per_cell, **rule.pairs_per_cell}
        if split in clips:
            return -(-clips[split] // (2 * sum(len(self.tiers_on(other)) for other in self.sources) * len(self.curves)))
        return counts.get(split, 0)

    def cells(self, split: str) -> list[tuple[Cell, int]]:
        """Cells of a split, with their pairs."""
        return [
            (Cell(self.dimension, tier, curve, rule.kind, split), self.pairs(rule, split))
            for rule in self.sources
            for tier in self.tiers_on(rule)
            for curve in self.curves
            if self.pairs(rule, split) > 0
        ]

    def control_cells(self, split: str) -> list[tuple[Cell, int]]:
        """Cells of flat clips of a split, with their clips."""
        counts: Mapping[str, int] = self.controls_per_kind  # type: ignore[assignment]
        count = counts.get(split, 0)
        return [(Cell(self.dimension, "control", "flat", rule.kind, split), count) for rule in self.sources if count > 0]

    def n_pairs_in(self, split: str) -> int:
        """Pairs that are asked for in a split."""
        return sum(count for _, count in self.cells(split))

    def as_margins(self, split: str) -> Margins:
        """The margins as the label stage takes them; the test split takes no label that only the sham bears out."""
        rule = self.margins
        return Margins(
            min_contrast_jnd=rule.min_contrast_jnd,
            min_share_of_plan=rule.min_share_of_plan,
            min_valid=rule.min_valid,
            min_valid_third=rule.min_valid_third,
            min_counted=rule.min_counted,
            max_control_jnd=rule.max_control_jnd,
            difference_gain=(rule.min_gain, rule.max_gain),
            min_r_squared=rule.min_r_squared,
            min_salience=rule.min_salience,
            max_leak_jnd=self.isolation.max_leak_jnd,
            bases=tuple(basis for basis in self.bases if basis != "difference") if split == "test" else self.bases,
        )


class Release(Strict):
    """What holds for all dimensions of a build. `kinds`, if given, keeps only those kinds of source of every dimension."""

    name: Annotated[str, spelt("[a-z][a-z0-9_-]*", "a name of small letters, digits, _ and - that begins with a letter")]
    version: Annotated[str, spelt("[0-9]+[.][0-9]+[.][0-9]+", "three numbers with dots between them, such as 1.0.0")]
    seed: Annotated[int, Field(ge=0, lt=PUBLIC_BELOW)]
    sample_rate_hz: Annotated[int, Field(ge=16_000, le=48_000)]
    licence: Annotated[str, Field(min_length=1)]
    kinds: Annotated[tuple[SourceKind, ...], AsTuple] | None = None
    speech: SpeechRule
    splits: Mapping[str, SplitRule]

    @field_validator("licence")
    @classmethod
    def _known_licence(cls, value: str) -> str:
        stated = value.startswith(licences.CUSTOM)
        return value if stated else one_of(value, (licences.MIXED, *licences.KNOWN), "licence")

    @field_validator("kinds")
    @classmethod
    def _each_once(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return None if value is None else _distinct(value, "kind of source")

    @field_validator("splits")
    @classmethod
    def _known_splits(cls, value: Mapping[str, SplitRule]) -> Mapping[str, SplitRule]:
        for split in value:
            one_of(split, SPLITS, "split")
        if abs(sum(rule.share for rule in value.values()) - 1.0) > 1e-9:
            raise ValueError("the shares must add up to 1")
        return value


class Recipe(Release):
    """A whole build. Its seed may be a secret one, which a file never is."""

    seed: Annotated[int, Field(ge=0, lt=2**256)]
    dimensions: tuple[DimensionRecipe, ...]

    @property
    def digest(self) -> str:
        """SHA-256 of all values but the seed."""
        values = self.model_dump(mode="json", exclude={"seed"})
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()

    @property
    def release(self) -> str:
        """The version with the seed, or a secret one's name: what a dataset built from this is tagged."""
        return f"{self.version}+seed.{self.seed_name}"

    @property
    def seed_name(self) -> int | str:
        """What may be written of the seed."""
        return name_of(self.seed)


# -- reading ----------------------------------------------------------------------------------------------------------

DIMENSION_KEYS = tuple(DimensionRecipe.model_fields)
RELEASE_KEYS = tuple(Release.model_fields)
KNOWN_KEYS = (*RELEASE_KEYS, *DIMENSION_KEYS, "dimensions", "include")


def load(path: Path, seed: int | None = None) -> Recipe:
    """A checked recipe.

    Parameters
    ----------
    path
        A release recipe (with `dimensions:`) or a recipe of one dimension (with `dimension:`).
    seed
        Replaces the recipe's.

    Raises
    ------
    RecipeError
        With every fault of every file that was read.
    """
    faults: list[str] = []
    found = _read(path, faults)
    if found is None:
        raise RecipeError(faults)
    if seed is not None and not isinstance(seed, SecretSeed):
        found.values["seed"] = seed
    release = checked(Release, _only(found.values, RELEASE_KEYS), found.files, faults)
    parts = _listed(found, faults) if "dimensions" in found.values else _single(found, faults)
    if release is not None:
        faults += _resolution_faults(release, parts, found)
    _check_corpus(found, faults)
    if release is not None:
        parts = _of_kinds(parts, release, found, faults)
    asked = release is None or any(part.n_pairs_in(split) for part in parts for split in release.splits)
    if not faults and not asked:
        faults.append(found.files[0].fault(("pairs_per_cell",), "no pairs are asked for in any of the splits"))
    if faults or release is None:
        raise RecipeError(list(dict.fromkeys(faults)))
    values = {name: getattr(release, name) for name in RELEASE_KEYS}
    if isinstance(seed, SecretSeed):
        values["seed"] = int(seed)
    return Recipe(**values, dimensions=tuple(parts))


class _Read:
    """A recipe's values with its include's as defaults, its own values, and the files (own first)."""

    def __init__(self, own: YamlFile, base: YamlFile | None) -> None:
        self.files = [own] if base is None else [own, base]
        self.own = {key: value for key, value in own.values.items() if key in KNOWN_KEYS and key != "include"}
        defaults = {} if base is None else {key: value for key, value in base.values.items() if key in KNOWN_KEYS}
        self.values = _merged(defaults, self.own)


def _read(path: Path, faults: list[str]) -> _Read | None:
    """A recipe file and its include; None where either can't be read at all."""
    own = YamlFile(path)
    faults += own.faults
    if not own.values:
        return None
    base = None
    name = own.values.get("include")
    if name is not None and not isinstance(name, str):
        faults.append(own.fault(("include",), "one file name is needed"))
        return None
    if name is not None:
        base = YamlFile(path.parent / name)
        faults += base.faults
        if not base.values:
            return None
        if "include" in base.values:
            faults.append(base.fault(("include",), "only one level is allowed"))
            base.values.pop("include")
    for file in [own] if base is None else [own, base]:
        faults += [file.fault((key,), f"unknown key{nearest(key, KNOWN_KEYS)}") for key in file.values if key not in KNOWN_KEYS]
    return _Read(own, base)


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` on `base`: mappings key by key (but tiers and splits, which are lists with values), everything else replaced."""
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict) and key not in ("tiers", "splits")
        merged[key] = _merged(merged[key], value) if both else value
    return merged


def _only(values: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key in keys}


def _single(found: _Read, faults: list[str]) -> list[DimensionRecipe]:
    """The one dimension that a dimension recipe describes."""
    part = checked(DimensionRecipe, _only(found.values, DIMENSION_KEYS), found.files, faults)
    return [] if part is None else [part]


def _listed(found: _Read, faults: list[str]) -> list[DimensionRecipe]:
    """The dimension recipes that a release lists, under what it overrides."""
    file = found.files[0]
    names = found.values["dimensions"]
    if names == ALL:
        names = [f"{name}.yaml" for name in BY_NAME]
    if "dimension" in found.values:
        faults.append(file.fault(("dimension",), "has both dimension and dimensions; a release recipe has the second only"))
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        faults.append(file.fault(("dimensions",), f"{ALL!r}, or a list of at least one recipe file, is needed"))
        return []
    over = _only(found.own, DIMENSION_KEYS)
    parts: list[DimensionRecipe] = []
    for index, name in enumerate(names):
        at = ("dimensions", index)
        if name in names[:index]:
            faults.append(file.fault(at, f"{name} is listed twice"))
            continue
        listed = _read(file.path.parent / name, faults)
        if listed is None:
            continue
        if "dimensions" in listed.values:
            faults.append(file.fault(at, f"{name} is a release itself; list recipes of one dimension"))
            continue
        checked(Release, _only(listed.values, RELEASE_KEYS), listed.files, faults)
        wanted = _only(_merged(listed.values, over), DIMENSION_KEYS)
        if "sources" in wanted:
            wanted["sources"] = _overridden_sources(wanted["sources"], over)
        part = checked(DimensionRecipe, wanted, [*found.files[:1], *listed.files], faults)
        if part is not None and part.dimension in [other.dimension for other in parts]:
            faults.append(file.fault(at, f"dimension {part.dimension} is listed twice"))
        elif part is not None:
            parts.append(part)
    return parts


def _overridden_sources(rules: Any, over: Mapping[str, Any]) -> Any:
    """A release's own counts and tiers hold for every source, also where the dimension recipe gives a source its own.

    A source whose own tiers are all gone is left out: it never carried the tiers that are left.
    """
    if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
        return rules
    made = []
    for rule in rules:
        changed = dict(rule)
        counts, wanted = changed.get("pairs_per_cell"), over.get("pairs_per_cell")
        if isinstance(counts, dict) and isinstance(wanted, dict):
            changed["pairs_per_cell"] = {split: count for split, count in counts.items() if split not in wanted}
        if isinstance(over.get("tiers"), dict) and isinstance(changed.get("tiers"), list):
            changed["tiers"] = [tier for tier in changed["tiers"] if tier in over["tiers"]]
            if not changed["tiers"]:
                continue
        made.append(changed)
    return made


def _resolution_faults(release: Release, parts: list[DimensionRecipe], found: _Read) -> list[str]:
    """Speech that would be upsampled, unless the recipe itself says that it may be."""
    if ("speech", "min_rate_hz") in found.files[0].lines:
        return []
    too_low = release.speech.corpus is not None and release.speech.min_rate_hz < release.sample_rate_hz
    uses_speech = any(rule.kind in SPEECH_KINDS for part in parts for rule in part.sources)
    if not (too_low and uses_speech):
        return []
    message = (
        f"speech.min_rate_hz is {release.speech.min_rate_hz}: raise it to sample_rate_hz, or speech would be published upsampled; "
        "if that is wanted, write it in this recipe itself"
    )
    return [found.files[0].fault(("sample_rate_hz",), message)]


def _check_corpus(found: _Read, faults: list[str]) -> None:
    speech = found.values.get("speech")
    corpus = speech.get("corpus") if isinstance(speech, dict) else None
    owner = next((file for file in found.files if ("speech", "corpus") in file.lines), found.files[0])
    names = [name for name in (corpus if isinstance(corpus, list) else [corpus]) if isinstance(name, str)]
    absent = [name for name in names if not (found.files[0].path.parent / name).is_file()]
    faults += [owner.fault(("speech", "corpus"), f"no file {name} beside {found.files[0].path.name}") for name in absent]


def _of_kinds(parts: list[DimensionRecipe], release: Release, found: _Read, faults: list[str]) -> list[DimensionRecipe]:
    """Dimension recipes with only the kinds of source that the release builds; those without any are left out."""
    kept = []
    for part in parts:
        rules = tuple(rule for rule in part.sources if release.kinds is None or rule.kind in release.kinds)
        if rules:
            kept.append(part.model_copy(update={"sources": rules}))
        needing = [rule.kind for rule in rules if rule.kind in SPEECH_KINDS]
        if release.speech.corpus is None and needing:
            message = f"{part.dimension}: sources of kind {needing[0]} need a corpus; name one, or list under kinds what to build"
            faults.append(found.files[0].fault(("speech", "corpus"), message))
    if parts and not kept and release.kinds is not None:
        faults.append(found.files[0].fault(("kinds",), f"no dimension has a source of kind {' or '.join(release.kinds)}"))
    return kept
