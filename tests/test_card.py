"""The card: its snippets run as they stand, its figures are this build's, and it says what is missing before the audit."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hub.client import Server, serving

from builder import evidence, frontpage, pipeline, release
from builder.__main__ import main
from builder.errors import DatasetInvalid
from builder.folder import CARD, PICTURE
from builder.layout import read_manifest
from builder.pipeline import Built

TAG = "v0.1.0-seed.1"
MAX_LINES = 250


def body(dataset: Path) -> str:
    """What people read of a card."""
    return (dataset / CARD).read_text(encoding="utf-8").split("---\n", 2)[2]


def front(dataset: Path) -> str:
    """What `datasets` reads of a card."""
    return (dataset / CARD).read_text(encoding="utf-8").split("---\n", 2)[1]


def snippets(dataset: Path, of_the_hub: bool) -> list[str]:
    """The Python on a card: what reads a folder, or what asks the Hub."""
    return [code for code in re.findall(r"```python\n(.*?)```", body(dataset), re.S) if ("OWNER" in code) == of_the_hub]


@pytest.fixture
def dataset(audited: Path, tmp_path: Path) -> Path:
    """A copy of an audited dataset, under the name that the card gives it."""
    return Path(shutil.copytree(audited, tmp_path / "vocalgrad"))


def set_audit(dataset: Path, **values: Any) -> None:
    """Change keys of the audit and write the card again."""
    path = dataset / release.AUDIT
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))
    frontpage.write(dataset, read_manifest(dataset))


# -- snippets ---------------------------------------------------------------------------------------------------------


def test_snippets_for_a_folder_run_offline_and_without_torch(dataset: Path, tmp_path: Path) -> None:
    """Each alone, from the folder in which the dataset lies; and they print what the rows say."""
    codes = snippets(dataset, of_the_hub=False)
    assert len(codes) == 2
    environment = {**os.environ, "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1", "PYTHONPATH": ""}
    said = []
    for code in codes:
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
    assert re.fullmatch(r"Does the loudness .* \['\w+', '\w+'\] \w+ \d\.\d\d s\n", said[0]), said[0]
    assert re.fullmatch(r"(vg[0-9a-f]{20} \w+ \d+\n){2}", said[1]), said[1]


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Server]:
    """A Hub of this test's own."""
    with serving(tmp_path) as server:
        yield server


@pytest.mark.slow
def test_snippets_for_the_hub_run_and_fetch_what_they_say(hub: Server, audited: Path) -> None:
    """Pinned by tag; one split without the others; and from a snapshot, online once and offline from then on."""
    command = "import sys; from builder.__main__ import main; sys.exit(main(sys.argv[1:]))"
    assert hub.python(command, "publish", "acme/vocalgrad", "--dataset", str(audited), "--workers", "1").status == 0
    pinned, one_split, snapshot = (code.replace("OWNER", "acme") for code in snippets(audited, of_the_hub=True))
    quiet = "import datasets; datasets.config.USE_PARQUET_EXPORT = False\n"
    hub.go_wrong()
    said = hub.python(quiet + one_split)
    assert (said.status, said.out) == (0, "Audio(sampling_rate=16000, decode=True, num_channels=None, stream_index=None) 4\n"), said
    assert hub.log("loudness/test-")
    assert not hub.log("loudness/train-")
    said = hub.python(quiet + pinned)
    assert (said.status, said.out) == (0, "0.1.0 4\n"), said
    assert hub.log("loudness/train-")
    assert hub.python(quiet + snapshot).out == "0.1.0 4\n"
    hub.go_wrong()
    said = hub.python(snapshot, HF_HUB_OFFLINE="1")
    assert (said.status, said.out, hub.log()) == (0, "0.1.0 4\n", []), said


# -- figures ----------------------------------------------------------------------------------------------------------


def test_the_card_of_a_build_has_the_figures_of_its_audit(audited: Path) -> None:
    """As `make build` leaves it: gates, agreement, leaks, all read from `audit/audit.json`."""
    audit = json.loads((audited / release.AUDIT).read_text())
    text = body(audited)
    assert f"passes all of its {len(audit['gates'])} gates" in text
    (truth,) = (row for row in audit["truth"] if row["by"] == "all")
    assert re.search(
        rf"Of {truth['n_clips']} clips the rule contradicts 0; the oracle agrees with 100\.0 % and\s+says the opposite of 0", text
    )
    most = evidence.of(audit)["leak_most"]
    assert "under a sweep of loudness" in most
    assert most in text


def test_other_figures_make_another_card(dataset: Path) -> None:
    """No figure is typed: what the audit says differently, the card says differently."""
    audit = json.loads((dataset / release.AUDIT).read_text())
    truth = [{**row, "oracle_agrees": 0.4321, "oracle_contradicts": 7, "rule_contradicts": 5} for row in audit["truth"]]
    leaks = [{**leak, "p95_jnd": 77.77} if leak["measured"] == "pitch" else leak for leak in audit["leaks"]]
    set_audit(dataset, truth=truth, leaks=leaks, gates={"one": [], "two": []})
    text = body(dataset)
    for said in ("43.2 % and", "opposite of 7", "contradicts 5", "pitch under a sweep of loudness, 77.77 J", "all of its 2 gates"):
        assert said in text


def test_an_audit_that_failed_is_on_the_card(dataset: Path) -> None:
    """With how many points, and the first."""
    set_audit(dataset, failures=["loudness moves in pitch", "another"])
    assert "fails in 2 points; don't use it:** loudness moves in pitch" in body(dataset)
    assert "passes all" not in body(dataset)


@pytest.mark.parametrize("spoil", ["gone", "of another build"])
def test_a_card_without_an_audit_says_so(dataset: Path, spoil: str) -> None:
    """No figure of an audit is on it, and `datasets` reads the same as with one."""
    before = front(dataset)
    if spoil == "gone":
        shutil.rmtree(dataset / "audit")
        assert main(["card", "--dataset", str(dataset)]) == 0
    else:
        set_audit(dataset, manifest_sha256="0" * 64)
    text = body(dataset)
    assert "was not audited yet: `vocalgrad audit`" in text
    assert "oracle agrees" not in text
    assert "without listening" not in text
    assert front(dataset) == before


@pytest.mark.parametrize("content", ["", "[]", "{"])
def test_a_damaged_audit_is_told(dataset: Path, content: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With what to do; the card stays."""
    before = (dataset / CARD).read_bytes()
    (dataset / release.AUDIT).write_text(content)
    assert main(["card", "--dataset", str(dataset)]) == 1
    assert re.search(r"audit\.json is damaged \(.*\): run `vocalgrad audit --dataset .*`", capsys.readouterr().err)
    assert (dataset / CARD).read_bytes() == before


@pytest.mark.parametrize(("name", "key"), [("manifest.json", "imposed"), ("manifest.json", "sources"), (release.AUDIT, "leaks")])
def test_a_dataset_of_another_version_is_told(dataset: Path, name: str, key: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What an older manifest or audit lacks is named, without a traceback."""
    path = dataset / name
    found = json.loads(path.read_text())
    if name == "manifest.json":
        shutil.rmtree(dataset / "audit")
    del found[key]
    path.write_text(json.dumps(found))
    assert main(["card", "--dataset", str(dataset)]) == 1
    told = capsys.readouterr().err
    assert re.search(rf"lacks what the card says \(.*{key}.*\): another vocalgrad made it; build and audit it again", told), told


def test_the_card_and_its_picture_are_the_same_again(dataset: Path) -> None:
    """Byte for byte, and every file that the card shows or names is there."""
    names = [CARD, PICTURE, "ATTRIBUTION.md"]
    before = [(dataset / name).read_bytes() for name in names]
    assert main(["card", "--dataset", str(dataset)]) == 0
    assert [(dataset / name).read_bytes() for name in names] == before
    shown = re.findall(r"!\[.*?\]\((.*?)\)", body(dataset))
    assert shown == [PICTURE, "audit/leakage.png"]
    for name in [*shown, *re.findall(r"`([\w/]+\.(?:html|json|md))`", body(dataset))]:
        assert (dataset / name).is_file(), name


def test_the_picture_is_of_one_pair(audited: Path) -> None:
    """Rising and falling, of the first dimension."""
    up, down = frontpage.example(audited, read_manifest(audited))
    assert (up["direction"], down["direction"]) == (0, 1)
    assert up["pair_id"] == down["pair_id"]
    assert up["dimension"] == "loudness"


def test_a_dataset_without_a_pair_has_no_picture(audited: Path) -> None:
    """It can't be: the shard of the first dimension is gone from the manifest."""
    manifest = read_manifest(audited)
    with pytest.raises(DatasetInvalid, match="no clip of loudness rises; build the dataset again"):
        frontpage.example(audited, {**manifest, "shards": []})


@pytest.mark.slow
def test_a_card_of_every_dimension_stays_readable(smoke: Built, tmp_path: Path) -> None:
    """At most 250 lines are open to the eye; running speech is in the picture; every tag that opens is closed."""
    out = Path(shutil.copytree(smoke.out, tmp_path / "vocalgrad"))
    assert main(["audit", "--dataset", str(out), "--pairs", "2", "--workers", "2"]) in (0, 1)
    text = body(out)
    assert text.count("<details><summary>") == text.count("</details>") == 6
    closed = re.sub(r"<details>.*?</details>", "", text, flags=re.S)
    assert closed.count("\n") <= MAX_LINES
    assert frontpage.example(out, read_manifest(out))[0]["source_kind"] == "speech"
    assert not re.search(r"\n\n\n\n|\bnan\b|\bNone\b|undefined", text)
    assert pipeline.STAGES.index("card") < pipeline.STAGES.index("audit")


# -- an audit in words ------------------------------------------------------------------------------------------------

RESULT = {"cue": "size", "classifier": "logistic", "accuracy": 0.5, "low": 0.4, "high": 0.6}
TRUTH = {"by": "all", "n_clips": 10, "rule_contradicts": 0, "oracle_agrees": 1.0, "oracle_contradicts": 0}
LEAK = {"swept": "pitch", "measured": "brightness", "linked": False, "p95_jnd": 0.5, "n_measured": 3}


def told(**values: Any) -> dict[str, Any]:
    """A small audit in words."""
    truth = [{**TRUTH, "dimension": "pitch"}]
    return evidence.of(
        {
            "failures": [],
            "gates": {},
            "false_alarm": 0.005,
            "pairs_per_dimension": 3,
            "truth": truth,
            "leaks": [],
            "shortcuts": [],
            **values,
        }
    )


def test_the_better_classifier_counts() -> None:
    """Of the mean, and of the dimension where it's highest."""
    results = [
        {**RESULT, "dimension": "pitch"},
        {**RESULT, "dimension": "tempo", "classifier": "trees", "accuracy": 0.61},
        {**RESULT, "dimension": "all"},
        {**RESULT, "dimension": "all", "classifier": "trees", "accuracy": 0.55},
    ]
    (row,) = told(shortcuts=results)["blind"]
    assert row["mean"] == "55.0 % (40.0 to 60.0)"
    assert row["highest"] == "tempo 61.0 % (40.0 to 60.0)"
    assert row["gated"]


def test_one_figure_in_all_dimensions_names_none() -> None:
    """It's the same everywhere."""
    results = [{**RESULT, "dimension": name} for name in ("pitch", "tempo", "all")]
    assert told(shortcuts=results)["blind"][0]["highest"] == "everywhere 50.0 % (40.0 to 60.0)"


def test_agreement_counts_clips_not_dimensions() -> None:
    """A dimension of ten clips weighs ten times one of one."""
    truth = [{**TRUTH, "dimension": "pitch"}, {**TRUTH, "dimension": "pan", "n_clips": 30, "oracle_agrees": 0.5, "oracle_contradicts": 15}]
    found = told(truth=[*truth, {**truth[0], "by": "tier", "n_clips": 999}])
    assert (found["n_clips"], found["oracle_agrees"], found["oracle_contradicts"]) == (40, 0.625, 15)


def test_dimensions_without_an_oracle_measure_weigh_nothing() -> None:
    """They are named; the share is of the clips that the oracle was asked about, and None where that is none."""
    silent = {**TRUTH, "dimension": "whistle", "n_clips": 90, "oracle_agrees": None, "oracle_contradicts": None}
    found = told(truth=[{**TRUTH, "dimension": "pitch", "oracle_agrees": 0.9}, silent])
    assert (found["unasked"], found["n_clips"], found["oracle_clips"], found["oracle_agrees"]) == (["whistle"], 100, 10, 0.9)
    assert told(truth=[silent])["oracle_agrees"] is None


def test_leaks_leave_out_what_is_swept_linked_or_unmeasured() -> None:
    """The largest of the others is named; linked ones come in order of size."""
    leaks = [
        {**LEAK, "measured": "pitch", "p95_jnd": 8.0},
        {**LEAK, "measured": "tempo", "p95_jnd": None},
        {**LEAK, "measured": "loudness", "p95_jnd": 0.7},
        LEAK,
        {**LEAK, "measured": "clarity", "linked": True, "p95_jnd": 1.0},
        {**LEAK, "measured": "formants", "linked": True, "p95_jnd": 3.0},
    ]
    found = told(leaks=leaks)
    assert found["leaks"] == {"pitch": {"other": "loudness 0.70", "linked": "formants 3.00, clarity 1.00"}}
    assert found["leak_most"] == "loudness under a sweep of pitch, 0.70 J (95th percentile of 3 pairs)"
    assert told()["leak_most"] == "none was measured"
