"""Seeds: a public one is a small number that stands in the manifest; a secret one is never written anywhere.

Whoever knows the seed of a dataset and has its corpus can build it. So the seed of a split that is held private comes out of an
environment variable, has 256 bits, and is known in manifests, tags and cards by a name that tells nothing of it.
"""

from __future__ import annotations

import hashlib
import os

from builder.keys import digest
from builder.words import counted

PUBLIC_BELOW = 2**63
SHORTEST_SECRET = 32
PREFIX = "env:"


class SecretSeed(int):
    """A seed that must not be written down: at least `PUBLIC_BELOW`, under 2**256."""

    def __repr__(self) -> str:
        return f"SecretSeed({name_of(self)})"


def parsed(text: str) -> int:
    """A seed as a command takes it: a whole number, or `env:NAME` for a secret in an environment variable.

    Raises
    ------
    ValueError
        It's neither, or the variable isn't set or too short to be a secret; the message is complete, and doesn't hold the secret.
    """
    if not text.startswith(PREFIX):
        seed = int(text) if text.isascii() and text.isdecimal() and len(text) <= len(str(PUBLIC_BELOW)) else PUBLIC_BELOW
        if seed >= PUBLIC_BELOW:
            told = f"a whole number from 0 to {PUBLIC_BELOW - 1}, nor {PREFIX}NAME for a secret in an environment variable"
            raise ValueError(f"{text!r} isn't {told}")
        return seed
    variable = text.removeprefix(PREFIX)
    secret = os.environ.get(variable, "").strip()
    if len(secret) < SHORTEST_SECRET:
        said = f"has {counted(len(secret), 'character')}" if secret else "isn't set"
        raise ValueError(f"the environment variable {variable} {said}; a secret needs {SHORTEST_SECRET} random ones (openssl rand -hex 32)")
    return SecretSeed((1 << 255) | int(hashlib.sha256(b"vocalgrad secret seed\n" + secret.encode()).hexdigest(), 16) >> 1)


def name_of(seed: int) -> int | str:
    """What may be written of a seed: itself if it's public, else a name from which it can't be found."""
    return seed if seed < PUBLIC_BELOW else "secret-" + digest(["name of a secret seed", int(seed)], 16)
