"""Commands that people are told to run: as a shell takes them, whatever is in a path, and with the place that they're about."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path


def command(*parts: str | Path) -> str:
    """A command of this program, called as it was called now."""
    called = sys.argv[0]
    return shlex.join([called if Path(called).name == "vocalgrad" else "vocalgrad", *map(str, parts)])


def python(code: str) -> str:
    """A line of Python, for the interpreter that runs this."""
    return shlex.join([sys.executable, "-c", code])


def literal(value: str | Path) -> str:
    """A text as Python reads it, in double quotes, which need no others around them in a shell."""
    return json.dumps(str(value))
