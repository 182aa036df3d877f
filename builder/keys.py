"""Digests and counter-based seeds: the same key gives the same number on any machine, in any process, in any order."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from typing import Any


def digest(value: Any, length: int = 16) -> str:
    """Hexadecimal BLAKE2b of a JSON-able value in canonical form."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=length // 2).hexdigest()


def seed_of(*key: Any) -> int:
    """A 63-bit seed that depends on every part of the key and on nothing else."""
    return int(digest(list(key)), 16) >> 1


def rank_of(*key: Any) -> str:
    """A digest to sort by: a shuffle that depends on each item's key alone."""
    return digest(list(key), 16)


def spoken_key(text: str) -> str:
    """Letters and digits only, case and compatibility forms folded: the same words are the same however they're written."""
    return "".join(ch for ch in unicodedata.normalize("NFKC", text).casefold() if ch.isalnum())
