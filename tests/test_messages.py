"""What people read: counts agree with their nouns, faults of recipes are told in our own words, and docs/recipes.md has every key."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from builder import recipe, strict_yaml, words
from builder.corpus_recipe import CorpusFile
from builder.recipe import DimensionRecipe, Release

ROOT = Path(__file__).parent.parent
RECIPES = ROOT / "recipes"

# -- counts -----------------------------------------------------------------------------------------------------------

NOUNS = (
    "clip|pair|shard|file|worker|row|speaker|source|recording|cut|fault|gate|point|sample|frame|control|cell|candidate|failure|byte|"
    "character|thread|channel|difference|time|text|split|line|version|period|run"
)
COUNTED = re.compile(rf"^ (?:[a-z]+ )?(?:{NOUNS})s\b(?!/)")


def test_counts_agree_with_their_nouns() -> None:
    """One, none and many; a plural or a verb that isn't regular is given."""
    assert [words.counted(n, "clip") for n in (0, 1, 2)] == ["0 clips", "1 clip", "2 clips"]
    assert words.counted(1, "shard is", "shards are") == "1 shard is"
    assert words.counted(3, "shard is", "shards are") == "3 shards are"


def test_a_spectrum_that_reaches_nowhere_has_no_figure() -> None:
    """0 Hz is no edge."""
    assert words.reaching(3480.6) == "reaches up to 3481 Hz"
    assert words.reaching(0.0) == words.reaching(1000.0 * 2.0 ** float("-inf")) == "reaches nowhere that can be measured"


def test_no_message_counts_by_itself() -> None:
    """No f-string puts a plural behind a number that may be 1; constants and rates (with a format) aren't counts."""
    wrong = []
    for path in (*(ROOT / "builder").rglob("*.py"), *(ROOT / "bench").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            parts = node.values if isinstance(node, ast.JoinedStr) else []
            for value, text in pairwise(parts):
                counts = isinstance(value, ast.FormattedValue) and value.format_spec is None and not ast.unparse(value.value).isupper()
                if counts and isinstance(text, ast.Constant) and COUNTED.match(text.value):
                    wrong.append(f"{path.name}:{value.lineno}: {ast.unparse(value.value)}{text.value}")
    assert wrong == []


def test_the_nearest_known_name_is_suggested() -> None:
    """Nothing is suggested where nothing is near."""
    assert words.nearest("ptich", ["loudness", "pitch"]) == " (did you mean 'pitch'?)"
    assert words.nearest("zzz", ["loudness", "pitch"]) == ""
    assert words.unknown("split", "tset", ["train", "test"]) == "unknown split 'tset' (did you mean 'test'?); known: train, test"


# -- faults of recipes ------------------------------------------------------------------------------------------------

WRONG = ["x", "", -1, 0, 0.5, 10**30, -1e300, True, None, [], [1], ["x", "x"], [[1.0]], [[1.0, 2.0, 3.0]], {}, {"x": 1}, {"": ""}, [{}]]
LIBRARYS = re.compile("Input|should|valid |String|Value error|Extra|Field|permitted|pydantic|type=|ctx|Tuple|Dictionary", re.I)
ENTRY = {
    "package": "p", "file": "f.whl", "sha256": "0" * 64, "debian": "d-d", "version": "1", "folder": "f", "archive": "a.zip",
    "dataset": "o/n",
    "revision": "0" * 40, "config": "c", "split": "s", "inside": "i", "table": "t.csv", "only": {"column": "x"}, "licence": "CC0-1.0",
    "attribution": "a", "language": "en", "speaker_prefix": "p-", "trust": ["sex"], "limit": 1, "max_per_speaker": 1,
    "layout": {"kind": "vctk", "mic": "mic1"}, "columns": {"audio": "a", "id": ["i"], "speaker": "s", "text": "t", "sex": "x",
                "language": "l"},
    "recordings": [
        {
            "member": "m.raw", "speaker": "s", "sex": "f", "language": "en", "text": "t", "licence": "CC0-1.0", "attribution": "a",
            "segments_s": [[0.0, 1.0]], "raw": {"sample_rate_hz": 16000, "channels": 1, "subtype": "PCM_16"},
        }
    ],
}  # fmt: skip
CORPUS = {
    "name": "mine", "files": [ENTRY], "attributions": {"a": "A"},
    "licences": {"LicenseRef-x": {"terms": "t", "derivatives": True, "commercial": True, "attribution": True, "share_alike": False}},
}  # fmt: skip


def whole_recipe() -> dict[str, Any]:
    """Every key that a recipe of one dimension can have."""
    values = recipe.load(RECIPES / "pitch.yaml").model_dump(mode="json")
    (part,) = values.pop("dimensions")
    rules = [{**rule, "tiers": ["hard"], "pairs_per_cell": {"train": 3}} for rule in part["sources"]]
    return {**values, **part, "sources": rules, "clips": {"train": 24}, "kinds": ["speech", "voice"]}


def within(values: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of all values, containers too."""
    for key in values if isinstance(values, dict) else range(len(values)) if isinstance(values, list) else ():
        yield (*at, key)
        yield from within(values[key], (*at, key))


def planted(values: Any, at: tuple[Any, ...], value: Any) -> Any:
    """A deep copy with another value at a path."""
    made = copy.deepcopy(values)
    inside = made
    for key in at[:-1]:
        inside = inside[key]
    inside[at[-1]] = value
    return made


@pytest.mark.parametrize("model", [Release, DimensionRecipe, CorpusFile])
def test_no_fault_is_told_in_the_librarys_words(model: type[strict_yaml.Strict]) -> None:
    """Whatever stands at whatever key, each line is ours, names the key, and is the only one of its key."""
    values = CORPUS if model is CorpusFile else {key: value for key, value in whole_recipe().items() if key in model.model_fields}
    file = strict_yaml.YamlFile(RECIPES / "base.yaml")
    assert strict_yaml.checked(model, values, [file], []) is not None
    told = set()
    for at in within(values):
        for wrong in WRONG:
            lines: list[str] = []
            strict_yaml.checked(model, planted(values, at, wrong), [file], lines)
            keys = [line.split(": ")[1] for line in lines]
            assert len(set(keys)) == len(keys), lines
            assert all(key.split(".")[0] in model.model_fields for key in keys if at[0] in model.model_fields), lines
            told |= {line.split(": ", 2)[-1] for line in lines}
    assert len(told) > 50
    assert [line for line in told if LIBRARYS.search(line)] == []


# -- docs/recipes.md --------------------------------------------------------------------------------------------------

BASE = yaml.safe_load((RECIPES / "base.yaml").read_text(encoding="utf-8"))


BOUNDS = {"minimum": "{} or more", "exclusiveMinimum": "more than {}", "maximum": "{} or less", "exclusiveMaximum": "less than {}"}


def limits_of(schema: dict[str, Any]) -> str:
    """The limits of a key's values as docs/recipes.md writes them."""
    bounds = [said.format(strict_yaml.plain(schema[bound])) for bound, said in BOUNDS.items() if bound in schema]
    return ", ".join([*bounds, *schema.get("enum", [])]) or "-"


def keys_of(model: type[strict_yaml.Strict]) -> dict[str, tuple[str, str]]:
    """Every key of a recipe that a model takes, dotted: its default and its limits."""
    whole = model.model_json_schema()

    def walk(schema: dict[str, Any], at: tuple[str, ...], default: Any) -> Iterator[tuple[str, tuple[str, str]]]:
        schema = whole["$defs"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
        schema = next((some for some in schema.get("anyOf", []) if some.get("type") not in ("null", "string")), schema)
        inside = schema["items"] if schema.get("type") == "array" else schema
        if "properties" in inside or "$ref" in inside:
            fields = whole["$defs"][inside["$ref"].rpartition("/")[2]] if "$ref" in inside else inside
            for name, of in fields["properties"].items():
                said = default.get(name, of.get("default", "-")) if isinstance(default, dict) else of.get("default", "-")
                yield from walk(of, (*at, name), said)
        elif isinstance(schema.get("additionalProperties"), dict):
            name = "TIER" if at[-1] == "tiers" else "SPLIT"
            values = schema["additionalProperties"]
            mine = default if isinstance(default, dict) else {}
            if "$ref" in values:
                fields = whole["$defs"][values["$ref"].rpartition("/")[2]]["properties"]
                for field, of in fields.items():
                    yield from walk(of, (*at, name, field), {key: each.get(field) for key, each in mine.items()})
            else:
                yield ".".join((*at, name)), (written(mine or "-"), limits_of(values))
        else:
            yield ".".join(at), (written(default), limits_of(inside if "enum" in inside else schema))

    return dict(walk(whole, (), BASE))


def written(value: Any) -> str:
    """A default as docs/recipes.md writes it."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {written(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(written, value))
    return "null" if value is None else strict_yaml.plain(value) if isinstance(value, int | float) else str(value)


def test_docs_list_every_key_of_a_recipe_with_its_default_and_limits() -> None:
    """docs/recipes.md has the keys of the models and the two of the loader, each once, as the models and recipes/base.yaml have them."""
    rows = re.findall(r"^\| `([\w.]+)` \| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", (ROOT / "docs" / "recipes.md").read_text(), re.M)
    documented = {key: (default, limits) for key, _, default, limits, _ in rows}
    assert len(documented) == len(rows)
    wanted = {**keys_of(Release), **keys_of(DimensionRecipe)}
    assert {key: documented.get(key) for key in wanted} == wanted
    assert set(documented) - set(wanted) == {"include", "dimensions"} == set(recipe.KNOWN_KEYS) - {key.split(".")[0] for key in wanted}
