"""Writes the example of the README: docs/example.json (a published row without its audio) and docs/example.png.

python docs/make_example.py ID
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from builder import dataset

HERE = Path(__file__).parent

if __name__ == "__main__":
    values = dataset.row(Path("vocalgrad"), sys.argv[1])
    del values["audio"]
    text = json.dumps(values, ensure_ascii=False, indent=1)
    (HERE / "example.json").write_text(text + "\n", encoding="utf-8")
    subprocess.run([sys.executable, "-m", "builder", "show", values["id"], "--to", str(HERE / "example.png")], check=True)
