"""MP3 as a row of frames: how many there are, how many its header claims, and a header for a stream that has none.

A stream says nowhere how long it is, unless its first frame is a header of Xing's or Fraunhofer's kind; decoders guess from the file's
size and the first frame's bit rate, which is wrong by any factor where the bit rate varies. Here frames are counted.

References
----------
ISO/IEC 11172-3:1993 and 13818-3:1998, clause 2.4.2.3 (header; bit rates of layer III; MPEG 2.5 halves the rates once more).
"""

from __future__ import annotations

from builder.words import counted

MPEG_1, MPEG_2 = 3, 2
"""Two bits of a header; MPEG 2.5 is 0."""
KBITS = {
    True: (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    False: (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
"""Bit rates of MPEG 1, and of MPEG 2 and 2.5."""
RATES_HZ = (44_100, 48_000, 32_000)
PADDING = 4608
"""Samples by which a stream may end before it says: delay and padding of encoders, up to four frames."""
FORMAT = 0xFFFE0C00
"""The bits of a header that are the same in all frames of a stream: mark, version, layer, sample rate."""
LONGEST_HEADER = 36 + 26
"""Bytes from the beginning of a frame in which a header of the stream lies."""


def missing(content: bytes) -> str | None:
    """What a file of MPEG audio, layer III, lacks of what it says that it holds; None where it's whole.

    Of a stream without a header that counts its frames, whole ones can be missing at the end, and nobody can tell.
    """
    stream = _Stream(content)
    if stream.first == len(content):
        return "no two frames of layer III in it; convert it to WAV or FLAC"
    if stream.over:
        return f"cut short: its last frame lacks {counted(stream.over, 'byte')}"
    there = stream.n_frames - stream.has_header
    if there < stream.claimed_frames and not 0 < stream.claimed_bytes <= len(content) - stream.first:
        return f"cut short: {there} of {counted(stream.claimed_frames, 'frame')}"
    if stream.has_header and there > stream.claimed_frames + 1:
        told = f"{counted(there, 'frame')}, and its header claims {stream.claimed_frames}"
        return f"{told}: several streams, one after the other; split them into files"
    return None


def with_header(content: bytes, guessed: int) -> bytes | None:
    """A file of MPEG audio behind a header that counts its frames; None where it has one, or the decoder reads all of it without.

    Parameters
    ----------
    content
        The file.
    guessed
        Samples of a channel, as the decoder guesses; up to `PADDING` too many do no harm.
    """
    stream = _Stream(content)
    surplus = guessed - stream.n_frames * (1152 if stream.head >> 19 & 3 == MPEG_1 else 576)
    if stream.has_header or 0 <= surplus <= PADDING:
        return None
    head = stream.head & ~(0xF << 12) | 1 << 16  # no bit rate yet, no checksum
    while _size(head) < LONGEST_HEADER:
        head += 1 << 12  # the next bit rate
    tag = head.to_bytes(4, "big") + bytes(_side_bytes(head)) + b"Xing" + (1).to_bytes(4, "big") + stream.n_frames.to_bytes(4, "big")
    return tag.ljust(_size(head), b"\0") + content[stream.first :]


class _Stream:
    """The frames in a file, with tags and what else lies about them.

    `first` is where the first begins, the file's length where there's none; `head` its header; `n_frames` how many are whole; `over` how
    many bytes the last one goes beyond the end; `claimed_frames` and `claimed_bytes` what the stream's own header says, 0 where it doesn't.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.first = self._next_frame(_after_id3(content), None)
        self.head = self._head(self.first)
        self.n_frames, self.over = self._walked()
        self.claimed_frames, self.claimed_bytes = self._claims()

    @property
    def has_header(self) -> bool:
        """Whether the first frame is a header that says how many follow."""
        return self.claimed_frames > 0

    def _claims(self) -> tuple[int, int]:
        """Frames and bytes that the stream's own header claims; 0 where it doesn't."""
        frame = self._content[self.first : self.first + LONGEST_HEADER]
        fraunhofer = frame[36:]
        if fraunhofer[:4] == b"VBRI":
            return int.from_bytes(fraunhofer[14:18], "big"), int.from_bytes(fraunhofer[10:14], "big")
        xing = frame[4 + _side_bytes(self.head) :]
        if xing[:4] not in (b"Xing", b"Info") or len(xing) < 16 or not xing[7] & 1:
            return 0, 0
        return int.from_bytes(xing[8:12], "big"), int.from_bytes(xing[12:16], "big") if xing[7] & 2 else 0

    def _walked(self) -> tuple[int, int]:
        """How many frames there are, and how many bytes the last one goes beyond the end. Tags and what isn't a frame is skipped."""
        at, n_frames = self.first, 0
        while at < len(self._content):
            size = _size(self._head(at))
            if at + size > len(self._content):
                return n_frames, at + size - len(self._content)
            at = self._next_frame(at + size, self.head)
            n_frames += 1
        return n_frames, 0

    def _head(self, at: int) -> int:
        return int.from_bytes(self._content[at : at + 4], "big")

    def _next_frame(self, at: int, like: int | None) -> int:
        """Where the next frame begins, of the format of another; the length of the file where none does.

        Right here a header is enough; further on it could be chance, so another frame or the end must follow it.
        """
        found = at
        while 0 <= found < len(self._content):
            head = self._head(found)
            size = _size(head)
            if size and (like is None or (head ^ like) & FORMAT == 0):
                behind = found + size
                if (like is not None and found == at) or behind == len(self._content) or (self._head(behind) ^ head) & FORMAT == 0:
                    return found
            found = self._content.find(b"\xff", found + 1)
        return len(self._content)


def _after_id3(content: bytes) -> int:
    """Where an ID3v2 tag at the beginning ends; its length has seven bits in each byte."""
    if content[:3] != b"ID3" or len(content) < 10:
        return 0
    return 10 + sum(value << shift for value, shift in zip(content[6:10], (21, 14, 7, 0), strict=True))


def _side_bytes(head: int) -> int:
    """Bytes between a frame's header and what follows its side information, by version, number of channels and checksum."""
    mono, checksum = head >> 6 & 3 == 3, not head >> 16 & 1
    return ((17 if mono else 32) if head >> 19 & 3 == MPEG_1 else (9 if mono else 17)) + 2 * checksum


def _size(head: int) -> int:
    """Length of a frame in bytes by its header; 0 where it isn't one of layer III with a bit rate and sample rate of its own."""
    version, layer, bit_rate, rate, padding = head >> 19 & 3, head >> 17 & 3, head >> 12 & 15, head >> 10 & 3, head >> 9 & 1
    if head >> 21 != 0x7FF or version == 1 or layer != 1 or bit_rate in (0, 15) or rate == 3:
        return 0
    rate_hz = RATES_HZ[rate] // {MPEG_1: 1, MPEG_2: 2}.get(version, 4)
    return (144 if version == MPEG_1 else 72) * KBITS[version == MPEG_1][bit_rate] * 1000 // rate_hz + padding
