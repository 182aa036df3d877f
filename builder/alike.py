"""Is any sound, or any text, in more than one split? Fingerprints find what may be alike, waveforms decide."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from builder import fingerprints
from builder.acoustics import audio
from builder.engines import Step, tell
from builder.examined import Examined
from builder.layout import read_rows, split_of
from builder.records import Sound
from builder.words import counted

GATE = "no sound and no text is in more than one split"
N_EXAMPLES = 10
Clip = Mapping[str, Any]


def table(root: Path, found: Examined, step: Step) -> dict[str, Any]:
    """Audio that is alike, and texts that are the same, in more than one split: counts and examples.

    Parameters
    ----------
    root, found
        The dataset, and its clips.
    step
        Shows how far the comparison is.
    """
    near = _near(found, step)
    sounds = _sounds(root, [clip for pair in near for clip in pair])
    same = []
    for first, second in near:
        correlation = fingerprints.correlation(sounds[first["id"], first["split"]], sounds[second["id"], second["split"]])
        if correlation >= fingerprints.MIN_CORRELATION:
            same.append({"clips": [[clip["split"], clip["id"]] for clip in (first, second)], "correlation": round(correlation, 4)})
    where: dict[str, dict[str, str]] = defaultdict(dict)
    for clip in found.rows("said", "split", "id"):
        for said in clip["said"]:
            where[said].setdefault(clip["split"], clip["id"])
    shared = [{"clips": [[split, clip_id] for split, clip_id in first.items()]} for first in where.values() if len(first) > 1]
    return {
        "candidates": len(near),
        "audio": len(same),
        "audio_examples": same[:N_EXAMPLES],
        "texts": len(where),
        "texts_shared": len(shared),
        "text_examples": shared[:N_EXAMPLES],
    }


def _near(found: Examined, step: Step) -> list[tuple[Clip, Clip]]:
    """Pairs of clips of different splits whose fingerprints are alike: `id`, `split` and `shard` of each."""
    whole = found.whole("id", "split", "shard", "duration_s", "fingerprint")
    bits = np.frombuffer(whole["fingerprint"].combine_chunks().buffers()[1], dtype=np.uint64).reshape(len(whole), -1)
    with step("alike", len(whole), "clip"):
        splits = whole["split"].to_pylist()
        near = list(fingerprints.candidates(bits, whole["duration_s"].to_numpy(), splits, told=lambda n_clips: tell((n_clips,))))
    named = whole.select(["id", "split", "shard"])
    return [(first, second) for first, second in (named.take(pair).to_pylist() for pair in near)]


def _sounds(root: Path, clips: Sequence[Clip]) -> dict[tuple[str, str], Sound]:
    """The audio of some clips, read once more."""
    sounds = {}
    for name in sorted({clip["shard"] for clip in clips}):
        wanted = {clip["id"] for clip in clips if clip["shard"] == name}
        for row in read_rows(root, name, ["id", "audio"]):
            if row["id"] in wanted:
                sounds[row["id"], split_of(name)] = audio.from_flac(row["audio"]["bytes"])
    return sounds


def failures(duplicates: Mapping[str, Any]) -> Iterator[str]:
    """One line each for sounds and for texts, if any is in more than one split."""
    for what, count, examples in (
        ("audio that is alike", duplicates["audio"], duplicates["audio_examples"]),
        ("the same text", duplicates["texts_shared"], duplicates["text_examples"]),
    ):
        if count:
            named = " and ".join(f"{clip_id} ({split})" for split, clip_id in examples[0]["clips"])
            yield f"{what} in more than one split: {counted(count, 'time')}, must be 0; such as {named}"
