"""Tables in text files, read to the last row: what can't be read is told with its line, and nothing is lost without a word.

Two kinds are written: with quotes, in which a cell may hold the delimiter and line breaks (CSV), and without, in which a quote is a
character as any other (Common Voice's TSV). In both, every row has as many cells as the header.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from builder import places
from builder.errors import CorpusUnavailable
from builder.spelling import words
from builder.words import counted

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}


@dataclass(frozen=True)
class Row:
    """The cells of a row by column, and the line that it begins in; `fault` says why its cells can't be told, and is None if they can."""

    line: int
    cells: dict[str, str]
    fault: str | None = None


@dataclass(frozen=True)
class Table:
    """Rows of a table, and its faults as a whole: with one of them, the rows may not be all that there are."""

    rows: tuple[Row, ...] = ()
    faults: tuple[str, ...] = ()

    def told(self, path: Path) -> list[str]:
        """Every fault with the path and its line."""
        return [f"{path}:{fault}" for fault in self.faults] + [f"{path}:{row.line}: {row.fault}" for row in self.rows if row.fault]


def lines(path: Path) -> list[tuple[int, str]]:
    """Lines of a text file with their numbers, without blank ones; none if the file isn't there.

    Raises
    ------
    CorpusUnavailable
        The file can't be read or isn't UTF-8 text.
    """
    try:
        text = _text(path)
    except FileNotFoundError:
        return []
    return [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def read(path: Path, columns: Sequence[str], delimiter: str = ",", *, quoted: bool = True) -> Table:
    """A table with a header.

    Parameters
    ----------
    path
        Of the file, UTF-8 with or without a byte order mark; lines may end as on any system.
    columns
        Those that it must have; others are read too.
    delimiter
        What stands between cells.
    quoted
        Whether a cell may stand in double quotes.

    Raises
    ------
    FileNotFoundError
        The file isn't there.
    CorpusUnavailable
        It can't be read or isn't UTF-8 text.
    """
    text = _text(path)
    top, first = next(((line, row) for line, row in enumerate(text.split("\n"), 1) if row.strip()), (1, ""))
    if other := _other_delimiter(first, columns, delimiter):
        return Table(faults=(f"{top}: the cells are separated by {DELIMITERS[other]}; {DELIMITERS[delimiter]} are needed",))
    found = list(_rows(text, delimiter, quoted))
    faults = [f"{line}: {fault}" for line, fault in found if isinstance(fault, str)]
    header, *rest = [(line, cells) for line, cells in found if isinstance(cells, list)] or [(1, list[str]())]
    names = [words(cell) or "" for cell in header[1]]
    there = ", ".join(filter(None, names)) or "none"
    faults += [f"{top}: column {column} is missing; columns that are there: {there}" for column in columns if column not in names]
    faults += [f"{top}: column {column} is there twice" for column in sorted({name for name in names if name and names.count(name) > 1})]
    return Table(() if set(columns) - set(names) else tuple(_row(line, cells, names) for line, cells in rest), tuple(faults))


def _other_delimiter(header: str, columns: Sequence[str], delimiter: str) -> str | None:
    """The delimiter under which a header has the columns that it hasn't under the right one."""
    under = {mark: {cell.strip(' "') for cell in header.split(mark)} for mark in DELIMITERS}
    return next((mark for mark, cells in under.items() if set(columns) <= cells and not set(columns) <= under[delimiter]), None)


def _text(path: Path) -> str:
    """A file's text in which every line ends with a line feed.

    Returns that stand before a line feed belong to it; one inside a line is a blank; where there's no line feed at all, they end lines.
    """
    try:
        text = places.content(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise CorpusUnavailable(f"{path}:{line}: not UTF-8 text; save the table as UTF-8") from error
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CorpusUnavailable(f"{path}: can't be read: {error.strerror or type(error).__name__}") from error
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise CorpusUnavailable(f"{path}:{line}: holds a NUL character, so it isn't UTF-8 text or is damaged; save the table as UTF-8")
    return re.sub(r"\r+\n", "\n", text).replace("\r", " ") if "\n" in text else text.replace("\r", "\n")


def _rows(text: str, delimiter: str, quoted: bool) -> Iterator[tuple[int, list[str] | str]]:
    """Line and cells of each row that isn't empty; last, if reading ends before the text, where and why."""
    if not quoted:
        split = ((line, row.split(delimiter)) for line, row in enumerate(text.split("\n"), 1))
        yield from ((line, cells) for line, cells in split if any(cell.strip() for cell in cells))
        return
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    line, width = 1, 0
    try:
        for cells in reader:
            width = width or len(cells)
            if any(_holds_rows(cell, delimiter, width) for cell in cells):
                yield line, f"a quote that is opened here takes in rows up to line {reader.line_num}; close it, or double it inside a text"
                return
            if any(cell.strip() for cell in cells):
                yield line, cells
            line = reader.line_num + 1
    except csv.Error as error:
        yield line, f"the quotes of the row that begins here don't match ({error}); close them, or double those inside a text"


def _holds_rows(cell: str, delimiter: str, width: int) -> bool:
    """Whether a quoted cell has so many delimiters between its line breaks that it must have swallowed rows."""
    breaks = cell.count("\n")
    return breaks > 0 and cell.count(delimiter) >= max(1, width - 1) * breaks


def _row(line: int, cells: list[str], names: Sequence[str]) -> Row:
    """A row by column; columns without a name, such as spreadsheets add after the last, must be empty there."""
    fault = None if len(cells) == len(names) else f"the header has {counted(len(names), 'cell')}, this row {len(cells)}"
    last = max((at for at, name in enumerate(names) if name), default=0)
    if fault is None and any(cell.strip() for cell in cells[last + 1 :]):
        fault = "a cell after the last column that has a name"
    return Row(line, dict(zip(names, cells, strict=False)), fault)
