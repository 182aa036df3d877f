"""Whether a sound file is whole, by what its container itself says.

Decoders give what is there of a file that was cut short, as if it were all. Each check here takes the open file and its size, reads
headers alone (of Ogg and MP3, every page and frame), and returns what is missing, for people, or None where the file is whole. A length
that the writer didn't know (0 or all ones, as streams have it) is taken as right.

References
----------
RFC 3533. The Ogg encapsulation format version 0 (pages, their order, checksum and end of stream).
EBU Tech 3306. RF64: an extended file format for audio (the chunk ds64).
ISO/IEC 11172-3 and 13818-3. MPEG audio (headers and lengths of frames).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import BinaryIO, Literal

from builder.acoustics import mpeg
from builder.words import counted

Check = Callable[[BinaryIO, int], str | None]


def missing(kind: str, stream: BinaryIO, size: int) -> str | None:
    """What a file lacks of what its container says that it holds; None where it's whole.

    Parameters
    ----------
    kind
        The container, as libsndfile names it: WAV, OGG, ...
    stream
        The file, open at its beginning.
    size
        Of the file, bytes.

    Returns
    -------
    str or None
        For people; also where the container says too little to tell.
    """
    check = CHECKS.get(kind)
    if check is None:
        return f"a file of the kind {kind} can't be checked for being whole; convert it to WAV or FLAC"
    return check(stream, size)


def _bytes_missing(end: int, size: int) -> str | None:
    return f"cut short: {counted(end - size, 'byte')} less than its header says" if end > size else None


# -- chunks -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Chunks:
    """How chunks lie in a file: a name, a size and so many bytes, one after the other.

    Parameters
    ----------
    first
        Where the first begins.
    name, size
        Bytes of a chunk's name and size.
    order
        Of the bytes of a size.
    padded
        To a multiple of this.
    with_header
        Whether a size counts name and size too.
    """

    first: int
    name: int
    size: int
    order: Literal["little", "big"]
    padded: int = 1
    with_header: bool = False

    def read(self, stream: BinaryIO) -> Iterator[tuple[bytes, int, int]]:
        """Name of each chunk, and where what it holds begins and how long that is; the stream stands at its beginning."""
        at, header = self.first, self.name + self.size
        stream.seek(at)
        while len(found := stream.read(header)) == header:
            length = int.from_bytes(found[self.name :], self.order) - (header if self.with_header else 0)
            if length < 0:
                return
            yield found[: self.name], at + header, length
            at += header + length
            at += -at % self.padded
            stream.seek(at)


RIFF = _Chunks(12, 4, 4, "little", padded=2)
IFF = replace(RIFF, order="big")
CAF = _Chunks(8, 4, 8, "big")
W64 = _Chunks(40, 16, 8, "little", padded=8, with_header=True)


def _sound_chunk(stream: BinaryIO, size: int, chunks: _Chunks, sound: bytes) -> str | None:
    """Whether the chunk that holds the sound is whole."""
    for name, start, length in chunks.read(stream):
        if name[:4] == sound:
            unknown = length in (0, 2 ** (8 * chunks.size) - 1)
            return None if unknown else _bytes_missing(start + length, size)
    return f"cut short: it has no chunk {sound.decode().strip()}"


def _wav(stream: BinaryIO, size: int) -> str | None:
    return _sound_chunk(stream, size, IFF if stream.read(4) == b"RIFX" else RIFF, b"data")


def _rf64(stream: BinaryIO, size: int) -> str | None:
    """Sizes over 32 bits stand in the chunk ds64: of the whole, then of the sound."""
    size_of_sound = 0
    for name, start, length in RIFF.read(stream):
        if name == b"ds64":
            size_of_sound = int.from_bytes(stream.read(16)[8:], "little")
        if name == b"data":
            return _bytes_missing(start + (size_of_sound if length == 0xFFFFFFFF else length), size)
    return "cut short: it has no chunk data"


def _caf(stream: BinaryIO, size: int) -> str | None:
    """All chunks must be there: packets of ALAC are told after the sound. A size of -1 says: up to the end."""
    names = []
    for name, start, length in CAF.read(stream):
        names.append(name)
        if length != 2**64 - 1 and start + length > size:
            return _bytes_missing(start + length, size)
    return None if b"data" in names else "cut short: it has no chunk data"


def _aiff(stream: BinaryIO, size: int) -> str | None:
    return _sound_chunk(stream, size, IFF, b"SSND")


def _w64(stream: BinaryIO, size: int) -> str | None:
    return _sound_chunk(stream, size, W64, b"data")


# -- headers with a length --------------------------------------------------------------------------------------------


def _au(stream: BinaryIO, size: int) -> str | None:
    order: Literal["little", "big"] = "little" if stream.read(4) == b"dns." else "big"
    start, length = (int.from_bytes(stream.read(4), order) for _ in range(2))
    return None if length == 0xFFFFFFFF else _bytes_missing(start + length, size)


def _nist(stream: BinaryIO, size: int) -> str | None:
    """Lines such as `sample_count -i 32000` after two of a fixed width, the second of which is the header's length."""
    start = int(stream.read(16)[8:])
    told = dict(re.findall(rb"^(\w+) -i (\d+)\s*$", stream.read(start - 16), re.MULTILINE))
    counts = [int(told.get(name, one)) for name, one in ((b"sample_count", 0), (b"channel_count", 1), (b"sample_n_bytes", 1))]
    return _bytes_missing(start + counts[0] * counts[1] * counts[2], size)


def _voc(stream: BinaryIO, size: int) -> str | None:
    """Blocks of a kind and a size of three bytes, up to one of kind 0, which has no size."""
    at = int.from_bytes(stream.read(22)[20:], "little")
    while at < size:
        stream.seek(at)
        header = stream.read(4)
        if header[0] == 0:
            return None
        at += 4 + int.from_bytes(header[1:], "little")
    return "cut short: its last block is missing"


# -- Ogg --------------------------------------------------------------------------------------------------------------

FIRST, LAST = 2, 4
"""Flags of a stream's first and last page."""
REVERSED = bytes(int(f"{value:08b}"[::-1], 2) for value in range(256))


def _ogg(stream: BinaryIO, size: int) -> str | None:
    """Every stream must run from its first page to one that is marked as its last, no page left out and none damaged."""
    expected: dict[bytes, int] = {}
    ended: set[bytes] = set()
    at = 0
    while len(header := stream.read(27)) == 27 and header[:4] == b"OggS":
        lengths = stream.read(header[26])
        body = stream.read(sum(lengths))
        at += 27 + header[26] + sum(lengths)
        if at > size:
            return _bytes_missing(at, size)
        flags, serial, number = header[5], header[14:18], int.from_bytes(header[18:22], "little")
        if flags & FIRST and ended:
            return "several streams, one after the other, of which only the first could be read; split them into files"
        if number != expected.get(serial, number):
            return f"damaged: page {expected[serial]} is missing"
        if _ogg_checksum(header[:22] + bytes(4) + header[26:] + lengths + body) != int.from_bytes(header[22:26], "little"):
            return f"damaged: the checksum of page {number} is wrong"
        expected[serial] = number + 1
        if flags & LAST:
            ended.add(serial)
    return None if ended == expected.keys() and not (header and b"OggS".startswith(header[:4])) else "cut short: it has no last page"


def _ogg_checksum(page: bytes) -> int:
    """CRC with the polynomial 0x04c11db7, begun at 0: zlib's with the bits of all bytes, and of the sum, in reverse order."""
    mirrored = zlib.crc32(page.translate(REVERSED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int.from_bytes(mirrored.to_bytes(4, "little").translate(REVERSED), "big")


CHECKS: Mapping[str, Check] = {
    "AIFF": _aiff,
    "AU": _au,
    "CAF": _caf,
    "FLAC": lambda *_: None,  # its header counts samples and its frames have checksums: the decoder tells
    "MP3": lambda stream, _: mpeg.missing(stream.read()),
    "NIST": _nist,
    "OGG": _ogg,
    "RF64": _rf64,
    "VOC": _voc,
    "W64": _w64,
    "WAV": _wav,
    "WAVEX": _wav,
}
"""Container, as libsndfile names it -> what tells whether it's whole."""

MP3_STARTS = (b"ID3", b"\xff\xfb", b"\xff\xfa", b"\xff\xf3", b"\xff\xf2", b"\xff\xe3", b"\xff\xe2")
"""A tag, or a frame of layer III of MPEG 1, 2 or 2.5, with a checksum or without."""
SIGNATURES = (
    *(b"RIFF", b"RIFX", b"RF64", b"FORM", b".snd", b"dns.", b"caff", b"riff", b"NIST_1A", b"Creative Voice File", b"OggS", b"fLaC"),
    *MP3_STARTS,
)
"""What files of these kinds begin with: one that can't even be opened isn't whole."""
