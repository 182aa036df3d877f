"""How well-known corpora lie in their folders: one function per layout, which tables recordings and opens no audio.

A folder is walked once, in sorted order, so nothing depends on how the file system lists it. What looks like a recording and
can't be one (a link that leaves the corpus, a folder with an audio file's name) is told with a reason.
"""

from __future__ import annotations

import csv
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from builder import places
from builder.errors import CorpusUnavailable
from builder.records import Reason
from builder.strict_yaml import Strict, spelt
from builder.words import counted

AUDIO_SUFFIXES = (".wav", ".flac", ".mp3", ".ogg", ".opus", ".aiff", ".aif", ".g722")
SEX_WORDS = {
    "f": "f", "female": "f", "woman": "f", "female_feminine": "f",
    "m": "m", "male": "m", "man": "m", "male_masculine": "m",
}  # fmt: skip
OPTIONS: Mapping[str, tuple[str, ...]] = {
    "vctk": ("mic",),
    "librispeech": ("parts",),
    "libritts": ("parts", "transcript"),
    "common_voice": ("table", "unknown_speakers"),
    "festvox": ("speaker", "sex", "text_marks"),
    "files": ("pattern", "leave_out", "speaker", "sex"),
}
"""Layout -> its options."""

Strings = Annotated[tuple[str, ...], BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)]


class LayoutRule(Strict):
    """A layout and its options; see `docs/corpora.md`.

    Parameters
    ----------
    kind
        Which layout.
    mic
        VCTK 0.92: which of the two microphones.
    parts
        LibriSpeech, LibriTTS: folders such as train-clean-100; all that are there by default.
    transcript
        LibriTTS: which of its two texts.
    table
        Common Voice: which TSV file.
    unknown_speakers
        Common Voice: `refuse` rows without a client, or take them `together` as one speaker.
    pattern, leave_out
        Files: a pattern that paths must match, and patterns that they mustn't; `*` matches `/` too.
    speaker, sex
        Of every recording; for files without a speaker, the first folder of a path is the speaker.
    text_marks
        Festvox: characters that stand for no sound and are taken out of the texts.
    """

    kind: Literal["vctk", "librispeech", "libritts", "common_voice", "festvox", "files"]
    mic: Literal["mic1", "mic2"] = "mic1"
    parts: Strings | None = None
    transcript: Literal["normalized", "original"] = "original"
    table: Annotated[str, spelt(r"[\w.-]+[.]tsv", "the name of a .tsv file")] = "validated.tsv"
    unknown_speakers: Literal["refuse", "together"] = "refuse"
    pattern: Annotated[str, Field(min_length=1)] = "*"
    leave_out: Strings = ()
    speaker: Annotated[str, Field(min_length=1)] | None = None
    sex: Literal["f", "m"] | None = None
    text_marks: str = ""

    @model_validator(mode="after")
    def _options_fit(self) -> LayoutRule:
        for name in sorted(self.model_fields_set - {"kind"} - set(OPTIONS[self.kind])):
            raise ValueError(f"{name} is no option of the layout {self.kind}; options: {', '.join(OPTIONS[self.kind])}")
        if self.kind == "festvox" and self.speaker is None:
            raise ValueError("speaker is needed: a festvox voice doesn't name its own")
        return self


@dataclass(frozen=True)
class Listed:
    """A recording as a corpus tells it: path inside the corpus, speaker, sex (f, m or None), language, text."""

    member: str
    speaker: str
    sex: str | None = None
    language: str | None = None
    text: str | None = None


@dataclass(frozen=True)
class Unlisted:
    """What a corpus holds and what isn't taken from it: which, why, and how many recordings that are."""

    what: str
    reason: Reason
    detail: str
    count: int = 1


@dataclass
class Listing:
    """What reading a layout found."""

    found: list[Listed] = field(default_factory=list)
    refused: list[Unlisted] = field(default_factory=list)


def sex_of(word: str | None) -> str | None:
    """`f`, `m`, or None where the word says neither, is empty, or isn't known."""
    return SEX_WORDS.get((word or "").strip().lower())


def language_of(locale: str | None) -> str | None:
    """The language of a locale such as `en` or `zh-TW`; None where it isn't two or three letters."""
    word = re.split("[-_]", (locale or "").strip().lower())[0]
    return word if re.fullmatch("[a-z]{2,3}", word) else None


def read(root: Path, rule: LayoutRule) -> Listing:
    """Every recording of a folder.

    Parameters
    ----------
    root
        The corpus's folder.
    rule
        How it lies in there.

    Returns
    -------
    Listing
        Sorted by member.

    Raises
    ------
    CorpusUnavailable
        The folder doesn't hold what the layout needs; the message says what was looked for.
    """
    listing = Listing()
    LAYOUTS[rule.kind](root, rule, listing)
    listing.found.sort(key=lambda item: item.member)
    listing.refused.sort(key=lambda item: (item.what, item.reason))
    if not listing.found and not listing.refused:
        raise CorpusUnavailable(f"{root}: no recordings of the layout {rule.kind} in it")
    return listing


# -- walking ----------------------------------------------------------------------------------------------------------


def walk(root: Path, listing: Listing, under: str = "") -> Iterator[str]:
    """Paths of the files below `root/under`, relative to `root`, each folder listed once.

    A link is followed to a file inside the corpus; one that leads out, to a folder or nowhere is refused, if it could be audio.
    An object store has no links, and lists all at once.
    """
    if places.is_remote(root):
        yield from (f"{under}/{name}" if under else name for name in places.names(root / under if under else root))
        return
    real = os.path.realpath(root)
    folders = [under]
    while folders:
        folder = folders.pop()
        with os.scandir(root / folder) as entries:
            for entry in sorted(entries, key=lambda item: item.name):
                member = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_symlink():
                    why = _bad_link(os.path.realpath(entry.path), real)
                    if why and (is_audio(member) or entry.is_dir()):
                        listing.refused.append(Unlisted(member, Reason.OUTSIDE, why))
                    elif not why:
                        yield member
                elif entry.is_dir():
                    folders.append(member)
                    if is_audio(member):
                        listing.refused.append(Unlisted(member, Reason.UNREADABLE, "a folder with the name of an audio file"))
                elif entry.is_file():
                    yield member


def _bad_link(target: str, real_root: str) -> str | None:
    """Why a link can't be followed; None if it can."""
    if not target.startswith(real_root + os.sep):
        return "a link that leads out of the corpus"
    return None if Path(target).is_file() else "a link to a folder or to nothing"


def is_audio(member: str) -> bool:
    """Whether a path's suffix is one of an audio file."""
    return member.lower().endswith(AUDIO_SUFFIXES)


def _texts(root: Path, wanted: Iterable[str]) -> dict[str, str | None]:
    """Text files as wholes with single blanks, by name; none of one that isn't there, None where it's empty or isn't UTF-8."""
    return {name: _text_of(content) for name, content in places.contents(root, wanted).items()}


def _text_of(content: bytes) -> str | None:
    try:
        return " ".join(content.decode("utf-8-sig").split()) or None
    except UnicodeDecodeError:
        return None


def _lines(path: Path) -> list[str]:
    """Lines of a table that goes with the audio; none where it isn't there.

    Raises
    ------
    CorpusUnavailable
        It isn't UTF-8.
    """
    try:
        return places.text(path, "utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise CorpusUnavailable(f"{path}: not UTF-8 text") from error
    except OSError:
        return []


def _first_folder(root: Path, names: tuple[str, ...], corpus: str) -> str:
    for name in names:
        if places.is_folder(root / name):
            return name
    raise CorpusUnavailable(f"{root}: no folder {' or '.join(names)} in it; the folder of {corpus} has one")


# -- the layouts ------------------------------------------------------------------------------------------------------


def _vctk(root: Path, rule: LayoutRule, listing: Listing) -> None:
    """VCTK 0.92 (two microphones, FLAC) or 0.80 (one, WAV), whichever lies there."""
    folder = _first_folder(root, ("wav48_silence_trimmed", "wav48"), "VCTK")
    two_mics = folder == "wav48_silence_trimmed"
    name = re.compile(rf"{folder}/(\w+)/(\1_\d+)" + (r"_(mic[12])\.flac" if two_mics else r"\.wav"))
    sex = _vctk_sex(root)
    mics: dict[tuple[str, str], set[str]] = {}
    for member in walk(root, listing, folder):
        match = name.fullmatch(member)
        if match:
            mics.setdefault((match[1], match[2]), set()).add(match[3] if two_mics else "")
    texts = _texts(root, [f"txt/{speaker}/{utterance}.txt" for speaker, utterance in mics])
    for (speaker, utterance), there in mics.items():
        mic = rule.mic if two_mics else ""
        if mic in there:
            member = f"{folder}/{speaker}/{utterance}" + (f"_{mic}.flac" if two_mics else ".wav")
            text = texts.get(f"txt/{speaker}/{utterance}.txt")
            listing.found.append(Listed(member, speaker, sex.get(speaker), "en", text))
        else:
            listing.refused.append(Unlisted(f"{speaker}/{utterance}", Reason.UNREADABLE, f"no recording by {mic}"))


def _vctk_sex(root: Path) -> dict[str, str | None]:
    """Speaker -> sex of speaker-info.txt; version 0.80 writes identifiers without their letter."""
    rows = [line.split() for line in _lines(root / "speaker-info.txt")]
    named = [(row[0] if row[0][0].isalpha() else f"p{row[0]}", row[2]) for row in rows if len(row) >= 3]
    return {speaker: sex_of(word) for speaker, word in named}


def _chapters(root: Path, rule: LayoutRule, listing: Listing, suffix: str) -> Iterator[tuple[str, str, str]]:
    """Member, speaker and folder of each part/speaker/chapter/utterance file with a suffix."""
    parts = rule.parts or tuple(name for name in places.folders(root) if not name.startswith("."))
    for part in parts:
        if not places.is_folder(root / part):
            raise CorpusUnavailable(f"{root}: no folder {part} in it")
        for member in walk(root, listing, part):
            steps = member.split("/")
            if len(steps) == 4 and member.endswith(suffix):
                yield member, steps[1], member.rpartition("/")[0]


def _librispeech(root: Path, rule: LayoutRule, listing: Listing) -> None:
    """LibriSpeech: FLAC files, one transcript per chapter, SPEAKERS.TXT."""
    sex = {row[0].strip(): sex_of(row[1]) for line in _lines(root / "SPEAKERS.TXT") if len(row := line.split("|", 2)) == 3}
    texts: dict[str, dict[str, str]] = {}
    for member, speaker, folder in _chapters(root, rule, listing, ".flac"):
        if folder not in texts:
            chapter = "-".join(folder.split("/")[1:])
            texts[folder] = dict(line.split(" ", 1) for line in _lines(root / folder / f"{chapter}.trans.txt") if " " in line.strip())
        said = " ".join(texts[folder].get(PurePosixPath(member).stem, "").split())
        listing.found.append(Listed(member, speaker, sex.get(speaker), "en", said or None))


def _libritts(root: Path, rule: LayoutRule, listing: Listing) -> None:
    """LibriTTS: WAV files, two texts beside each, speakers.tsv."""
    rows = [line.split("\t") for line in _lines(root / "speakers.tsv")]
    sex = {row[0].strip(): sex_of(row[1]) for row in rows if len(row) >= 2}
    found = {member: speaker for member, speaker, _ in _chapters(root, rule, listing, ".wav")}
    name_of = {member: f"{member.removesuffix('.wav')}.{rule.transcript}.txt" for member in found}
    texts = _texts(root, name_of.values())
    listing.found += [Listed(member, speaker, sex.get(speaker), "en", texts.get(name_of[member])) for member, speaker in found.items()]


def _common_voice(root: Path, rule: LayoutRule, listing: Listing) -> None:
    """Common Voice: one TSV with a row per clip, MP3 files under clips/."""
    path = root / rule.table
    csv.field_size_limit(sys.maxsize)
    lines = [line for line in _lines(path) if line]
    rows = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    absent = [name for name in ("client_id", "path", "sentence") if name not in (rows.fieldnames or ())]
    if absent:
        raise CorpusUnavailable(f"{path}: no such table, or no column {', '.join(absent)} in it")
    there = set(walk(root, listing, _first_folder(root, ("clips",), "Common Voice")))
    taken: set[str] = set()
    for row in rows:
        name = row["path"] or ""
        member = f"clips/{name}" if is_audio(name) else f"clips/{name}.mp3"
        client = (row["client_id"] or "").strip()
        if member in taken:
            listing.refused.append(Unlisted(member, Reason.DUPLICATE, "listed twice"))
        elif member not in there:
            listing.refused.append(Unlisted(member, Reason.UNREADABLE, "no such file in the corpus"))
        elif not client and rule.unknown_speakers == "refuse":
            listing.refused.append(Unlisted(member, Reason.NO_SPEAKER, "the table names no client"))
        else:
            taken.add(member)
            said = " ".join((row["sentence"] or "").split())
            speaker = client[:16] or "unknown"
            listing.found.append(Listed(member, speaker, sex_of(row.get("gender")), language_of(row.get("locale")), said or None))


def _festvox(root: Path, rule: LayoutRule, listing: Listing) -> None:
    """A festvox voice: wav/NAME.wav, and lines `( NAME "text" )` in etc/txt.done.data."""
    _first_folder(root, ("wav",), "a festvox voice")
    lines = [re.fullmatch(r'\(\s*(\S+)\s+"(.*)"\s*\)', line.strip()) for line in _lines(root / "etc" / "txt.done.data")]
    marks = str.maketrans("", "", rule.text_marks)
    texts = {line[1]: " ".join(line[2].replace('\\"', '"').translate(marks).split()) for line in lines if line}
    for member in walk(root, listing, "wav"):
        if member.endswith(".wav"):
            text = texts.get(PurePosixPath(member).stem) or None
            listing.found.append(Listed(member, str(rule.speaker), rule.sex, None, text))


def _files(root: Path, rule: LayoutRule, listing: Listing) -> None:
    """Audio files that match a pattern; a text file of the same name beside one holds what is said."""
    left_out = dict.fromkeys(rule.leave_out, 0)
    taken: dict[str, str] = {}
    there = list(walk(root, listing))
    for member in there:
        if not (is_audio(member) and fnmatchcase(member, rule.pattern)):
            continue
        matched = next((pattern for pattern in rule.leave_out if fnmatchcase(member, pattern)), None)
        speaker = rule.speaker or (member.split("/")[0] if "/" in member else None)
        if matched is not None:
            left_out[matched] += 1
        elif speaker is None:
            listing.refused.append(Unlisted(member, Reason.NO_SPEAKER, "in no folder that could name a speaker"))
        else:
            taken[member] = speaker
    name_of = {member: str(PurePosixPath(member).with_suffix(".txt")) for member in taken}
    texts = _texts(root, set(name_of.values()) & set(there))
    listing.found += [Listed(member, speaker, rule.sex, None, texts.get(name_of[member])) for member, speaker in taken.items()]
    for pattern, count in left_out.items():
        if count:
            listing.refused.append(
                Unlisted(rule.pattern, Reason.LEFT_OUT, f"{counted(count, 'file matches', 'files match')} {pattern} of leave_out", count)
            )


LAYOUTS: Mapping[str, Callable[[Path, LayoutRule, Listing], None]] = {
    "vctk": _vctk,
    "librispeech": _librispeech,
    "libritts": _libritts,
    "common_voice": _common_voice,
    "festvox": _festvox,
    "files": _files,
}
