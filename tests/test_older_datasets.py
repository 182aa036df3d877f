"""The dataset as the versions of `datasets` read it that benchmark harnesses pin: the oldest that's tested, beside the newest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from datasets import Features

from builder.layout import features, schema

PINS = Path(__file__).parent / "older-datasets.txt"
LOADED = """\
import io, json, sys
import datasets, soundfile
from datasets import Audio, load_dataset, get_dataset_config_names
root = sys.argv[1]
found = {"version": datasets.__version__, "configs": get_dataset_config_names(root)}
for config in ("all", "loudness", "controls"):
    whole = load_dataset(root, config)
    found[config] = {split: len(rows) for split, rows in whole.items()}
rows = load_dataset(root, "loudness", split="test").cast_column("audio", Audio(decode=False))
streamed = list(load_dataset(root, "loudness", split="test", streaming=True).cast_column("audio", Audio(decode=False)))
plain = load_dataset("parquet", data_files=f"{root}/data/loudness/test-*.parquet", split="train")
found["ids"] = [list(rows["id"]), [row["id"] for row in streamed], list(plain["id"])]
row = rows[0]
samples, rate = soundfile.read(io.BytesIO(row["audio"]["bytes"]))
found["row"] = [row["choices"], row["direction"], row["contour_value"][:3], sorted(row["leak_jnd"])]
found["seconds"] = [len(samples) / rate, row["duration_s"]]
found["names"] = [rows.features["direction"].names, plain.features["direction"].names, plain.features["audio"].sampling_rate]
print(json.dumps(found))
"""


def loaded(dataset: Path, home: Path, *path: Path) -> dict[str, object]:
    """What a process finds in a dataset, with packages of a folder before those of this environment."""
    environment = {**os.environ, "HF_HOME": str(home), "HF_HUB_OFFLINE": "1", "PYTHONPATH": os.pathsep.join(map(str, path))}
    done = subprocess.run([sys.executable, "-c", LOADED, str(dataset)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
def test_the_oldest_version_reads_what_the_newest_reads(audited: Path, tmp_path: Path) -> None:
    """Configurations, splits, counts, rows, lists, labels and sounds are the same in 3.6, streamed or not, by card or by Parquet alone."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--requirement", str(PINS)]
    subprocess.run([*pip, "--target", str(tmp_path / "older")], check=True)
    newest, older = loaded(audited, tmp_path / "new"), loaded(audited, tmp_path / "old", tmp_path / "older")
    assert (older.pop("version"), str(newest.pop("version")).partition(".")[0]) == ("3.6.0", "5")
    assert older == newest
    assert older["loudness"] == {"train": 2, "validation": 2, "test": 4}


def test_lists_have_the_name_that_every_version_knows(audited: Path) -> None:
    """No `List` in a shard's metadata, at any depth; this version reads its own features from it, and the columns are Arrow's own."""
    metadata = pq.read_schema(audited / "data" / "loudness" / "test-00000-of-00001.parquet").metadata[b"huggingface"]
    assert b'"List"' not in metadata
    assert json.loads(metadata)["info"]["features"]["choices"] == {"feature": {"dtype": "string", "_type": "Value"}, "_type": "Sequence"}
    assert Features.from_arrow_schema(schema(16_000)) == features(16_000)
    assert schema(16_000).remove_metadata() == features(16_000).arrow_schema.remove_metadata()
