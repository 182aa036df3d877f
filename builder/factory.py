"""What made something: the code and the package versions that decide the bytes."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import sys
from functools import cache
from pathlib import Path

import builder

PACKAGES = (
    "datasets", "metasona", "numpy", "onnxruntime", "praat-parselmouth", "pyarrow", "pyloudnorm", "scipy", "soundfile", "soxr", "swift-f0",
)  # fmt: skip
"""Packages whose versions decide the bytes; the manifest records them."""


def versions() -> dict[str, str]:
    """Versions of this package, Python and the packages that decide the bytes."""
    import soundfile

    found = {name: importlib.metadata.version(name) for name in PACKAGES}
    python = ".".join(str(part) for part in sys.version_info[:2])
    return {"vocalgrad": builder.__version__, "python": python, **found, "libsndfile": soundfile.__libsndfile_version__}


@cache
def factory_digest() -> str:
    """Digest of the code and package versions: what other code made isn't reused."""
    found = hashlib.sha256(json.dumps(versions(), sort_keys=True).encode())
    root = Path(builder.__file__).parent
    for path in sorted(root.rglob("*.py"), key=lambda path: path.relative_to(root).as_posix()):
        found.update(path.relative_to(root).as_posix().encode())
        found.update(path.read_bytes())
    return found.hexdigest()
