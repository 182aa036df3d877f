"""What a file is known by as long as nobody changes it: the key of all that's kept of files, on this machine.

Size and time of change don't tell: `cp -p`, an unpacked archive or a copy with its times give another file the same ones. The time of
the inode's own change can't be set by any program, and a file that's put in the place of another has another inode. Both are only as
fine as the file system's clock, so what was changed just now isn't known yet: it's read each time.
"""

from __future__ import annotations

import stat
import time
from pathlib import Path

SETTLED_S = 2.0
"""Age of the last change under which another one may have the same time: the coarsest clock of a file system in use."""

Stamp = tuple[int, int, int, int]


def stamp(path: Path) -> Stamp | None:
    """Inode, size, and times of change of the content and of the inode, in ns; None if there's no such file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns) if stat.S_ISREG(found.st_mode) else None


def is_settled(known: Stamp) -> bool:
    """Whether a file that changes from now on will have another stamp."""
    return time.time_ns() - known[-1] > SETTLED_S * 1e9
