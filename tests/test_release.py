"""What keeps a folder from being published, before the Hub is asked anything."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from builder import release
from builder.errors import NotFound, NotPublished
from builder.layout import read_manifest


@pytest.fixture
def dataset(audited: Path, tmp_path: Path) -> Path:
    """A copy of a publishable dataset, to spoil."""
    return Path(shutil.copytree(audited, tmp_path / "ds"))


def rewrite(path: Path, change: Callable[[str], str]) -> None:
    """Change a text file, which must then differ."""
    before = path.read_text(encoding="utf-8")
    path.write_text(change(before), encoding="utf-8")
    assert path.read_text(encoding="utf-8") != before


def set_audit(dataset: Path, **values: object) -> None:
    """Change keys of the audit; None takes one away."""
    path = dataset / release.AUDIT
    audit = {**json.loads(path.read_text()), **values}
    path.write_text(json.dumps({key: value for key, value in audit.items() if value is not None}))


def test_a_release_is_all_files_of_the_folder(audited: Path) -> None:
    """Each with the checksums that git and the Hub give it."""
    found = release.read(audited)
    assert set(found.files) == {path.relative_to(audited).as_posix() for path in audited.rglob("*") if path.is_file()}
    for file in found.files.values():
        content = file.path.read_bytes()
        assert (file.size, file.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    card = found.files["README.md"]
    assert card.git_sha1 == subprocess.run(["git", "hash-object", card.path], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize(("name", "tag"), [("0.1.0+seed.1", "v0.1.0-seed.1"), ("12.0.3+seed.20261130", "v12.0.3-seed.20261130")])
def test_the_tag_is_one_that_git_takes(name: str, tag: str) -> None:
    """Letters, digits, dots and dashes of the release's name."""
    assert release.tag_of({"release": name}) == tag
    assert subprocess.run(["git", "check-ref-format", f"refs/tags/{tag}"]).returncode == 0
    assert re.fullmatch(r"[A-Za-z0-9.-]+", tag)


@pytest.mark.parametrize("name", [None, "", "0.1+seed.1", "0.1.0", "0.1.0+seed.1 ", "v0.1.0+seed.1", "0.1.0+seed.-1"])
def test_a_manifest_without_a_release_has_no_tag(name: str | None) -> None:
    """Its name is refused as it stands."""
    with pytest.raises(NotPublished, match=rf"^manifest.json: release {re.escape(repr(name))} isn't <version>\+seed.<n>"):
        release.tag_of({"release": name})


def test_a_folder_without_a_dataset_is_refused(tmp_path: Path) -> None:
    """With how to build one."""
    with pytest.raises(NotFound, match=f"build one there with `vocalgrad build --out {tmp_path}`"):
        release.read(tmp_path)


def test_files_that_the_manifest_does_not_know_are_named(dataset: Path) -> None:
    """Wherever they lie, hidden ones too; all at once."""
    for name in ("notes.txt", ".DS_Store", "data/loudness/test-00001-of-00002.parquet", "audit/old/audit.json"):
        (dataset / name).parent.mkdir(exist_ok=True)
        (dataset / name).write_bytes(b"x")
    with pytest.raises(NotPublished) as caught:
        release.read(dataset)
    assert str(caught.value).splitlines()[1:] == [
        f"  {name}: not a file of this dataset: move it away"
        for name in (".DS_Store", "audit/old/audit.json", "data/loudness/test-00001-of-00002.parquet", "notes.txt")
    ]


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("audit/audit.json", "run `vocalgrad audit --dataset {dataset}`"),
        ("audit/report.html", "run `vocalgrad audit --dataset {dataset}`"),
        ("README.md", "run `vocalgrad card --dataset {dataset}`"),
        ("example.png", "run `vocalgrad card --dataset {dataset}`"),
        ("ATTRIBUTION.md", "run `vocalgrad card --dataset {dataset}`"),
        ("croissant.json", "run `vocalgrad card --dataset {dataset}`"),
        ("data/loudness/test-00000-of-00001.parquet", "build the dataset again"),
        ("reports/loudness/test-00000-of-00001.json", "build the dataset again"),
    ],
)
def test_missing_files_are_named_with_what_makes_them(dataset: Path, name: str, advice: str) -> None:
    """Every kind of file of a dataset."""
    (dataset / name).unlink()
    assert release.faults(dataset, read_manifest(dataset)) == [f"{name}: missing: {advice.format(dataset=dataset)}"]


def test_an_audit_that_failed_is_refused(dataset: Path) -> None:
    """With its first failure."""
    set_audit(dataset, failures=["pitch moves in loudness", "another"])
    (fault,) = release.faults(dataset, read_manifest(dataset))
    assert fault.startswith("audit/audit.json: the audit didn't pass (2 failures, such as: pitch moves in loudness)")


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"failures": null}'])
def test_an_audit_that_says_nothing_is_refused(dataset: Path, content: str) -> None:
    """An empty file isn't a passed audit."""
    (dataset / release.AUDIT).write_text(content)
    (fault,) = release.faults(dataset, read_manifest(dataset))
    assert f"run `vocalgrad audit --dataset {dataset}`" in fault


@pytest.mark.parametrize("values", [{"manifest_sha256": None}, {"manifest_sha256": "0" * 64}, {"release": "0.1.0+seed.2"}])
def test_an_audit_of_another_build_is_refused(dataset: Path, values: dict[str, object]) -> None:
    """It must be of exactly this manifest, not only of this name."""
    set_audit(dataset, **values)
    (fault,) = release.faults(dataset, read_manifest(dataset))
    assert fault.startswith("audit/audit.json: the audit is of another build")


def test_a_manifest_changed_after_the_audit_is_refused(dataset: Path) -> None:
    """One byte of it is enough."""
    rewrite(dataset / "manifest.json", lambda text: text + "\n")
    fault, *others = release.faults(dataset, read_manifest(dataset))
    assert fault.startswith("audit/audit.json: the audit is of another build")
    assert others
    assert all(other.startswith("croissant.json: ") for other in others)


@pytest.mark.parametrize(
    ("old", "new"),
    [("version: 0.1.0", "version: 0.2.0"), (r"sha256-[0-9a-f]{64}", "sha256-" + "0" * 64), ("num_examples: 2", "num_examples: 3")],
)
def test_a_card_of_another_build_is_refused(dataset: Path, old: str, new: str) -> None:
    """`datasets` caches by the card: its version, digests and counts must be those of the manifest."""
    rewrite(dataset / "README.md", lambda text: re.sub(old, new, text, count=1))
    faults = release.faults(dataset, read_manifest(dataset))
    again = f"run `vocalgrad card --dataset {dataset}`"
    assert all(fault.startswith("README.md: configuration all") and fault.endswith(f": {again}") for fault in faults)
    assert len(faults) == 1


@pytest.mark.parametrize("content", ["", "# vocalgrad\n", "---\nconfigs: [\n---\n", "---\nconfigs: 1\n---\n", "---\n---\n"])
def test_a_card_that_is_none_is_refused(dataset: Path, content: str) -> None:
    """Without front matter `datasets` would mix all shards."""
    (dataset / "README.md").write_text(content)
    (fault,) = release.faults(dataset, read_manifest(dataset))
    assert fault.startswith("README.md: its front matter isn't a card of `vocalgrad`")


def test_a_card_with_more_prose_is_taken(dataset: Path) -> None:
    """People may add to it."""
    rewrite(dataset / "README.md", lambda text: text + "\n## Thanks\n")
    assert release.faults(dataset, read_manifest(dataset)) == []


def test_a_folder_of_more_files_than_the_hub_takes_is_refused(dataset: Path) -> None:
    """Before anything is sent; the Hub would refuse it at the end."""
    manifest = read_manifest(dataset)
    item = manifest["shards"][0]
    many = {**manifest, "shards": [{**item, "shard": f"loudness/train-{i:05d}-of-10001"} for i in range(10_001)]}
    assert "data/loudness/: 10001 files, the Hub takes 10000 in a folder: raise max_pairs_per_shard" in release.faults(dataset, many)


def test_a_tag_must_be_of_its_manifest() -> None:
    """A tag that says another release is a fault; a commit or a branch says none."""
    manifest = {"release": "0.1.0+seed.1"}
    assert [release.tag_faults(manifest, revision) for revision in ("v0.1.0-seed.1", "main", "0" * 40)] == [[], [], []]
    assert release.tag_faults(manifest, "v0.1.0-seed.2") == ["manifest.json: tagged v0.1.0-seed.2, it's release 0.1.0+seed.1"]
