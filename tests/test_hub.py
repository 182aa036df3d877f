"""Whole round trips by the real clients through a Hub on loopback: published, tagged, loaded, streamed, downloaded, interrupted."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hub.client import Commands, Said, Server, serving

from builder import card, croissant, pipeline, recipe, release, shard
from builder.acoustics import audio
from builder.layout import MAX_GROUP_BYTES, features, write_json
from builder.records import Sound

pytestmark = pytest.mark.slow
TAG = "v0.1.0-seed.1"
ROOT = Path(__file__).parent.parent
COMMAND = "import sys; from builder.__main__ import main; sys.exit(main(sys.argv[1:]))"

WITHOUT_TORCH = """
import importlib.util, sys
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in ("torch", "torchcodec") else find_spec(name, package)
import datasets, io, json
datasets.config.USE_PARQUET_EXPORT = False
"""
"""`datasets` finds nothing there that would decode audio."""


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Server]:
    """A Hub that takes large files in parts of 8 MiB."""
    with serving(tmp_path, part_bytes=8 << 20, page=7) as server:
        yield server


def publish(hub: Server, dataset: Path, repo: str = "acme/vocalgrad") -> Said:
    """Publish by the command, in a process of its own."""
    return hub.python(COMMAND, "publish", repo, "--dataset", str(dataset), "--workers", "1")


def parquets(dataset: Path) -> dict[str, bytes]:
    """Shards of a dataset, by path."""
    return {path.relative_to(dataset).as_posix(): path.read_bytes() for path in sorted(dataset.rglob("*.parquet"))}


def rows_of(dataset: Path, pattern: str) -> list[dict[str, Any]]:
    """Rows of the shards that match."""
    return [row for path in sorted(dataset.glob(pattern)) for row in pq.read_table(path).to_pylist()]


# -- the chain --------------------------------------------------------------------------------------------------------


def test_a_tagged_version_loads_streams_and_plays_without_torch(hub: Server, audited: Path) -> None:
    """The same rows and FLAC bytes as were built, in every configuration and split, with one schema; and they decode."""
    assert publish(hub, audited).status == 0
    said = hub.python(
        WITHOUT_TORCH
        + """
import soundfile
load = lambda config, **more: datasets.load_dataset("acme/vocalgrad", config, revision=sys.argv[1], **more)
schemas, found = set(), {}
for config in datasets.get_dataset_config_names("acme/vocalgrad", revision=sys.argv[1]):
    whole = load(config)
    for split, rows in whole.items():
        assert str(rows.info.version) == "0.1.0", rows.info.version
        schemas.add(json.dumps(rows.features.to_dict(), sort_keys=True))
        raw = rows.cast_column("audio", datasets.Audio(decode=False))
        found[f"{config}/{split}"] = {row["id"]: row["audio"]["bytes"].hex() for row in raw}
        for row in raw:
            samples, rate_hz = soundfile.read(io.BytesIO(row["audio"]["bytes"]))
            assert rate_hz == 16000 and len(samples) / rate_hz == row["duration_s"] and abs(samples).max() > 0.01
stream = load("loudness", split="test", streaming=True).decode(False)
streamed = {row["id"]: row["audio"]["bytes"].hex() for row in stream.take(2)}
assert not {"torch", "torchcodec"} & set(sys.modules)
print(json.dumps({"n_schemas": len(schemas), "found": found, "streamed": streamed}))
""",
        TAG,
    )
    assert said.status == 0, said.err
    told = json.loads(said.out.splitlines()[-1])
    built = {
        f"{config}/{split}": {row["id"]: row["audio"]["bytes"].hex() for row in rows_of(audited, pattern)}
        for config, split, pattern in [
            *(
                (name, split, f"data/loudness/{split}-*.parquet")
                for name in ("all", "loudness")
                for split in ("train", "validation", "test")
            ),
            ("controls", "test", "data/controls/loudness-test-*.parquet"),
        ]
    }
    assert told["found"] == built
    assert told["n_schemas"] == 1
    assert told["streamed"] == dict(list(built["loudness/test"].items())[:2])
    assert {item["status"] for item in hub.log(f"resolve/{TAG}")} <= {200, 206, 307, 404}


def test_by_xet_too_what_is_on_the_hub_is_what_was_built(audited: Path, tmp_path: Path) -> None:
    """The client's other way to send large files, which it takes by itself where it can: the same law, and nothing twice."""
    with serving(tmp_path, xet=True) as hub:
        said = publish(hub, audited)
        assert said.status == 0, said.err
        assert hub.log("PUT ") == []
        assert len(hub.log("xet-write-token")) > 0
        checked = hub.python(COMMAND, "pull-check", f"acme/vocalgrad@{TAG}", "--workers", "1")
        assert (checked.status, "9 rows, 0 faults" in checked.out) == (0, True), checked
        hub.go_wrong()
        assert "is published already" in publish(hub, audited).out
        assert (hub.sent(), hub.log("xet-write-token")) == ([], [])


def test_downloads_are_the_build_and_need_nothing_of_the_machine_that_built(hub: Server, audited: Path, tmp_path: Path) -> None:
    """By `snapshot_download` and by `hf download`; the build's folder is gone; no path of it and no empty clip is inside."""
    built = Path(shutil.copytree(audited, tmp_path / "builder-of-this" / "ds"))
    want = {path.relative_to(built).as_posix(): path.read_bytes() for path in built.rglob("*") if path.is_file()}
    assert publish(hub, built).status == 0
    shutil.rmtree(built.parent)
    said = hub.python(
        "from huggingface_hub import snapshot_download; import sys\n"
        "print(snapshot_download('acme/vocalgrad', repo_type='dataset', revision=sys.argv[1]))",
        TAG,
    )
    snapshot = Path(said.out.strip())
    target = tmp_path / "copy"
    command = [str(Path(sys.executable).with_name("hf")), "download", "acme/vocalgrad", "--type", "dataset", "--revision", TAG]
    subprocess.run([*command, "--local-dir", str(target)], env=hub.environment(), check=True, capture_output=True)
    for folder in (snapshot, target):
        for name, content in want.items():
            assert (folder / name).read_bytes() == content, name
            assert str(tmp_path).encode() not in content
    rows = rows_of(target, "data/**/*.parquet")
    assert all(row["audio"]["path"] == f"{row['id']}.flac" and row["audio"]["bytes"][:4] == b"fLaC" for row in rows)
    assert all(audio.from_flac(row["audio"]["bytes"]).duration_s == pytest.approx(row["duration_s"]) for row in rows)
    shutil.rmtree(target / ".cache")
    checked = hub.python(COMMAND, "validate", "--dataset", str(target), "--workers", "1")
    assert (checked.status, "9 rows, 0 faults" in checked.out) == (0, True), checked


def long_clips(folder: Path, n_clips: int) -> Path:
    """A dataset of noise of 30 s at 48 kHz, of which nothing is true but its form: more than 30 MB in one shard."""
    template: dict[str, Any] = dict.fromkeys(features(48_000))
    rng, rows = np.random.default_rng(1), []
    for number in range(n_clips):
        content = audio.flac_bytes(Sound(rng.uniform(-0.5, 0.5, 30 * 48_000), 48_000))
        rows.append(
            {
                **template,
                "id": f"vg{number:020x}",
                "audio": {"bytes": content, "path": f"vg{number:020x}.flac"},
                "choices": ["increase", "decrease"],
                "direction": ("up", "down")[number % 2],
                "dimension": "loudness",
                "source_kind": "noise",
                "source_id": f"{number}",
                "leak_jnd": {},
                "contour_value": [],
                "duration_s": 30.0,
                "licence": "CC0-1.0",
                "attribution": "noise",
                "audio_sha256": hashlib.sha256(content).hexdigest(),
            }
        )
    name = "loudness/test-00000-of-00001"
    checksum = shard.write(rows, folder / "data" / f"{name}.parquet", 48_000)
    values = {**recipe.load(ROOT / "recipes" / "beep.yaml").model_dump(mode="json"), "sample_rate_hz": 48_000}
    cell = {"dimension": "loudness", "tier": "easy", "curve": "linear", "kind": "noise", "split": "test", "wanted": n_clips // 2}
    cells = [{**cell, "tried": n_clips // 2, "published": n_clips // 2, "rejected": {}, "witness_undecided": 0}]
    shards = [{"shard": name, "plan_digest": "0", "parquet_sha256": checksum, "n_rows": n_clips}]
    manifest = {
        **{"name": "long", "version": "0.1.0", "seed": 1, "release": "0.1.0+seed.1", "recipe": values, "plan_digest": "0"},
        **{"recipe_sha256": "0", "versions": pipeline.versions(), "shards": shards, "cells": cells, "imposed": [], "unreachable": []},
        "sources": {"refused": {}, "details": [], "speakers": {}, "sex": {}, "licences": {"CC0-1.0": {"text": "none", "asks": "nothing"}}},
    }
    write_json(manifest, folder / "manifest.json")
    write_json(cells, folder / "reports" / f"{name}.json")
    card.write(folder, manifest, 48_000)
    croissant.write(folder, manifest)
    digest = hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()
    write_json({"release": manifest["release"], "manifest_sha256": digest, "failures": []}, folder / "audit" / "audit.json")
    for name in release.ALWAYS:
        if not (folder / name).exists():
            (folder / name).write_text("of a test")
    return folder


PUSH = """
import sys
from pathlib import Path
from builder import publish, release
seen = publish.look(release.read(Path(sys.argv[1])), "acme/long", private=False, say=print)
print(publish.push(seen, private=False, pr=False))
"""
"""Publishing of a folder whose rows aren't worth validating."""


def test_a_large_shard_goes_in_parts_and_streams(hub: Server, tmp_path: Path) -> None:
    """Over 30 MB: every part once, in order; then one row of it streams without all of it, and the process ends in peace."""
    dataset = long_clips(tmp_path / "long", 12)
    ((name, content),) = parquets(dataset).items()
    assert len(content) > 30_000_000
    assert hub.python(PUSH, str(dataset)).status == 0
    parts = Counter(item["request"] for item in hub.log("/part/"))
    assert len(parts) == -(-len(content) // (8 << 20))
    assert set(parts.values()) == {1}
    assert sum(item["body"] for item in hub.log("/part/")) == len(content)
    hub.go_wrong()
    said = hub.python(
        WITHOUT_TORCH + "rows = datasets.load_dataset('acme/long', 'loudness', split='test', revision=sys.argv[1], streaming=True)\n"
        "rows = rows.decode(False).take(1)\n"
        "print(json.dumps([[row['id'], len(row['audio']['bytes'])] for row in rows]), flush=True)\n"
        "import os; os._exit(0)  # a process that stopped a stream early may abort at its end: apache/arrow issue 45214",
        TAG,
    )
    assert said.status == 0, said.err
    first = rows_of(dataset, "data/**/*.parquet")[0]
    assert json.loads(said.out.splitlines()[-1]) == [[first["id"], len(first["audio"]["bytes"])]]
    download = hub.python(
        "from huggingface_hub import hf_hub_download; import sys\n"
        "print(hf_hub_download('acme/long', sys.argv[1], repo_type='dataset', revision=sys.argv[2]))",
        name,
        TAG,
    )
    assert Path(download.out.strip()).read_bytes() == content


def test_long_clips_stay_in_groups_that_a_viewer_reads(tmp_path: Path) -> None:
    """30 s at 48 kHz: each row group is under the limit, with a page index for the columns that have one."""
    dataset = long_clips(tmp_path / "long", 4)
    (path,) = dataset.rglob("*.parquet")
    found = pq.ParquetFile(path).metadata
    groups = [found.row_group(number) for number in range(found.num_row_groups)]
    assert all(group.total_byte_size <= 1.2 * MAX_GROUP_BYTES for group in groups)
    assert sum(group.num_rows for group in groups) == 4
    assert all(group.column(number).has_offset_index for group in groups for number in range(group.num_columns))


# -- on a bad line ----------------------------------------------------------------------------------------------------


def arrived(hub: Server) -> list[str]:
    """Uploads that the Hub answered."""
    return [item["request"] for item in hub.log("PUT ") if item["status"] == 200]


@pytest.mark.parametrize(("action", "every"), [("drop", 2), ("drop", 3), ("lose", 3)])
def test_a_push_ends_though_every_nth_request_is_dropped(hub: Server, audited: Path, action: str, every: int) -> None:
    """Before it's done, or with its answer lost: the build's bytes are there, and nothing that was answered is sent twice."""
    hub.go_wrong({"match": "", "action": action, "every": every})
    said = publish(hub, audited)
    assert said.status == 0, said
    sent = arrived(hub)
    assert len(sent) == len(set(sent)) <= len(parquets(audited))
    hub.go_wrong()
    assert "is published already" in publish(hub, audited).out
    assert hub.sent() == []


def test_a_download_ends_though_answers_are_cut(hub: Server, audited: Path) -> None:
    """Half of every fourth file comes first; what is checked in the end is all of it."""
    assert publish(hub, audited).status == 0
    hub.go_wrong({"match": "^GET .*/resolve/", "action": "cut", "every": 4})
    said = hub.python(COMMAND, "pull-check", f"acme/vocalgrad@{TAG}", "--workers", "1")
    assert (said.status, "9 rows, 0 faults" in said.out) == (0, True), said
    assert any(item["fault"] == "cut" for item in hub.log())


def killed_at(hub: Server, dataset: Path, request: str, every: int = 1) -> None:
    """Publish, and kill -9 the publisher while the Hub holds a request."""
    hub.go_wrong({"match": request, "action": "hold", "every": every})
    command = [sys.executable, "-c", COMMAND, "publish", "acme/vocalgrad", "--dataset", str(dataset), "--workers", "1"]
    with subprocess.Popen(command, env=hub.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        until = time.monotonic() + 60
        while not any(item["fault"] == "hold" for item in hub.log()) and time.monotonic() < until:
            time.sleep(0.1)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    time.sleep(0.5)  # what had all come by then is noted


def test_killed_amid_uploads_the_next_run_sends_the_rest(hub: Server, audited: Path) -> None:
    """Every shard arrives once over both runs."""
    killed_at(hub, audited, "^PUT ", every=3)
    first = arrived(hub)
    hub.go_wrong()
    assert publish(hub, audited).status == 0
    assert 0 < len(first) < len(parquets(audited))
    assert Counter(first + arrived(hub)) == Counter(
        f"PUT /lfs/acme/vocalgrad/{hashlib.sha256(content).hexdigest()}" for content in parquets(audited).values()
    )


def second_seed(audited: Path, folder: Path) -> Path:
    """The same recipe under another seed, built and audited."""
    run: Mapping[str, str] = {**os.environ, "PYTHONPATH": str(ROOT)}
    made = folder / "two"
    shutil.copytree(audited.parent, folder / "recipe", ignore=shutil.ignore_patterns("ds*"))
    for command in (
        ("build", "--recipe", str(folder / "recipe" / "noise.yaml"), "--seed", "2", "--out", str(made), "--workers", "1"),
        ("audit", "--dataset", str(made), "--workers", "1"),
    ):
        subprocess.run([sys.executable, "-m", "builder", *command], env=run, check=True, capture_output=True)
    return made


def test_killed_between_upload_and_commit_the_old_version_stands_and_nothing_is_sent_twice(
    hub: Server, audited: Path, tmp_path: Path
) -> None:
    """kill -9 with all uploaded and nothing committed: users see the old version whole; the next run sends no file again."""
    assert publish(hub, audited).status == 0
    new = second_seed(audited, tmp_path)
    killed_at(hub, new, "/commit/main$")
    assert len(arrived(hub)) == len(parquets(new))
    hub.go_wrong()
    load = (
        WITHOUT_TORCH
        + "rows = datasets.load_dataset('acme/vocalgrad', 'loudness', split='test', **json.loads(sys.argv[1])).remove_columns('audio')\n"
        "print(json.dumps(rows['id'][:]))"
    )
    test = "data/loudness/test-*.parquet"
    for revision in ({}, {"revision": TAG}):
        said = hub.python(load, json.dumps(revision))
        assert json.loads(said.out.splitlines()[-1]) == [row["id"] for row in rows_of(audited, test)], said.err
    hub.go_wrong()
    said = publish(hub, new)
    assert (said.status, hub.log("PUT ")) == (0, []), said.err
    for tag, dataset in ((TAG, audited), ("v0.1.0-seed.2", new)):
        said = hub.python(load, json.dumps({"revision": tag}))
        assert json.loads(said.out.splitlines()[-1]) == [row["id"] for row in rows_of(dataset, test)], said.err


def test_killed_between_commit_and_tag_the_next_run_tags(hub: Server, audited: Path) -> None:
    """The commit is there already: it's found whole and gets its name."""
    killed_at(hub, audited, "/tag/")
    hub.go_wrong()
    assert publish(hub, audited).status == 0
    assert [request.split("/")[-2] for request in hub.sent()] == ["tag"]


def test_later_versions_leave_earlier_tags_alone(hub: Server, audited: Path, tmp_path: Path) -> None:
    """Both seeds validate from the Hub after both are there, and the first is still known as published."""
    commands = Commands(hub)
    new = second_seed(audited, tmp_path)
    for dataset in (audited, new):
        assert commands("publish", "acme/vocalgrad", "--dataset", dataset, "--workers", "1").status == 0
    for tag in (TAG, "v0.1.0-seed.2"):
        said = commands("pull-check", f"acme/vocalgrad@{tag}", "--workers", "1")
        assert (said.status, "9 rows, 0 faults" in said.out) == (0, True), said
    hub.go_wrong()
    assert "is published already" in commands("publish", "acme/vocalgrad", "--dataset", audited, "--workers", "1").out
    assert hub.sent() == []
    commands.close()
