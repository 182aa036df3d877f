"""Which seeds build: a recipe is built and audited with one seed after another, each in a folder that is removed again.

python -m bench.seeds                                   # the smoke recipe with seeds 1 to 20
python -m bench.seeds --recipe recipes/default.yaml --first 1 --last 5
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from builder.words import counted

SMOKE = Path(__file__).parent.parent / "recipes" / "smoke.yaml"


def outcome(recipe: Path, seed: int) -> tuple[int, str]:
    """The build's exit status, and a line for people: clips and gates, or its last message."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "ds"
        command = [sys.executable, "-m", "builder", "build", "--recipe", str(recipe), "--seed", str(seed), "--out", str(out)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return done.returncode, " ".join((done.stderr or done.stdout).strip().splitlines()[-1:])
        n_clips = sum(shard["n_rows"] for shard in json.loads((out / "manifest.json").read_text())["shards"])
        gates = json.loads((out / "audit" / "audit.json").read_text())["gates"]
        return 0, f"{counted(n_clips, 'clip')}, {counted(len(gates), 'gate')} passed"


def main(argv: Sequence[str] | None = None) -> int:
    """Print a line for each seed; the exit status is 1 if one of them didn't build or pass."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", type=Path, default=SMOKE)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--last", type=int, default=20)
    arguments = parser.parse_args(argv)
    worst = 0
    for seed in range(arguments.first, arguments.last + 1):
        status, text = outcome(arguments.recipe, seed)
        worst = max(worst, min(status, 1))
        print(f"seed {seed}: {'built' if status == 0 else f'exit {status}'}: {text}", flush=True)
    return worst


if __name__ == "__main__":
    raise SystemExit(main())
