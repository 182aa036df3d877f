"""Everything that this package raises on purpose.

::

    VocalgradError              anything below; `__main__` prints it without a traceback
    ├── RecipeError             a recipe or corpus file is wrong: every fault at once
    ├── CorpusUnavailable       a corpus file can't be fetched or fails its checksum
    ├── LicencesForbid          the sources' licences don't allow the dataset that the recipe asks for
    ├── CellUnfilled            a cell ran out of candidates before it was full
    ├── WorkerDied              worker processes ended without an answer (out of memory, killed)
    ├── ClusterUnusable         a dask cluster can't be reached, has no workers, or has some that can't make the same bytes
    ├── DiskFull                there's no space left to write a file
    ├── StoreFault              an object store can't be reached, or doesn't do what is asked
    ├── DatasetInvalid          the bytes of a built dataset aren't what its manifest says
    ├── NotPublished            a dataset can't be published or fetched, or the Hub refused
    └── NotFound                no such clip, dataset or file
    Refused                     a source or sweep that can't be used: data, counted, never fatal

`Refused` isn't a `VocalgradError`: it carries a `records.Reason` and is always turned into a count.
"""

from __future__ import annotations

from pathlib import Path

from builder.records import Reason
from builder.words import counted


class VocalgradError(Exception):
    """An error whose message is complete for the user: what, where, the limit, what to do."""


class RecipeError(VocalgradError):
    """A recipe or corpus file is wrong. The message lists every fault with its file and key."""

    def __init__(self, faults: list[str]) -> None:
        self.faults = faults
        super().__init__(f"{counted(len(faults), 'fault')} in the recipe:\n" + "\n".join(f"  {fault}" for fault in faults))


class CorpusUnavailable(VocalgradError):
    """A corpus file can't be fetched, or what was fetched isn't the file that was asked for."""


class LicencesForbid(VocalgradError):
    """The licences of the sources don't allow what the recipe asks for. The message lists every one with its clause."""

    def __init__(self, refusals: list[str]) -> None:
        self.refusals = refusals
        super().__init__(
            "the licences of the sources don't allow this dataset; nothing was rendered:\n"
            + "\n".join(f"  {line}" for line in refusals)
            + "\ntake such recordings out of the corpus, or build them as a dataset of their own"
        )


class CellUnfilled(VocalgradError):
    """A cell has no more candidates; the message names the cell and what was refused and why."""


class WorkerDied(VocalgradError):
    """Worker processes ended without an answer, twice over the same task; what others have finished is kept."""


class ClusterUnusable(VocalgradError):
    """A dask cluster can't be reached, has no workers, or has workers that differ from their parent in what decides the bytes."""


class DiskFull(VocalgradError):
    """There's no space left (or no quota) for a file; nothing half-written is left behind."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(
            f"no space left on the disk to write {path}: nothing half-written is left, and what was finished is kept; "
            "free some space and run the same command again"
        )

    def __reduce__(self) -> tuple[type[DiskFull], tuple[Path]]:
        return type(self), (self.path,)


class StoreFault(VocalgradError):
    """A place in an object store can't be read or written; what was finished is kept."""


class DatasetInvalid(VocalgradError):
    """A built dataset contradicts its manifest or itself."""


class NotPublished(VocalgradError):
    """A dataset can't go to the Hub or come from it; nothing that users see has changed, unless the message says so."""


class HubNotAsked(NotPublished):
    """The Hub can't be asked: there is no token, or no answer."""


class NotFound(VocalgradError):
    """A clip, dataset or file that was named doesn't exist."""


class Refused(Exception):
    """A source or a sweep that can't be used.

    Parameters
    ----------
    reason
        The counted reason.
    detail
        What was found and the limit, for people.
    """

    def __init__(self, reason: Reason, detail: str = "") -> None:
        self.reason = reason
        self.detail = detail
        super().__init__(f"{reason.value}: {detail}" if detail else reason.value)
