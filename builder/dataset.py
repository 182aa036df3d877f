"""Reading a built dataset: rows by identifier, and clips made again from their rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from builder import corpora as corpora_files
from builder import label, measure, recipe, render, sources
from builder.acoustics import audio
from builder.corpora import Corpus
from builder.dimensions import BY_NAME
from builder.errors import NotFound, Refused, VocalgradError
from builder.layout import read_manifest, read_rows
from builder.recipe import SPEECH_KINDS
from builder.records import Margins, PairPlan, Sound, Source
from builder.rows import from_json
from builder.truth import Answer
from builder.words import counted


def row(root: Path, row_id: str) -> dict[str, Any]:
    """The row with an identifier; a unique beginning of one is enough.

    Raises
    ------
    NotFound
        No row, or several, begin so.
    DatasetInvalid
        A shard can't be read.
    """
    shard_of = {values["id"]: item["shard"] for item in read_manifest(root)["shards"] for values in read_rows(root, item["shard"], ["id"])}
    found = [row_id] if row_id in shard_of else [name for name in shard_of if name.startswith(row_id)]
    if len(found) != 1:
        raise NotFound(f"clip {row_id!r}: {_not_one(row_id, found or list(shard_of), found)}")
    return next(values for values in read_rows(root, shard_of[found[0]]) if values["id"] == found[0])


def _not_one(row_id: str, names: Sequence[str], found: Sequence[str]) -> str:
    """Why an identifier names no clip, or several."""
    if found:
        return f"{counted(len(found), 'identifier')} of the dataset begin so, such as {found[0]}; write more of it"
    near = next((name for end in range(len(row_id), -1, -1) for name in names if name.startswith(row_id[:end])), "none")
    return f"no identifier of the dataset begins so; the nearest is {near}. The column `id` has them all"


def examples(root: Path, dimension: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """One pair of a dimension on each kind of source, (rising, falling): of the tier nearest 4 J, the curves taking turns.

    Raises
    ------
    NotFound
        The dataset holds no clip of the dimension.
    """
    shards = [item["shard"] for item in read_manifest(root)["shards"] if item["shard"].startswith(f"{dimension}/")]
    pairs: dict[str, dict[int, dict[str, Any]]] = {}
    for name in shards:
        for values in read_rows(root, name):
            pairs.setdefault(values["pair_id"], {})[values["direction"]] = values
    if not pairs:
        raise NotFound(f"no clip of {dimension} in {root}: build one with a recipe that has it, such as recipes/{dimension}.yaml")
    chosen: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for kind in sorted({pair[0]["source_kind"] for pair in pairs.values()}):
        mine = [pair for pair in pairs.values() if pair[0]["source_kind"] == kind]
        used = [up["curve"] for up, _ in chosen]
        best = min(mine, key=lambda pair: (abs(abs(pair[0]["effect_jnd"]) - 4.0) > 1.0, used.count(pair[0]["curve"]), pair[0]["pair_id"]))
        chosen.append((best[0], best[1]))
    return chosen


def heard_again(sound: Sound, values: Mapping[str, Any]) -> dict[str, float]:
    """What a published clip says now, from its samples alone, under the names of the row's columns.

    Returns
    -------
    dict
        `effect`, measured as the label was; for a label from parts, which samples alone don't hold, `witness_effect`.
    """
    dimension = BY_NAME[values["dimension"]]
    start_s, end_s = values["active_start_s"], values["active_end_s"]
    if dimension.basis == "parts":
        return {"witness_effect": label.witness_contrast(measure.witness(sound, dimension), start_s, end_s)}
    return {"effect": label.hear(measure.measure(sound, dimension), start_s, end_s).contrast}


def rule_hears(sound: Sound, values: Mapping[str, Any]) -> Answer:
    """What the labelling rule says of a clip's samples alone; of a label from parts, what its witness hears."""
    dimension = BY_NAME[values["dimension"]]
    if dimension.basis == "parts":
        return Answer(heard_again(sound, values)["witness_effect"])
    figures = label.hear(measure.measure(sound, dimension), values["active_start_s"], values["active_end_s"])
    jnd = json.loads(values["plan"])["pair"]["jnd"]
    return Answer(float(label.direction_of(figures, jnd, Margins())), figures.contrast / jnd, figures.rank_correlation)


def oracle_hears(sound: Sound, values: Mapping[str, Any]) -> Answer | None:
    """What measures that made no label hear: the change from `evaluation/oracle.py`; None where it has no measure of the dimension."""
    from evaluation.oracle import MEASURES, heard_change

    if values["dimension"] not in MEASURES:
        return None
    return Answer(heard_change(values["dimension"], sound.samples, sound.sample_rate_hz))


LISTENERS = {"rule": rule_hears, "oracle": oracle_hears}
"""Whom the audit asks what published clips say."""


class Remaker:
    """Makes published clips again; loads the corpus at the first clip that needs it.

    Parameters
    ----------
    path
        The recipe, which names the corpus and how it's read.
    """

    def __init__(self, path: Path) -> None:
        self._folder = path.parent
        self._speech = recipe.load(path).speech
        self._corpora: dict[str, Corpus] | None = None

    def prepare(self, kinds: Collection[str]) -> None:
        """Load the corpus now if clips from these kinds of source may need it: workers that get this needn't look for it."""
        if self._corpora is None and self._speech.corpora and not set(SPEECH_KINDS).isdisjoint(kinds):
            self._corpora = corpora_files.load_all([self._folder / name for name in self._speech.corpora])

    def source(self, pair: PairPlan) -> Source:
        """The realised source of a pair."""
        if pair.source.kind in SPEECH_KINDS and not self._speech.corpora:
            raise NotFound("the recipe names no corpus, and this clip is made from real speech: name its recipe with --recipe")
        self.prepare({pair.source.kind})
        return sources.realise(pair.source, pair.sample_rate_hz, self._corpora or {}, self._speech)

    def clip(self, values: Mapping[str, Any]) -> tuple[Sound, bytes]:
        """A row's clip, rendered again, as sound and as FLAC.

        Raises
        ------
        VocalgradError
            The source can't be used any more.
        """
        pair, sign = from_json(json.loads(values["plan"]))
        try:
            sound = render.clip(pair, self.source(pair), sign)
        except Refused as refusal:
            raise VocalgradError(f"clip {values['id']}: its source can't be rendered again here: {refusal}") from refusal
        return sound, audio.flac_bytes(sound)


def same_bytes(values: Mapping[str, Any], content: bytes) -> bool:
    """Whether FLAC bytes are those that a row was published with."""
    return bool(hashlib.sha256(content).hexdigest() == values["audio_sha256"] and content == values["audio"]["bytes"])
