"""`croissant.json`: mlcroissant takes it and reads the same records out of it, and what mlcroissant lets pass is found here."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlcroissant
import numpy as np
import pyarrow.parquet as pq
import pytest

from builder import croissant, croissant_faults, release, responsible, validate
from builder.__main__ import main
from builder.columns import COLUMNS
from builder.errors import VocalgradError
from builder.folder import front_matter, shards_in
from builder.layout import features, read_manifest, read_rows, split_of
from builder.pipeline import Built

ROOT = Path(__file__).parent.parent
ADDRESS = "https://huggingface.co/datasets/my-org/vocalgrad"
pytestmark = [
    pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*inplace:DeprecationWarning"),
]
"""mlcroissant 1.1.1 calls what rdflib 7.6 and pandas 3.1 deprecate."""


@pytest.fixture
def dataset(audited: Path, tmp_path: Path) -> Path:
    """A copy of a publishable dataset, to spoil."""
    return Path(shutil.copytree(audited, tmp_path / "ds"))


def opened(root: Path, **how: Any) -> mlcroissant.Dataset:
    """The dataset as mlcroissant sees it; raises if it finds errors."""
    return mlcroissant.Dataset(root / croissant.CROISSANT, **how)


def plain(value: Any) -> Any:
    """A value as Python has it: text decoded, what is missing as None, arrays as lists."""
    if isinstance(value, dict):
        return {str(key).rsplit("/", 1)[-1]: plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, np.ndarray)):
        return [plain(inner) for inner in value]
    if isinstance(value, bytes):
        return value if value[:4] == b"fLaC" else value.decode()
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and np.isnan(value) else value


def compare(root: Path, **how: Any) -> Counter[str]:
    """Every record of every record set must be the Parquet's row, all columns of it; returns how many there were."""
    manifest = read_manifest(root)
    found = opened(root, **how)
    counts: Counter[str] = Counter()
    for config in front_matter(root)["configs"]:
        name = config["config_name"]
        shards = [item["shard"] for item in shards_in(config, manifest)]
        rows = {
            row["id"]: {**row, "audio": row["audio"]["bytes"], "split": split_of(shard)}
            for shard in shards
            for row in read_rows(root, shard)
        }
        for record in map(plain, found.records(name)):
            assert record == plain(rows.pop(record["id"]))
            counts[name] += 1
        assert not rows, name
    return counts


# -- mlcroissant ------------------------------------------------------------------------------------------------------


def test_mlcroissant_finds_no_fault(audited: Path) -> None:
    """The date alone is missing: a build isn't published."""
    issues = opened(audited, mapping={"repo": audited}).metadata.ctx.issues
    assert not issues.errors
    assert "datePublished" in issues.report()
    assert issues.report().count("\n  -  ") == 1


def test_with_a_date_mlcroissant_warns_of_nothing(dataset: Path) -> None:
    """Address and day are what publication adds."""
    croissant.write(dataset, read_manifest(dataset), ADDRESS, "2026-01-31")
    assert opened(dataset).metadata.ctx.issues.report() == ""


def test_records_are_the_rows(audited: Path) -> None:
    """All columns of all rows of all configurations, audio byte by byte."""
    assert compare(audited, mapping={"repo": audited}) == {"all": 8, "loudness": 8, "controls": 1}


def test_records_are_read_beside_the_shards_without_a_mapping(audited: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is named relative to the file, wherever one stands."""
    monkeypatch.chdir(tmp_path)
    assert compare(audited) == {"all": 8, "loudness": 8, "controls": 1}


@pytest.mark.slow
def test_records_of_every_dimension_are_the_rows(smoke: Built) -> None:
    """Real speech, stereo and every column that is null somewhere."""
    counts = compare(smoke.out, mapping={"repo": smoke.out})
    infos = {
        info["config_name"]: sum(split["num_examples"] for split in info["splits"]) for info in front_matter(smoke.out)["dataset_info"]
    }
    assert counts == infos


def test_fields_of_responsible_ai_and_provenance_survive(audited: Path) -> None:
    """mlcroissant gives them back as they are, a single item without its list."""
    written = json.loads((audited / croissant.CROISSANT).read_text())
    back = opened(audited).metadata.to_json()
    keys = [key for key in written if key.startswith(("rai:", "prov:"))]
    assert len(keys) == 10
    for key in keys:
        assert key in back
    for key in ("rai:dataLimitations", "rai:dataCollection", "rai:dataSocialImpact", "rai:hasSyntheticData"):
        assert back[key] == written[key]


# -- what is written --------------------------------------------------------------------------------------------------


def test_every_column_is_told() -> None:
    """In the order of the columns."""
    assert list(COLUMNS) == list(features(16_000))
    assert all(column.about.endswith(".") for column in COLUMNS.values())


def test_units_are_those_of_the_columns_names() -> None:
    """A name in `_s` or `_jnd` says its unit, and no other has one."""
    told = {name: column.unit for name, column in COLUMNS.items()}
    assert {name: unit for name, unit in told.items() if unit} == {
        name: "s" if name.endswith("_s") else "J" for name in told if name.endswith(("_s", "_jnd"))
    }


def test_the_same_bytes_with_another_hash_seed(dataset: Path) -> None:
    """Written again by another process, from a folder elsewhere."""
    before = (dataset / croissant.CROISSANT).read_bytes()
    code = "import sys; from pathlib import Path; from builder import croissant, layout; root = Path(sys.argv[1]); "
    code += "croissant.write(root, layout.read_manifest(root))"
    (dataset / croissant.CROISSANT).unlink()
    environment = {**os.environ, "PYTHONHASHSEED": "4711", "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code, str(dataset)], env=environment, check=True)
    assert (dataset / croissant.CROISSANT).read_bytes() == before


def test_card_writes_it_with_address_and_day(dataset: Path) -> None:
    """Both are in it, and it's still a description of the dataset."""
    assert main(["card", "--dataset", str(dataset), "--url", ADDRESS, "--published", "2026-01-31"]) == 0
    written = json.loads((dataset / croissant.CROISSANT).read_text())
    assert (written["url"], written["datePublished"], written["distribution"][0]["contentUrl"]) == (ADDRESS, "2026-01-31", ADDRESS)
    assert "year = {2026}" in written["citeAs"]
    assert release.faults(dataset, read_manifest(dataset)) == []


@pytest.mark.parametrize(
    ("url", "published", "said"),
    [
        ("my-org/vocalgrad", None, "'my-org/vocalgrad' isn't the address of a page"),
        ("https://", None, "'https://' isn't the address"),
        ("https://[", None, r"'https://\[' isn't the address"),
        (None, "31.1.2026", "'31.1.2026' isn't a day, such as 2026-01-31"),
        (None, "2026-02-30", "'2026-02-30' isn't a day"),
    ],
)
def test_a_bad_address_or_day_is_refused(dataset: Path, url: str | None, published: str | None, said: str) -> None:
    """Before anything is written."""
    before = (dataset / croissant.CROISSANT).read_bytes()
    with pytest.raises(VocalgradError, match=said):
        croissant.write(dataset, read_manifest(dataset), url, published)
    assert (dataset / croissant.CROISSANT).read_bytes() == before


FACTS = responsible.Facts(
    n_clips=41,
    n_controls=5,
    n_real=23,
    n_sources=17,
    kinds=Counter({"speech": 23, "noise": 18}),
    speakers={"x-ann": "train", "x-bob": "test", "x-cyd": "test"},
    languages=Counter({"sv": 19, "not told": 4}),
    sexes=Counter({"women": 12, "men": 11}),
    voice_licences=frozenset({"MIT"}),
    attributions=Counter({("MIT", "Corpus X"): 23, ("CC0-1.0", "Synthesis"): 18}),
)


def test_prose_tells_the_numbers(audited: Path) -> None:
    """Of speakers, sexes, languages, sources and licences, none of them typed."""
    manifest = read_manifest(audited)
    manifest["sources"]["licences"]["MIT"] = {"text": "https://opensource.org/license/mit", "asks": "attribution"}
    manifest["sources"]["refused"] = {"clipped": 6}
    fields = responsible.fields(manifest, FACTS)
    assert "23 of the 41 clips are made from recordings of 3 speakers" in fields["rai:dataCollection"]
    assert "speech 23, noise 18" in fields["rai:dataCollection"]
    assert any(line.startswith("36 labelled clips come from 17 sources") for line in fields["rai:dataLimitations"])
    assert any("3 real speakers (test 2, train 1)" in line for line in fields["rai:dataLimitations"])
    biases = " ".join(fields["rai:dataBiases"])
    assert all(told in biases for told in ("women 12, men 11", "sv 19, not told 4", "clipped 6", "18 of 41 clips are synthetic (noise 18)"))
    assert "23 clips hold voices of 3 real people" in fields["rai:personalSensitiveInformation"][0]
    assert "(MIT)" in fields["rai:personalSensitiveInformation"][0]
    assert [(item["prov:label"], item["license"]) for item in fields["prov:wasDerivedFrom"]] == [
        ("Synthesis", manifest["sources"]["licences"]["CC0-1.0"]["text"]),
        ("Corpus X", "https://opensource.org/license/mit"),
    ]


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        ("other", ["https://creativecommons.org/publicdomain/zero/1.0/"]),
        ("CC-BY-4.0", ["https://creativecommons.org/licenses/by/4.0/"]),
        (
            "LicenseRef-Mine",
            [{"@type": "sc:CreativeWork", "name": "LicenseRef-Mine", "description": "terms as the recipe of the corpus states them"}],
        ),
    ],
)
def test_the_licence_is_the_recipes(dataset: Path, declared: str, told: list[Any]) -> None:
    """Where it leaves that to the rows, it's theirs."""
    manifest = read_manifest(dataset)
    manifest["recipe"]["licence"] = declared
    croissant.write(dataset, manifest)
    assert json.loads((dataset / croissant.CROISSANT).read_text())["license"] == told


def test_facts_are_counted_in_the_rows(audited: Path) -> None:
    """A build of noise alone has no voices, and says so."""
    manifest = read_manifest(audited)
    found = responsible.facts(audited, manifest)
    assert (found.n_clips, found.n_controls, found.n_real, dict(found.kinds), dict(found.speakers)) == (9, 1, 0, {"noise": 9}, {})
    rows = [row for item in manifest["shards"] for row in pq.read_table(audited / "data" / f"{item['shard']}.parquet").to_pylist()]
    assert found.n_sources == len({row["source_id"] for row in rows})
    assert responsible.fields(manifest, found)["rai:personalSensitiveInformation"] == [
        "None: all sounds are synthesised, and no voice is that of a person."
    ]


def test_the_build_is_told(audited: Path) -> None:
    """Recipe, seed, plan and every version of the manifest."""
    manifest = read_manifest(audited)
    activity = json.loads((audited / croissant.CROISSANT).read_text())["prov:wasGeneratedBy"]
    told = f"{activity['prov:label']} {activity['description']}"
    assert all(str(manifest[key]) in told for key in ("release", "recipe_sha256", "seed", "plan_digest"))
    assert {agent["prov:label"]: agent["version"] for agent in activity["prov:wasAssociatedWith"]} == manifest["versions"]


# -- faults that mlcroissant lets pass --------------------------------------------------------------------------------

Spoil = Callable[[dict[str, Any]], object]


def by_id(described: dict[str, Any], name: str) -> dict[str, Any]:
    """The object of that identifier."""
    return next(node for node in croissant_faults._nodes(described) if node.get("@id") == name and len(node) > 1)  # type: ignore[return-value]


def put(name: str, key: str, value: Any) -> Spoil:
    """Set a key of the object of that identifier; of the dataset itself, if the identifier is empty."""
    return lambda described: (by_id(described, name) if name else described).__setitem__(key, value)


def drop(name: str, key: str) -> Spoil:
    """Take a key away."""
    return lambda described: (by_id(described, name) if name else described).pop(key)


def without(where: str, key: str, name: str) -> Spoil:
    """Take the item of that name out of a list."""

    def spoil(described: dict[str, Any]) -> None:
        node = by_id(described, where) if where else described
        kept = [item for item in node[key] if item["@id"] != name]
        assert len(kept) < len(node[key])
        node[key] = kept

    return spoil


SHARD = "data/loudness/test-00000-of-00001.parquet"
FAULTS: list[tuple[Spoil, str]] = [
    *((drop("", key), f"{key} is missing or empty") for key in croissant_faults.REQUIRED if key not in ("recordSet", "distribution")),
    (put("", "rai:dataBiases", []), "rai:dataBiases is missing or empty"),
    (put("", "rai:dataBiases", ["  "]), "rai:dataBiases is missing or empty"),
    (put("", "description", " "), "description is missing or empty"),
    (lambda d: d["@context"].pop("rai"), "@context doesn't say that rai is http://mlcommons.org/croissant/RAI/"),
    (lambda d: d["@context"].pop("prov"), "@context doesn't say that prov is http://www.w3.org/ns/prov#"),
    (put("", "conformsTo", [croissant.CONFORMS_TO[0]]), "conformsTo lacks http://mlcommons.org/croissant/RAI/1.0"),
    (put("", "datePublished", "soon"), "datePublished 'soon' isn't a day"),
    (put("", "version", "0.1.0+seed.2"), "version 0.1.0+seed.2 isn't the manifest's 0.1.0+seed.1"),
    (put("", "url", "ni:///sha-256;AAAA"), "url ni:///sha-256;AAAA names no page"),
    (put("", "url", "/home/me/ds"), "url /home/me/ds names no page"),
    (put(SHARD, "sha256", "0" * 64), f"{SHARD}: the checksum isn't the manifest's"),
    (put("repo", "sha256", "0" * 64), "repo: the checksum isn't the manifest's"),
    (put(SHARD, "contentUrl", f"/mnt/ds/{SHARD}"), f"{SHARD}: contentUrl '/mnt/ds/{SHARD}' isn't its place"),
    (put("repo", "contentUrl", "/mnt/ds"), "repo: contentUrl '/mnt/ds' isn't its place"),
    (without("", "distribution", SHARD), f"{SHARD}: not described"),
    (lambda d: d["distribution"].append({**by_id(d, SHARD), "@id": "data/x.parquet", "name": "x"}), "data/x.parquet: not a file of this"),
    (lambda d: d["distribution"].append(copy.deepcopy(by_id(d, SHARD))), f"@id {SHARD} is there 2 times"),
    (put("files/all", "containedIn", {"@id": "nowhere"}), "nothing has the @id nowhere that is pointed to"),
    (put("files/all", "includes", ["data/loudness/train-*.parquet"]), "files/all: includes other shards than the configuration"),
    (without("", "recordSet", "controls"), "no record set for the configuration controls"),
    (lambda d: d["recordSet"].append({**by_id(d, "all"), "@id": "more", "name": "more"}), "record set more: no such configuration"),
    (lambda d: by_id(d, "splits")["data"].pop(), "splits are ['train', 'validation'], the manifest has ['test', 'train', 'validation']"),
    (put("all", "name", "a\nb"), "all: 'a\\nb' can't be a name"),
    (put("all", "name", "loudness"), "the dataset: the name loudness is there 2 times"),
    (put("all/effect", "description", ""), "all/effect: no description"),
    (without("all", "field", "all/effect"), "all: column effect isn't described"),
    (without("all", "field", "all/split"), "all: column split isn't described"),
    (put("all/effect", "name", "affect"), "all/affect: no such column"),
    (put("all/effect", "name", "affect"), "all: column effect isn't described"),
    (put("all/split", "source", {"transform": {"regex": ".*/(t)"}}), "all/split: it tells t of loudness/train-00000-of-00001"),
    (put("all/split", "source", {"transform": {"regex": "(none)"}}), "all/split: it tells None of loudness/train-00000-of-00001"),
    (put("all/split", "source", {"transform": {"regex": "("}}), "it isn't a description by `vocalgrad`"),
    (put("all/effect", "dataType", "sc:Text"), "all/effect: its type isn't the column's"),
    (drop("all/choices", "isArray"), "all/choices: its type isn't the column's"),
    (lambda d: by_id(d, "all/effect")["source"]["extract"].update(column="nothing"), "all/effect: it isn't read from the column effect"),
    (drop("all/audio", "encodingFormat"), "all/audio: encodingFormat isn't audio/flac"),
    (without("all/leak_jnd", "subField", "all/leak_jnd/pan"), "all/leak_jnd: part pan isn't described"),
    (put("all/leak_jnd/pan", "name", "pin"), "all/leak_jnd/pan: no such part of the column"),
    (put("", "recordSet", 3), "it isn't a description by `vocalgrad`"),
    (put("", "@context", "https://schema.org/"), "it isn't a description by `vocalgrad`"),
]


@pytest.mark.parametrize(("spoil", "said"), FAULTS, ids=[said[:60] for _, said in FAULTS])
def test_a_planted_fault_is_found(dataset: Path, spoil: Spoil, said: str) -> None:
    """Each is one line that says what, and what to do."""
    path = dataset / croissant.CROISSANT
    described = json.loads(path.read_text())
    spoil(described)
    path.write_text(json.dumps(described))
    faults = list(croissant_faults.faults(dataset, read_manifest(dataset)))
    assert any(fault.startswith(f"croissant.json: {said}") for fault in faults), faults
    assert all("\n" not in fault and fault.endswith(f": run `vocalgrad card --dataset {dataset}`") for fault in faults)


@pytest.mark.parametrize("content", ["", "[]", "{}", "null", '"x"', '{"@context": {}}'])
def test_a_file_that_is_no_description_is_found(dataset: Path, content: str) -> None:
    """Without a traceback."""
    (dataset / croissant.CROISSANT).write_text(content)
    faults = list(croissant_faults.faults(dataset, read_manifest(dataset)))
    assert faults
    assert all(fault.startswith("croissant.json: ") for fault in faults)


def test_a_built_dataset_has_no_fault(audited: Path) -> None:
    """As it comes out of a build."""
    assert list(croissant_faults.faults(audited, read_manifest(audited))) == []


def test_an_unreadable_card_is_not_told_twice(dataset: Path) -> None:
    """Its own check tells it."""
    (dataset / "README.md").write_text("---\n---\n")
    assert list(croissant_faults.faults(dataset, read_manifest(dataset))) == []


def test_validation_and_publication_look_at_it(dataset: Path) -> None:
    """A missing file is told by both, a changed one too, and so is a local path in its prose."""
    path = dataset / croissant.CROISSANT
    manifest = read_manifest(dataset)
    described = json.loads(path.read_text())
    path.write_text(json.dumps({**described, "version": "9.9.9", "description": "see /home/me/notes"}))
    again = f"run `vocalgrad card --dataset {dataset}`"
    said = f"croissant.json: version 9.9.9 isn't the manifest's 0.1.0+seed.1: {again}"
    assert said in release.faults(dataset, manifest)
    faults = validate.check(dataset, lambda sound, row: {})
    assert said in faults
    assert "croissant.json: holds a local path (/home/...)" in faults
    path.unlink()
    assert release.faults(dataset, manifest) == [f"croissant.json: missing: {again}"]
    assert any(fault.startswith("croissant.json: can't be read") for fault in validate.check(dataset, lambda sound, row: {}))
