"""Read and check recipes: strict YAML, all faults of a file at once, each with its line and the nearest known key.

A recipe holds values only: no tags, no aliases, no unknown keys. `include:` names one other file (which may not include
further) whose keys are defaults. A release recipe lists dimension recipes under `dimensions:`; keys that it sets itself (not
through its include) override theirs, also the counts and tiers that they give single sources.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from builder.acoustics import curves
from builder.dimensions import BY_NAME, Dimension
from builder.errors import RecipeError
from builder.records import Margins

SPLITS = ("train", "validation", "test")
SplitName = Literal["train", "validation", "test"]
SourceKind = Literal["speech", "syllables", "voice", "voice_syllables", "tone", "noise", "pulses"]
SPEECH_KINDS = ("speech", "syllables")
Share = Annotated[float, Field(ge=0.0, le=1.0)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class SplitRule(_Strict):
    """One split: its share of speakers, and what it needs at least."""

    share: Annotated[float, Field(gt=0.0, lt=1.0)]
    min_speakers: Annotated[int, Field(ge=1)] = 1
    min_cuts: Annotated[int, Field(ge=1)] = 1


class SpeechRule(_Strict):
    """How a speech corpus is read and cut; units are seconds, hertz and decibels."""

    corpus: str | None
    channels: Literal["mono", "mix"] = "mix"
    min_rate_hz: Annotated[int, Field(ge=8000)] = 16_000
    min_s: Annotated[float, Field(ge=1.5)] = 2.0
    max_s: Annotated[float, Field(le=30.0)] = 4.0
    max_pause_s: Annotated[float, Field(gt=0.1)] = 0.6
    min_voiced: Share = 0.35
    max_clipped: Annotated[int, Field(ge=0)] = 3
    min_snr_db: float = 15.0

    @model_validator(mode="after")
    def _ordered(self) -> SpeechRule:
        if self.max_s < 1.5 * self.min_s:
            raise ValueError("max_s must be at least 1.5 times min_s, or speech can't be cut at pauses")
        return self


class SourceRule(_Strict):
    """One kind of source for a dimension."""

    kind: SourceKind
    pairs_per_cell: Mapping[SplitName, Annotated[int, Field(ge=0)]] | None = None
    tiers: tuple[str, ...] | None = None
    movement: Share = 1.0

    @field_validator("tiers", mode="before")
    @classmethod
    def _as_tuple(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


class MarginRule(_Strict):
    """Margins of the label rule; see `records.Margins`."""

    min_contrast_jnd: Annotated[float, Field(ge=1.0)] = 1.0
    min_share_of_plan: Annotated[float, Field(ge=0.25, le=1.0)] = 0.5
    min_valid: Share = 0.6
    min_valid_third: Share = 0.2
    min_gain: Annotated[float, Field(gt=0.0, le=1.0)] = 0.6
    max_gain: Annotated[float, Field(ge=1.0)] = 1.4
    min_r_squared: Share = 0.7
    min_salience: Annotated[float, Field(ge=0.0)] = 0.0


class IsolationRule(_Strict):
    """Limits of what a held dimension may move."""

    max_leak_jnd: Annotated[float, Field(gt=0.0, le=1.0)] = 0.8


class DimensionRecipe(_Strict):
    """What to build of one dimension."""

    dimension: str
    sources: Annotated[tuple[SourceRule, ...], Field(min_length=1)]
    tiers: Mapping[str, Annotated[float, Field(ge=1.0)]]
    curves: Annotated[tuple[str, ...], Field(min_length=1)]
    pairs_per_cell: Mapping[SplitName, Annotated[int, Field(ge=0)]]
    controls_per_kind: Mapping[SplitName, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)
    margins: MarginRule = MarginRule()
    isolation: IsolationRule = IsolationRule()
    bases: tuple[Literal["heard", "difference"], ...] = ("heard",)
    max_pairs_per_shard: Annotated[int, Field(ge=1)] = 500

    @field_validator("sources", "curves", "bases", mode="before")
    @classmethod
    def _as_tuple(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @field_validator("dimension")
    @classmethod
    def _known_dimension(cls, value: str) -> str:
        return _one_of(value, BY_NAME, "dimension")

    @field_validator("curves")
    @classmethod
    def _known_curves(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(value)) < len(value):
            raise ValueError("a curve is listed twice")
        return tuple(_one_of(curve, curves.CURVES, "curve") for curve in value)

    @model_validator(mode="after")
    def _sources_fit(self) -> DimensionRecipe:
        dimension = BY_NAME[self.dimension]
        kinds = [rule.kind for rule in self.sources]
        if len(set(kinds)) < len(kinds):
            raise ValueError("sources: a kind is listed twice; raise its pairs_per_cell instead")
        for rule in self.sources:
            if rule.kind not in dimension.max_span:
                raise ValueError(
                    f"sources: {rule.kind} can't carry {self.dimension}; kinds that can: {', '.join(sorted(dimension.max_span))}"
                )
            for tier in rule.tiers or ():
                _one_of(tier, self.tiers, f"sources: {rule.kind}: tier")
                if not self.reaches(rule.kind, tier):
                    raise ValueError(
                        f"sources: {rule.kind}: tier {tier} needs a span beyond {dimension.max_span[rule.kind]:g} {dimension.unit}, "
                        f"the most that {self.dimension} allows there; leave the tier out"
                    )
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
        """Tiers that are built on a kind of source: those listed, else all that it can reach."""
        return tuple(tier for tier in (rule.tiers or tuple(self.tiers)) if self.reaches(rule.kind, tier))

    def pairs(self, rule: SourceRule, split: str) -> int:
        """Pairs per cell of a kind of source in a split."""
        counts: Mapping[Any, int] = rule.pairs_per_cell or self.pairs_per_cell
        return counts.get(split, 0)

    def as_margins(self) -> Margins:
        """The margins as the label stage takes them."""
        rule = self.margins
        return Margins(
            min_contrast_jnd=rule.min_contrast_jnd,
            min_share_of_plan=rule.min_share_of_plan,
            min_valid=rule.min_valid,
            min_valid_third=rule.min_valid_third,
            difference_gain=(rule.min_gain, rule.max_gain),
            min_r_squared=rule.min_r_squared,
            min_salience=rule.min_salience,
            max_leak_jnd=self.isolation.max_leak_jnd,
            bases=self.bases,
        )


class Recipe(_Strict):
    """A whole build. `kinds`, if given, keeps only those kinds of source of every dimension."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*$")]
    version: Annotated[str, Field(pattern=r"^\d+\.\d+\.\d+$")]
    seed: Annotated[int, Field(ge=0, lt=2**63)]
    sample_rate_hz: Annotated[int, Field(ge=16_000, le=48_000)]
    licence: Annotated[str, Field(min_length=1)]
    kinds: Annotated[tuple[SourceKind, ...], Field(min_length=1)] | None = None
    speech: SpeechRule
    splits: Mapping[str, SplitRule]
    dimensions: Annotated[tuple[DimensionRecipe, ...], Field(min_length=1)]

    @field_validator("kinds", mode="before")
    @classmethod
    def _as_tuple(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @field_validator("splits")
    @classmethod
    def _known_splits(cls, value: Mapping[str, SplitRule]) -> Mapping[str, SplitRule]:
        for split in value:
            _one_of(split, SPLITS, "split")
        return value

    @model_validator(mode="after")
    def _whole(self) -> Recipe:
        names = [part.dimension for part in self.dimensions]
        if len(set(names)) < len(names):
            raise ValueError("dimensions: one is listed twice")
        if abs(sum(rule.share for rule in self.splits.values()) - 1.0) > 1e-9:
            raise ValueError("splits: the shares must add up to 1")
        if self.speech.corpus is None:
            for part in self.dimensions:
                for rule in part.sources:
                    if rule.kind in SPEECH_KINDS:
                        raise ValueError(
                            f"{part.dimension}: sources of kind {rule.kind} need speech.corpus; name one, or list under kinds what to build"
                        )
        return self

    @property
    def digest(self) -> str:
        """SHA-256 of all values but the seed."""
        values = self.model_dump(mode="json", exclude={"seed"})
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()

    @property
    def release(self) -> str:
        """The version with the seed: what a dataset built from this is tagged."""
        return f"{self.version}+seed.{self.seed}"


def _one_of(value: str, known: Mapping[str, Any] | Sequence[str], what: str) -> str:
    if value not in known:
        raise ValueError(f"unknown {what} {value!r}{_nearest(value, list(known))}; known: {', '.join(known)}")
    return value


def _nearest(key: str, known: list[str]) -> str:
    close = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else ""


# -- reading ----------------------------------------------------------------------------------------------------------


class _File:
    """One YAML file as plain values, with the line of each key and the faults found so far."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.faults: list[str] = []
        self.lines: dict[tuple[Any, ...], int] = {}
        self.values: dict[str, Any] = {}
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            self.faults.append(f"{path}: can't be read: {reason}")
            return
        try:
            for event in yaml.parse(text, Loader=yaml.SafeLoader):
                tag = getattr(event, "tag", None)
                if tag and event.start_mark:
                    self.faults.append(f"{path}:{event.start_mark.line + 1}: tag {tag!r}: a recipe holds values only")
                if isinstance(event, yaml.AliasEvent) and event.start_mark:
                    self.faults.append(f"{path}:{event.start_mark.line + 1}: alias *{event.anchor}: write the value out")
            if self.faults:
                return
            node = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 1
            self.faults.append(f"{path}:{line}: not YAML: {error.problem}")
            return
        if not isinstance(node, yaml.MappingNode):
            self.faults.append(f"{path}: a recipe is a mapping of keys to values")
            return
        self._walk(node, ())
        if not self.faults:
            self.values = yaml.safe_load(text)

    def _walk(self, node: yaml.Node, at: tuple[Any, ...]) -> None:
        if isinstance(node, yaml.MappingNode):
            seen = set()
            for key_node, value_node in node.value:
                key = key_node.value
                where = (*at, key)
                if key in seen:
                    self.faults.append(f"{self.path}:{key_node.start_mark.line + 1}: {_dotted(where)}: given twice")
                seen.add(key)
                self.lines[where] = key_node.start_mark.line + 1
                self._walk(value_node, where)
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self.lines[(*at, index)] = item.start_mark.line + 1
                self._walk(item, (*at, index))

    def line_of(self, where: tuple[Any, ...]) -> int | None:
        """Line of a key, or of the nearest key above it that the file has."""
        while where and where not in self.lines:
            where = where[:-1]
        return self.lines.get(where)


def _dotted(where: Sequence[Any]) -> str:
    return ".".join(str(part) for part in where)


DIMENSION_KEYS = tuple(DimensionRecipe.model_fields)
RELEASE_KEYS = tuple(name for name in Recipe.model_fields if name != "dimensions")
KNOWN_KEYS = (*RELEASE_KEYS, *DIMENSION_KEYS, "dimensions", "include")


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` on `base`: mappings key by key (but tiers, which are a list with values), everything else replaced."""
    merged = dict(base)
    for key, value in over.items():
        if key != "tiers" and isinstance(value, dict) and isinstance(merged.get(key), dict):
            merged[key] = _merged(merged[key], value)
        else:
            merged[key] = value
    return merged


class _Reader:
    """Reads a recipe and all files it names; collects faults over all of them."""

    def __init__(self) -> None:
        self.faults: list[str] = []

    def with_include(self, path: Path) -> tuple[dict[str, Any], dict[str, Any], list[_File]]:
        """Values with defaults, own values, and the files they come from (own first)."""
        own = _File(path)
        self.faults += own.faults
        files = [own]
        values = dict(own.values)
        base: dict[str, Any] = {}
        name = values.pop("include", None)
        if name is not None:
            if not isinstance(name, str):
                self.faults.append(f"{path}:{own.line_of(('include',))}: include: must be one file name")
            else:
                included = _File(path.parent / name)
                self.faults += included.faults
                files.append(included)
                base = dict(included.values)
                if "include" in base:
                    self.faults.append(f"{included.path}:{included.line_of(('include',))}: include: only one level is allowed")
                    base.pop("include")
        for file in files:
            for key in file.values:
                if key not in KNOWN_KEYS:
                    line = file.line_of((key,))
                    self.faults.append(f"{file.path}:{line}: {key}: unknown key{_nearest(key, list(KNOWN_KEYS))}")
        values = {key: value for key, value in values.items() if key in KNOWN_KEYS}
        base = {key: value for key, value in base.items() if key in KNOWN_KEYS}
        return _merged(base, values), values, files

    def check(self, model: type[BaseModel], values: dict[str, Any], files: list[_File], prefix: str = "") -> BaseModel | None:
        """The model made from values, or None with the faults noted."""
        try:
            return model.model_validate(values)
        except ValidationError as error:
            for fault in error.errors():
                self._note(model, fault, files, prefix)
        return None

    def _note(self, model: type[BaseModel], fault: Any, files: list[_File], prefix: str) -> None:
        where = tuple(fault["loc"])
        file = next((file for file in files if where in file.lines), None)
        file = file or next((file for file in files if where and where[:1] in file.lines), files[0])
        line = file.line_of(where)
        message = str(fault["msg"]).removeprefix("Value error, ")
        if fault["type"] == "extra_forbidden":
            message = f"unknown key{_nearest(str(where[-1]), _keys_beside(model, where))}"
        elif fault["type"] == "missing":
            message = "missing: this key is required"
        elif fault["type"] != "value_error":
            message += f" (found {fault['input']!r})"
        at = f"{file.path}:{line}" if line else f"{file.path}"
        self.faults.append(": ".join(part for part in (at, prefix, _dotted(where), message) if part))


def _keys_beside(model: type[BaseModel], where: tuple[Any, ...]) -> list[str]:
    """Keys that are allowed where an unknown one was found."""
    current: Any = model
    for part in where[:-1]:
        if isinstance(part, int) or not hasattr(current, "model_fields") or part not in current.model_fields:
            continue
        inner = list(_models_in(current.model_fields[part].annotation))
        if not inner:
            return []
        current = inner[0]
    return list(current.model_fields)


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in getattr(annotation, "__args__", ()) for model in _models_in(part)]


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
    reader = _Reader()
    values, own, files = reader.with_include(path)
    if not files[0].values:
        raise RecipeError(reader.faults or [f"{path}: empty"])
    if "dimension" in values and "dimensions" in values:
        raise RecipeError([f"{path}: has both dimension and dimensions; a release recipe has the second only"])
    parts = _parts(reader, path, values, own, files)
    release = {key: value for key, value in values.items() if key in RELEASE_KEYS}
    if seed is not None:
        release["seed"] = seed
    corpus = release.get("speech", {}).get("corpus") if isinstance(release.get("speech"), dict) else None
    if isinstance(corpus, str) and not (path.parent / corpus).is_file():
        owner = next((file for file in files if ("speech", "corpus") in file.lines), files[0])
        reader.faults.append(f"{owner.path}:{owner.line_of(('speech', 'corpus'))}: speech.corpus: no file {corpus}")
    kept = _of_kinds(parts, release.get("kinds"))
    if parts and not kept:
        reader.faults.append(f"{path}: kinds: no dimension has a source of these kinds: {release.get('kinds')}")
    checked = reader.check(Recipe, {**release, "dimensions": tuple(kept)}, files) if kept else None
    if reader.faults or checked is None:
        raise RecipeError(list(dict.fromkeys(reader.faults)))
    assert isinstance(checked, Recipe)
    return checked


def _overridden_sources(rules: Any, over: Mapping[str, Any]) -> Any:
    """A release's own counts and tiers hold for every source, also where the dimension recipe gives a source its own."""
    if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
        return rules
    made = []
    for rule in rules:
        changed = {key: value for key, value in rule.items() if not (key == "pairs_per_cell" and key in over)}
        if isinstance(over.get("tiers"), dict) and isinstance(changed.get("tiers"), list):
            changed["tiers"] = [tier for tier in changed["tiers"] if tier in over["tiers"]]
        made.append(changed)
    return made


def _of_kinds(parts: list[DimensionRecipe], kinds: Any) -> list[DimensionRecipe]:
    """Dimension recipes with only the sources of given kinds; those without any are left out."""
    if not isinstance(kinds, list):
        return parts
    kept = [(part, tuple(rule for rule in part.sources if rule.kind in kinds)) for part in parts]
    return [part.model_copy(update={"sources": rules}) for part, rules in kept if rules]


def _parts(reader: _Reader, path: Path, values: dict[str, Any], own: dict[str, Any], files: list[_File]) -> list[DimensionRecipe]:
    """The dimension recipes of a release, or the one that a dimension recipe is."""
    names = values.pop("dimensions", None)
    if names is None:
        wanted = {key: value for key, value in values.items() if key not in RELEASE_KEYS}
        part = reader.check(DimensionRecipe, wanted, files)
        return [part] if isinstance(part, DimensionRecipe) else []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        reader.faults.append(f"{path}:{files[0].line_of(('dimensions',))}: dimensions: a list of recipe files is needed")
        return []
    over = {key: value for key, value in own.items() if key in DIMENSION_KEYS}
    parts = []
    for name in names:
        part_values, _, part_files = reader.with_include(path.parent / name)
        wanted = {key: value for key, value in _merged(part_values, over).items() if key not in RELEASE_KEYS}
        wanted["sources"] = _overridden_sources(wanted.get("sources"), over)
        part = reader.check(DimensionRecipe, wanted, [*files[:1], *part_files]) if part_files[0].values else None
        if isinstance(part, DimensionRecipe):
            parts.append(part)
    return parts
