"""Are the bytes right? Rereads a dataset as a stranger would: nothing but the folder is used.

Only where the sources lie, some clips are also made again from their rows, and must come out with the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import soundfile

from builder import croissant_faults, places
from builder.acoustics import audio
from builder.dimensions import BY_NAME
from builder.errors import VocalgradError
from builder.folder import card_faults, file_faults, local_faults, local_in, parquet_faults
from builder.keys import rank_of, spoken_key
from builder.layout import read_manifest, read_rows, schema, split_of
from builder.records import Sound
from builder.words import counted

SMALL = [
    "id", "choices", "answer", "answer_index", "direction", "dimension", "tier", "curve", "pair_id", "source_kind", "source_id",
    "speaker_id", "text", "duration_s", "active_start_s", "active_end_s", "span", "effect", "witness_effect", "audio_sha256",
]  # fmt: skip
TEXTS = ("plan", "attribution", "source_id", "speaker_id")
LABEL_WORDS = re.compile(r"(?<![a-z])(up|down|increas|decreas|ris(e|ing)|fall)", re.IGNORECASE)
EFFECT_TOLERANCE = 0.001
"""In the dimension's unit: what rounding may do on another machine."""

Map = Callable[..., Iterable[Any]]
HeardAgain = Callable[[Sound, Mapping[str, Any]], Mapping[str, float]]
MadeAgain = Callable[[Mapping[str, Any]], bytes]


def check(root: Path, heard_again: HeardAgain, each: Map = map) -> list[str]:
    """Every fault of a dataset folder, one line each; an empty list means it's valid.

    Parameters
    ----------
    root
        The folder with `manifest.json`, `README.md` and `data/`.
    heard_again
        (sound, row) -> what is measured in it now, by column, for comparison with the row's.
    each
        `map`, or that of an executor.
    """
    try:
        manifest = read_manifest(root)
    except VocalgradError as error:
        return [str(error)]
    faults = list(file_faults(root, manifest))
    rows: list[dict[str, Any]] = []
    present = set(places.names(root / "data"))
    there = [item for item in manifest["shards"] if f"{item['shard']}.parquet" in present]
    one = partial(_shard, root, sample_rate_hz=manifest["recipe"]["sample_rate_hz"], heard_again=heard_again)
    for shard_faults, shard_rows in each(one, there):
        faults += shard_faults
        rows += shard_rows
    if not rows:
        return [*faults, "no rows at all"]
    faults += list(_row_faults(rows))
    faults += list(_balance_faults(rows, manifest))
    faults += list(_order_faults([row for row in rows if row["curve"] != "flat"], manifest))
    faults += list(_split_faults(rows))
    faults += list(card_faults(root, manifest))
    faults += list(croissant_faults.faults(root, manifest))
    faults += list(local_faults(root))
    return faults


def made_again_faults(root: Path, made_again: MadeAgain, n_clips: int, each: Map = map) -> list[str]:
    """Clips that come out with other bytes when they're made again from their rows.

    Parameters
    ----------
    root
        A dataset whose `check` finds no fault.
    made_again
        Row -> FLAC bytes. May raise `VocalgradError`.
    n_clips
        How many are tried: dimensions and kinds of source take turns, controls too, in an order that identifiers decide.
    each
        `map`, or that of an engine.
    """
    queues: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for item in read_manifest(root)["shards"]:
        for row in read_rows(root, item["shard"], ["id", "dimension", "source_kind"]):
            queues[row["source_kind"], row["dimension"]].append((row["id"], item["shard"]))
    order = sorted(queues, key=lambda key: rank_of("made again", *key))
    first = [sorted(queues[key], key=lambda found: rank_of("made again", found[0])) for key in order]
    turns = [queue[turn] for turn in range(max(map(len, first), default=0)) for queue in first if turn < len(queue)]
    chosen = [next(row for row in read_rows(root, name) if row["id"] == row_id) for row_id, name in turns[:n_clips]]
    return [fault for fault in each(partial(_again_fault, made_again), chosen) if fault is not None]


def _again_fault(made_again: MadeAgain, row: Mapping[str, Any]) -> str | None:
    try:
        same = made_again(row) == row["audio"]["bytes"]
    except VocalgradError as error:
        return f"{row['id']}: can't be made again: {error}"
    if same:
        return None
    return f"{row['id']}: made again from its row, its bytes differ; compare `versions` in manifest.json with what is installed"


def _shard(root: Path, item: Mapping[str, Any], sample_rate_hz: int, heard_again: HeardAgain) -> tuple[list[str], list[dict[str, Any]]]:
    """Faults of one shard, and its rows without what is long."""
    rows: list[dict[str, Any]] = []
    with places.opened(root / "data" / f"{item['shard']}.parquet") as stream:
        return list(_shard_faults(stream, item, sample_rate_hz, rows, heard_again)), rows


def _shard_faults(
    stream: Any, item: Mapping[str, Any], sample_rate_hz: int, rows: list[dict[str, Any]], heard_again: HeardAgain
) -> Iterator[str]:
    name = item["shard"]
    expected = schema(sample_rate_hz)
    if hashlib.file_digest(stream, "sha256").hexdigest() != item["parquet_sha256"]:
        yield f"{name}: the checksum isn't the manifest's"
    try:
        file = pq.ParquetFile(stream)
        found = file.schema_arrow
        if not found.remove_metadata().equals(expected.remove_metadata()):
            yield f"{name}: columns differ: {sorted(set(found.names) ^ set(expected.names)) or 'types or order'}"
            return
        if (found.metadata or {}).get(b"huggingface") != expected.metadata[b"huggingface"]:
            yield f"{name}: the features in its metadata aren't those that this version writes: build the dataset again"
        yield from parquet_faults(file, name)
        split = split_of(name)
        for batch in file.iter_batches(batch_size=64, columns=[*SMALL, "plan", "attribution", "audio"]):
            for row in batch.to_pylist():
                yield from _audio_faults(row, sample_rate_hz, heard_again)
                told = local_in(" ".join(str(row[key]) for key in TEXTS).encode())
                if told:
                    yield f"{row['id']}: holds {told}"
                rows.append({**{key: row[key] for key in SMALL}, **_made_of(row), "split": split})
    except (OSError, ValueError) as error:
        yield f"{name}: can't be read: {error}"
        return
    if len(rows) != item["n_rows"]:
        yield f"{name}: {counted(len(rows), 'row')}, the manifest says {item['n_rows']}"


def _audio_faults(row: Mapping[str, Any], sample_rate_hz: int, heard_again: HeardAgain) -> Iterator[str]:
    what = row["id"]
    content = row["audio"]["bytes"]
    if hashlib.sha256(content).hexdigest() != row["audio_sha256"]:
        yield f"{what}: the audio's checksum isn't the row's"
    if row["audio"]["path"] != f"{what}.flac":
        yield f"{what}: audio path {row['audio']['path']!r}"
    try:
        sound = audio.from_flac(content)
    except (soundfile.LibsndfileError, RuntimeError) as error:
        yield f"{what}: the audio can't be decoded: {error}"
        return
    if sound.sample_rate_hz != sample_rate_hz or len(sound.channels) != (2 if BY_NAME[row["dimension"]].stereo else 1):
        yield f"{what}: {sound.sample_rate_hz} Hz, shape {sound.samples.shape}"
    if abs(sound.duration_s - row["duration_s"]) > 1e-4:
        yield f"{what}: {sound.duration_s:.4f} s of audio, the row says {row['duration_s']:.4f}"
    if audio.peak_dbfs(sound) > audio.PEAK_LIMIT_DBFS + 0.01:
        yield f"{what}: peak {audio.peak_dbfs(sound):+.2f} dBFS"
    for column, now in heard_again(sound, row).items():
        published = float("nan") if row[column] is None else row[column]
        same = abs(now - published) <= EFFECT_TOLERANCE or (np.isnan(now) and np.isnan(published))
        if not same:
            yield f"{what}: measured again, the {column.replace('_', ' ')} is {now:+.4f}, the row says {published:+.4f}"


def _row_faults(rows: list[dict[str, Any]]) -> Iterator[str]:
    for key in ("id", "audio_sha256"):
        for value, count in Counter(row[key] for row in rows).items():
            if count > 1:
                yield f"{key} {value} stands in {counted(count, 'row')}"
    for row in rows:
        what = row["id"]
        if row["curve"] == "flat":
            if not (row["answer"] is row["answer_index"] is row["direction"] is None and row["span"] == 0):
                yield f"{what}: a control has an answer, a direction or a span"
            continue
        if len(set(row["choices"])) != 2 or row["answer"] not in row["choices"]:
            yield f"{what}: answer {row['answer']!r}, choices {row['choices']}"
        elif row["choices"][row["answer_index"]] != row["answer"]:
            yield f"{what}: answer_index {row['answer_index']} isn't the answer"
        sign = {0: 1, 1: -1}.get(row["direction"], 0)
        if (sign > 0) != (row["answer"] == BY_NAME[row["dimension"]].answers[0]) or row["span"] * sign <= 0 or row["effect"] * sign <= 0:
            yield f"{what}: direction, answer, span and effect disagree"
        if LABEL_WORDS.search(what) or LABEL_WORDS.search(row["pair_id"]) or LABEL_WORDS.search(row["source_id"]):
            yield f"{what}: an identifier tells the label"


def _balance_faults(rows: list[dict[str, Any]], manifest: Mapping[str, Any]) -> Iterator[str]:
    by_cell: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        by_cell[row["dimension"], row["tier"], row["curve"], row["source_kind"], row["split"]].append(row)
    for key, cell in _cells(manifest).items():
        found = by_cell.pop(key, [])
        ups = sum(row["direction"] == 0 for row in found)
        if "flat" in key:
            if len(found) != cell["wanted"]:
                yield f"cell {' x '.join(key)}: {counted(len(found), 'control')}, {cell['wanted']} are wanted"
        elif len(found) != 2 * cell["wanted"] or 2 * ups != len(found):
            yield f"cell {' x '.join(key)}: {ups} up and {len(found) - ups} down, {cell['wanted']} of each are wanted"
        if cell["tried"] != cell["published"] + cell["rejected"]:
            yield f"cell {' x '.join(key)}: tried isn't published + rejected"
    yield from (f"cell {' x '.join(key)}: not in the manifest" for key in by_cell)
    rows = [row for row in rows if row["curve"] != "flat"]
    for pair, clips in _grouped(rows, "pair_id").items():
        if sorted(row["direction"] for row in clips) != [0, 1] or len({tuple(row["choices"]) for row in clips}) != 1:
            yield f"pair {pair}: not one rising and one falling clip with the same choices"
    for split, mine in _grouped(rows, "split").items():
        first = Counter(row["answer_index"] for row in mine)
        if first[0] != first[1]:
            yield f"{split}: the first choice is right in {first[0]} of {counted(len(mine), 'row')}"


def _cells(manifest: Mapping[str, Any]) -> dict[tuple[str, ...], Counter[str]]:
    """Counts of each cell over all its shards."""
    cells: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for cell in manifest["cells"]:
        key = tuple(cell[part] for part in ("dimension", "tier", "curve", "kind", "split"))
        cells[key].update({name: cell[name] for name in ("wanted", "tried", "published")})
        cells[key]["rejected"] += sum(cell["rejected"].values())
    return cells


def _order_faults(rows: list[dict[str, Any]], manifest: Mapping[str, Any]) -> Iterator[str]:
    """Each order of the choices must be as frequent as the other, but for one pair a shard, for each split, kind and curve."""
    n_shards = Counter((item["shard"].split("/")[0], split_of(item["shard"])) for item in manifest["shards"])
    groups: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for row in rows:
        whole: tuple[str, ...] = (row["split"], row["dimension"], row["source_kind"])
        for group in (whole, (*whole, row["curve"])):
            groups[group][row["choices"][0]] += 1
    for key, count in groups.items():
        values = [*count.values(), 0][:2]
        if abs(values[0] - values[1]) > 2 * n_shards[key[1], key[0]]:
            yield f"{' x '.join(key)}: the choices stand in one order in {counted(max(values), 'row')}, in the other in {min(values)}"


def _grouped(rows: list[dict[str, Any]], key: str) -> dict[str, list[dict[str, Any]]]:
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row[key]].append(row)
    return groups


def _made_of(row: Mapping[str, Any]) -> dict[str, str | None]:
    """The file that a clip's source is of, and what is said in all of it, by digest; and the clip's own text as it's compared."""
    made = json.loads(row["plan"])["pair"]["source"]["parameters"]
    return {"recording": made.get("sha256"), "said": made.get("said"), "spoken": spoken_key(row["text"] or "")}


def _split_faults(rows: list[dict[str, Any]]) -> Iterator[str]:
    for key in ("speaker_id", "source_id", "spoken", "said", "recording"):
        where: dict[str, set[str]] = defaultdict(set)
        for row in rows:
            if row[key]:
                where[row[key]].add(row["split"])
        for value, splits in where.items():
            if len(splits) > 1:
                yield f"{'text' if key == 'spoken' else key} {value!r} is in {' and '.join(sorted(splits))}"
