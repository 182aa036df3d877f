"""One spelling of each name: whoever or whatever is named in several ways is one all the same.

Speakers, identifiers, licences and paths are compared as strings, and splits are drawn by them. Unicode has several spellings of one
name ("é" is one character or two), and tables add blanks, characters that can't be seen, and words for "no value". Everything that
names something goes through here where a corpus is read.
"""

from __future__ import annotations

import math
import unicodedata
from numbers import Real
from typing import Any

MISSING = frozenset({"nan", "NaN", "NaT", "<NA>", "None", "null", "NULL"})
"""What pandas, R, Python and databases write into text for a value that isn't there."""


def composed(text: str) -> str:
    """Unicode's composed form (NFC), in which paths are compared: macOS writes names decomposed, most tables don't."""
    return unicodedata.normalize("NFC", text)


def words(value: Any) -> str | None:
    """A value of a table as text: composed, with single blanks; None where there's none.

    Parameters
    ----------
    value
        Of any type. None and NaN are no value; a whole number that was stored as a float, as pandas does in a column with gaps, is
        written without its fraction.
    """
    return " ".join(composed(value if isinstance(value, str) else _written(value)).split()) or None


def _written(value: Any) -> str:
    if value is None or (isinstance(value, Real) and math.isnan(value)):
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    whole = isinstance(value, Real) and not isinstance(value, int) and float(value).is_integer()
    return str(int(value)) if whole else str(value)


def named(value: Any) -> str | None:
    """What a value names (a speaker, an identifier, a licence): `words` without what can't be seen.

    None where there's no value, or one of the words that stand for a missing one.
    """
    said = words(value)
    if said is not None and not said.isprintable():
        said = words("".join(ch for ch in said if unicodedata.category(ch) not in ("Cf", "Cc")))
    return None if said in MISSING else said


def alike(text: str) -> str:
    """What two names have in common that differ by case or width alone."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
