"""What a clip offers beside the label's property, as features: nothing here should tell which way the property goes.

A cue is a group of features that a lazy listener, or a model that never listens, could go by: numbers, `nan` where there is no
value, or categories.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.acoustics import audio, meters
from builder.keys import digest
from builder.records import FloatArray, Sound

COLUMNS = ("id", "pair_id", "question", "choices", "text", "tier", "curve", "source_kind", "active_start_s", "active_end_s")
"""What is read of a row besides its audio."""
GATED = ("identifiers", "categories", "region", "text", "size", "silence", "averages", "others")
"""Cues that must be at chance. `others`, what the other dimensions do beyond one J, comes from the audit's sampled pairs."""
REPORTED = ("first_half", "second_half", "others_fine")
"""Cues that are measured and not gated: a level at one end tells, by nature, which way it came or will go; and what the other
dimensions do within one J, which nobody hears, can't be nothing: two models of loudness are held at once, and where the spectrum
changes they can't both stay still to the last tenth of a J."""
N_CHARACTERS = 24
AVERAGED_HZ = (100.0, 7000.0)
FLOOR_DB = -100.0

CHARACTERS = ("identifiers", "text")
"""Cues whose features are bytes."""
CATEGORIES = ("categories",)
SAMPLED = ("others", "others_fine")
"""Cues of the pairs of which every dimension is measured."""

Bytes = NDArray[np.uint8]
Features = FloatArray | Bytes | list[str]
"""Numbers, shape (n_features,), or categories."""


def of_clip(row: Mapping[str, Any], sound: Sound) -> dict[str, Features]:
    """Every cue of a clip but `others` and `others_fine`.

    Parameters
    ----------
    row
        The published row, with `COLUMNS` and the FLAC bytes.
    sound
        The decoded bytes.

    Returns
    -------
    dict
        Cue -> features, as many for each clip of a dimension.
    """
    level_db = _levels_db(sound)
    half = level_db.shape[1] // 2
    start_s, end_s = audio.active_region_s(sound)
    tail_s = sound.duration_s - end_s
    return {
        "identifiers": _characters(row["id"], row["pair_id"]),
        "categories": [row["tier"], row["curve"], row["source_kind"], row["choices"][0]],
        "region": np.array([row["active_start_s"], row["active_end_s"], row["active_end_s"] - row["active_start_s"]]),
        "text": _characters(digest(row["question"]), digest(row["text"])),
        "size": _size(len(row["audio"]["bytes"]), sound),
        "silence": np.array([start_s, tail_s, start_s - tail_s]),
        "averages": _averages(level_db),
        "first_half": _averages(level_db[:, :half]),
        "second_half": _averages(level_db[:, half:]),
    }


def beyond_one_j(contrast_jnd: FloatArray) -> FloatArray:
    """What of contrasts in J can be heard: their part beyond one J, 0 within; `nan` stays."""
    return contrast_jnd - np.clip(contrast_jnd, -1.0, 1.0)


def _characters(*names: str) -> Bytes:
    """Of each name its length, up to 255, and its last bytes in UTF-8."""
    ends = (bytes([min(len(name), 255)]) + name.encode().rjust(N_CHARACTERS)[-N_CHARACTERS:] for name in names)
    return np.frombuffer(b"".join(ends), dtype=np.uint8)


def _size(n_bytes: int, sound: Sound) -> FloatArray:
    """Bytes, bytes per second, duration, peak, level and crest factor."""
    peak_db = max(audio.peak_dbfs(sound), FLOOR_DB)
    level_db = 10.0 * float(np.log10(np.mean(sound.samples**2) + 10.0 ** (FLOOR_DB / 10.0)))
    return np.array([n_bytes, n_bytes / sound.duration_s, sound.duration_s, peak_db, level_db, peak_db - level_db])


def _levels_db(sound: Sound) -> FloatArray:
    """Third-octave band levels over time, and for stereo the level of the left over the right; shape (n_rows, n_frames)."""
    _, level_db = meters.third_octave_levels_db(sound)
    first, last = np.searchsorted(meters.THIRD_OCTAVE_HZ, AVERAGED_HZ)
    level_db = np.maximum(level_db[first:last], FLOOR_DB)
    if len(sound.channels) == 1:
        return level_db
    edge = np.linspace(0, len(sound.samples), level_db.shape[1] + 1).round().astype(int)
    left, right = np.add.reduceat(sound.samples**2, edge[:-1], axis=0).T / np.diff(edge) + 10.0 ** (FLOOR_DB / 10.0)
    return np.vstack([level_db, 10.0 * np.log10(left / right)])


def _averages(level_db: FloatArray) -> FloatArray:
    """Mean and standard deviation over time of each row; no order of time is left."""
    if level_db.shape[1] == 0:
        return np.full(2 * len(level_db), np.nan)
    return np.concatenate([level_db.mean(axis=1), level_db.std(axis=1)])
