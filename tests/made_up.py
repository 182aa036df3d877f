"""Real sources that were never recorded: for tests of splits and plans, which read no audio."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from builder import keys
from builder.recipe import Recipe
from builder.records import SourceSpec


def spoken(
    speaker: str | None, number: int, text: str | None = None, kind: str = "speech", sha256: str = "", corpus: str = "c"
) -> SourceSpec:
    """A made-up cut of a speaker; the speakers of one file have the same `sha256`."""
    return SourceSpec(
        kind=kind,
        source_id=f"r{keys.digest([speaker, number, kind])[1:]}",
        parameters={"corpus": corpus, "member": f"{speaker}/{number}.wav", "sha256": sha256, "start": 0, "end": 32000},
        speaker_id=speaker,
        language="en",
        text=text,
        licence="CC0-1.0",
        attribution="nobody",
    )


def speech_of(speakers: Mapping[str, int]) -> tuple[SourceSpec, ...]:
    """Cuts of speakers: name -> how many."""
    return tuple(spoken(speaker, number) for speaker, count in speakers.items() for number in range(count))


def with_splits(used: Recipe, speakers: int = 1, cuts: int = 1, **more: Any) -> Recipe:
    """A recipe with other minimums, the same in each split."""
    splits = {name: rule.model_copy(update={"min_speakers": speakers, "min_cuts": cuts}) for name, rule in used.splits.items()}
    return used.model_copy(update={"splits": splits, **more})
