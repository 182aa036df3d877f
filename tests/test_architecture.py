"""The house: who may import whom, and that every list of the stages is the same list."""

from __future__ import annotations

import ast
import json
import re
import subprocess
from pathlib import Path

import pytest

from builder import __doc__ as package_doc
from builder import pipeline
from builder.__main__ import _parser
from builder.dimensions import DIMENSIONS

ROOT = Path(__file__).parent.parent
BUILDER = ROOT / "builder"
STAGES = {"sources", "plan", "render", "measure", "label", "shard", "card", "validate", "audit", "publish"}
FOUNDATIONS = {
    "records", "errors", "keys", "seeds", "dimensions", "acoustics", "recipe", "carrying", "splits", "strict_yaml", "corpora", "cuts",
    "columns", "commands", "copying", "corpus_recipe", "croissant", "croissant_faults", "dask_engine",
    "dask_team", "dask_worker", "responsible", "debian", "engines", "evidence", "factory", "fetch", "folder", "layouts", "licences",
    "duplicates", "kept", "recordings", "stamps",
    "streamed", "surveys", "synthesis", "layout", "alike", "cues", "examined", "fingerprints", "hypotheses", "leakage",
    "middles", "patience", "places", "printout", "progress", "sample",
    "readiness", "release", "shortcuts", "sight", "silence", "truth", "words", "workers", "glance", "spelling", "tables",
}  # fmt: skip
COMPOSERS = {
    "charts", "checks", "commitments", "dataset", "difference", "export", "fill", "frontpage", "imposed", "pipeline", "remote",
    "report", "resume",
    "rows", "show", "__main__", "__init__",
}  # fmt: skip


def imported(path: Path) -> set[str]:
    """Modules of this package that a file imports, as `acoustics.meters` or `plan`."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "builder":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("builder."):
            module = node.module.removeprefix("builder.")
            nested = module in ("acoustics", "dimensions")
            found |= {f"{module}.{alias.name}" for alias in node.names} if nested else {module}
    return found


def test_every_module_has_a_place() -> None:
    """Each top-level module is a stage, a foundation or a composer."""
    names = {path.stem for path in BUILDER.glob("*.py")} | {path.name for path in BUILDER.iterdir() if (path / "__init__.py").is_file()}
    assert names == STAGES | FOUNDATIONS | COMPOSERS


@pytest.mark.parametrize("stage", sorted(STAGES))
def test_stages_never_import_each_other_or_upwards(stage: str) -> None:
    """A stage imports foundations only."""
    tops = {name.split(".")[0] for name in imported(BUILDER / f"{stage}.py")}
    assert tops <= FOUNDATIONS, tops - FOUNDATIONS


def test_dimensions_never_import_each_other() -> None:
    """A dimension imports acoustics, records, errors, words and the contract: nothing of stages, recipes or other dimensions."""
    for path in (BUILDER / "dimensions").glob("*.py"):
        if path.stem != "__init__":
            allowed = {"records", "errors", "words", "dimensions._contract"}
            wrong = {name for name in imported(path) if not name.startswith("acoustics") and name not in allowed}
            assert not {name for name in wrong if not name.startswith("dimensions._contract")}, (path, wrong)


def test_acoustics_know_nothing_of_the_rest() -> None:
    """Acoustics import acoustics, records, errors and words only."""
    for path in (BUILDER / "acoustics").glob("*.py"):
        wrong = {name for name in imported(path) if not name.startswith("acoustics") and name not in ("records", "errors", "words")}
        assert not wrong, (path, wrong)


def test_one_file_imports_parselmouth() -> None:
    """Praat has one adapter."""
    users = [path for path in BUILDER.rglob("*.py") if re.search(r"^\s*(import|from) parselmouth", path.read_text(), re.M)]
    assert users == [BUILDER / "acoustics" / "praat.py"]


def test_one_file_talks_to_the_hub() -> None:
    """Publishing has one client."""
    users = [path for path in BUILDER.rglob("*.py") if re.search(r"HfApi|snapshot_download|hf_hub_download", path.read_text())]
    assert users == [BUILDER / "publish.py"]


def test_three_files_know_dask() -> None:
    """Two in the parent, one in a worker; and they import it only when it's asked for."""
    users = {
        path.name: re.findall(r"^( *)(?:import|from) (?:dask|distributed)\b", path.read_text(), re.M) for path in BUILDER.rglob("*.py")
    }
    assert {name for name, indents in users.items() if indents} == {"dask_engine.py", "dask_team.py", "dask_worker.py"}
    assert all(indents for found in users.values() for indents in found)


def test_measures_cannot_see_the_plan() -> None:
    """Nothing that measures imports or names a plan, a source or a render."""
    text = (BUILDER / "measure.py").read_text(encoding="utf-8")
    assert imported(BUILDER / "measure.py") <= {"dimensions.BY_NAME", "dimensions.MEASURES", "dimensions.Dimension", "records"}
    assert "Planned" not in text
    assert "PairPlan" not in text


def test_lists_of_stages_agree() -> None:
    """Package doc, CLI, README and pipeline name the stages in one order."""
    stages = list(pipeline.STAGES)
    assert re.findall(r"^    (\w+)  ", package_doc or "", re.M) == stages
    choices = list(_parser()._subparsers._group_actions[0].choices)  # type: ignore[union-attr, call-overload, arg-type]
    assert [name for name in choices if name in stages] == stages
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = [name for name in re.findall(r"^\| `(\w+)` \|", readme, re.M) if name in stages]
    assert table == stages


def test_every_dimension_is_one_file_one_line_one_recipe() -> None:
    """Each dimension has its file and recipe of the same name, and is listed once."""
    names = [dimension.name for dimension in DIMENSIONS]
    assert len(set(names)) == len(names)
    files = {path.stem for path in (BUILDER / "dimensions").glob("*.py")} - {"__init__", "_contract"}
    assert files == set(names)
    assert all((ROOT / "recipes" / f"{name}.yaml").is_file() for name in names)


def test_readme_tables_every_dimension_that_has_goldens() -> None:
    """Its unit and what it holds, as the dimension says; a new dimension gets its row when its goldens are made."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    inspected = {name.split()[0] for name in json.loads((ROOT / "tests" / "goldens.json").read_text(encoding="utf-8"))}
    for dimension in (item for item in DIMENSIONS if item.name in inspected):
        (row,) = (line for line in readme if line.startswith(f"| {dimension.name} | "))
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert (cells[1], cells[-1]) == (dimension.unit, ", ".join(dimension.holds))
        assert cells[2].split(" / ")[0] == f"{dimension.jnd.steady:.3g}"


def test_no_address_of_an_index_is_committed() -> None:
    """No file that git tracks names a package index or its mirror."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    index = re.compile("py" + r"pi\.org|files\.python" + "hosted")
    assert len(listed) > 30
    for name in listed:
        path = ROOT / name
        if path.suffix in (".py", ".yaml", ".toml", ".md", ".txt", "") and path.is_file() and path.name != "LICENSE":
            assert not index.search(path.read_text(encoding="utf-8", errors="replace")), name
