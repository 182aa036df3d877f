"""Digests and counter-based seeds: the same key gives the same number on any machine, in any process, in any order."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from typing import Any

canonical = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode
"""JSON of a value, the same whatever the order of keys: the form that is digested."""


def digest(value: Any, length: int = 16) -> str:
    """Hexadecimal BLAKE2b of a JSON-able value in canonical form; paths may hold bytes that aren't UTF-8."""
    return hashlib.blake2b(canonical(value).encode(errors="surrogatepass"), digest_size=length // 2).hexdigest()


def seed_of(*key: Any) -> int:
    """A 63-bit seed that depends on every part of the key and on nothing else."""
    return int(digest(list(key)), 16) >> 1


def rank_of(*key: Any) -> str:
    """A digest to sort by: a shuffle that depends on each item's key alone."""
    return digest(list(key), 16)


def spoken_key(text: str) -> str:
    """What is said, however it's written: letters, digits and the marks that tell words apart, nothing else.

    Compatibility forms and case are folded, decimal digits of any script are the same digits; blanks, punctuation and what
    can't be seen don't count. Signs of vowels and tones (Devanagari, Thai) count; accents that stand alone, and the points
    of Hebrew and Arabic, which most texts leave out, don't. A number in digits isn't the same as in words: that depends on
    the language.
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return "".join(_plain(ch) for ch in folded if ch.isalnum() or _is_vowel_or_tone(ch))


def _plain(ch: str) -> str:
    value = unicodedata.decimal(ch, None)
    return ch if value is None else str(value)


def _is_vowel_or_tone(ch: str) -> bool:
    """A combining mark that isn't an accent (class 200 and more), a Hebrew or Arabic point (classes 10 to 35) or a glyph's variant."""
    rank = unicodedata.combining(ch)
    is_mark = unicodedata.category(ch) in ("Mn", "Mc") and (rank < 10 or 35 < rank < 200)
    return is_mark and not unicodedata.name(ch, "").startswith("VARIATION SELECTOR")
