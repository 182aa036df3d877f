"""How well-known corpora lie in their folders: one function per layout, which tables recordings and opens no audio.

A folder is walked once, in sorted order, so nothing depends on how the file system lists it. What looks like a recording and
can't be one (a link that leaves the corpus, a folder with an audio file's name) is told with a reason. Paths and names are in one
Unicode form here (`spelling`), whatever the disk and the tables have.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from builder import glance, places, tables
from builder.errors import CorpusUnavailable
from builder.records import Reason
from builder.spelling import MISSING, composed, named, words
from builder.strict_yaml import Strict, spelt
from builder.words import counted

AUDIO_SUFFIXES = (
    *(".wav", ".flac", ".mp3", ".ogg", ".oga", ".opus", ".aiff", ".aif", ".aifc", ".au", ".snd", ".caf", ".w64", ".rf64", ".sph", ".nist"),
    *(".voc", ".g722"),
)
"""Of files that are read."""
OTHER_SUFFIXES = (
    *(".m4a", ".m4b", ".mp4", ".aac", ".webm", ".weba", ".mka", ".3gp", ".wma", ".amr", ".awb", ".ape", ".wv", ".tta", ".mp1", ".mp2"),
    *(".mpc", ".spx", ".ac3", ".dts", ".alac", ".shn", ".ra", ".rm", ".gsm", ".vox", ".raw", ".pcm", ".ul", ".ulaw", ".al", ".alaw"),
    *(".sln", ".g723", ".g726", ".g729", ".avr", ".svx", ".8svx", ".paf", ".pvf", ".sd2", ".sds", ".wve", ".ircam", ".htk", ".dsf", ".dff"),
)
"""Of files that look like sound and aren't read."""
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
    """What reading a layout found.

    Parameters
    ----------
    found, refused
        Recordings that are taken, and what isn't, with the reason.
    written
        Member -> its name on disk, of those that aren't plain ASCII: a disk may have another Unicode form of it.
    unread
        Words in place of a language's code -> recordings that have them.
    notes
        What else of the corpus's own files couldn't be read; the recordings are taken.
    seen, walked
        Every file that looks like sound, used or not; folders that were listed.
    """

    found: list[Listed] = field(default_factory=list)
    refused: list[Unlisted] = field(default_factory=list)
    written: dict[str, str] = field(default_factory=dict)
    unread: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    walked: set[str] = field(default_factory=set)

    def take(self, member: str, speaker: Any, sex: Any = None, locale: Any = None, said: Any = None) -> None:
        """Take a recording, each value as the corpus writes it; refuse one whose speaker isn't named."""
        who = named(speaker)
        if who is None:
            self.refused.append(Unlisted(member, Reason.NO_SPEAKER, no_speaker(speaker)))
            return
        language = language_of(locale)
        if language is None and (word := named(locale)):
            self.unread[word] += 1
        self.found.append(Listed(member, who, sex_of(sex), language, words(said)))

    def told(self) -> list[str]:
        """Every note."""
        unread = [
            f"language {word!r} isn't a code of two or three letters, so it's unknown (recordings: {n})" for word, n in self.unread.items()
        ]
        return sorted(self.notes + unread)

    def refuse_the_rest(self, why: str) -> None:
        """Count the files that look like sound and were neither found nor refused, by suffix.

        Parameters
        ----------
        why
            Why those are left that could be read.
        """
        rest: dict[str, list[str]] = {}
        for member in self.seen - {item.member for item in self.found} - {item.what for item in self.refused}:
            rest.setdefault(PurePosixPath(member).suffix.lower(), []).append(member)
        for suffix, members in rest.items():
            reason, said = (Reason.LEFT_OUT, why) if suffix in AUDIO_SUFFIXES else (Reason.UNREADABLE, NOT_READ)
            self.refused.append(Unlisted(f"*{suffix}", reason, f"{said}, such as {min(members)}", len(members)))


NOT_READ = "files of this kind aren't read; convert them to FLAC or WAV"


def no_speaker(value: Any) -> str:
    """Why a value names nobody."""
    said = words(value)
    return f"{said!r} stands for a missing value: the speaker isn't known" if said else "the corpus doesn't say who speaks"


def sex_of(word: Any) -> str | None:
    """`f`, `m`, or None where the word says neither, is empty, or isn't known."""
    return SEX_WORDS.get((named(word) or "").lower())


def language_of(locale: Any) -> str | None:
    """The language of a locale such as `en` or `zh-TW`; None where it isn't two or three letters.

    `nan` is the code of Min Nan; NaN, in any other spelling, is a missing value.
    """
    said = words(locale) or ""
    code = re.split("[-_]", said.lower())[0]
    return code if re.fullmatch("[a-z]{2,3}", code) and (said == "nan" or said not in MISSING) else None


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
        The folder doesn't hold what the layout needs; the message says what was looked for and what is there.
    """
    listing = Listing()
    LAYOUTS[rule.kind](root, rule, listing)
    _walk_the_rest(root, listing)
    listing.refuse_the_rest(f"the layout {rule.kind} doesn't take them")
    listing.found.sort(key=lambda item: item.member)
    listing.refused.sort(key=lambda item: (item.what, item.reason))
    if not listing.found:
        why = "".join(f"; {item.what}: {item.reason.value}: {item.detail}" for item in listing.refused[:3])
        refused = f" ({sum(item.count for item in listing.refused)} refused{why})" if why else ""
        raise _missing(root, f"no recordings of the layout {rule.kind} in it, which are {LOOKED_FOR[rule.kind]}{refused}")
    return listing


def _missing(root: Path, what: str) -> CorpusUnavailable:
    return CorpusUnavailable(f"{root}: {what}; {glance.told(root)}")


def unused(root: Path, used: Collection[str]) -> list[Unlisted]:
    """What a folder holds that looks like sound, beside the members that a table or recipe lists."""
    listing = Listing()
    _walk_the_rest(root, listing)
    listing.seen -= set(used)
    listing.refuse_the_rest("nothing lists them")
    return [item for item in listing.refused if item.what not in used]


# -- walking ----------------------------------------------------------------------------------------------------------


def walk(root: Path, listing: Listing, under: str = "") -> Iterator[str]:
    """Paths of the files below `root/under`, relative to `root` and composed, each folder listed once.

    A link is followed to a file inside the corpus; one that leads out, to a folder or nowhere is refused, if it could be audio.
    An object store has no links, and lists all at once. A folder that was listed before isn't listed again. Of two files whose names
    differ in Unicode form alone, one is taken; a name that isn't UTF-8 is refused.
    """
    for found in _remote_files(root, listing, under) if places.is_remote(root) else _local_files(root, listing, under):
        member = found if found.isascii() else composed(found)
        why = None if found.isascii() else _bad_name(member, found, listing)
        if why is None:
            listing.seen |= {member} if is_sound(member) else set()
            yield member
        elif is_sound(member):
            listing.refused.append(Unlisted(_shown(found), *why))


def _bad_name(member: str, found: str, listing: Listing) -> tuple[Reason, str] | None:
    """Why a file can't go by its name; None if it can. Where bytes aren't UTF-8, Python has surrogates in their place."""
    if any("\ud800" <= sign <= "\udfff" for sign in found):
        return Reason.UNREADABLE, "its name isn't UTF-8; rename it"
    if listing.written.setdefault(member, found) != found:
        return Reason.DUPLICATE, "another file has this name in another Unicode form: rename one"
    return None


def _walk_the_rest(root: Path, listing: Listing) -> None:
    """See every file that no layout asked for."""
    for _ in walk(root, listing):
        pass


def _remote_files(root: Path, listing: Listing, under: str) -> Iterator[str]:
    if under not in listing.walked:
        listing.walked.add(under)
        yield from (f"{under}/{name}" if under else name for name in places.names(root / under if under else root))


def _local_files(root: Path, listing: Listing, under: str) -> Iterator[str]:
    trees = places.trees(root)
    folders = [under]
    while folders:
        folder = folders.pop()
        if folder in listing.walked:
            continue
        listing.walked.add(folder)
        for entry in _entries(root, folder, listing):
            member = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_symlink():
                why = _bad_link(os.path.realpath(entry.path), trees)
                if why and (is_sound(member) or entry.is_dir()):
                    listing.refused.append(Unlisted(_shown(member), Reason.OUTSIDE, why))
                elif not why:
                    yield member
            elif entry.is_dir():
                folders.append(member)
                if is_sound(member):
                    listing.refused.append(Unlisted(_shown(member), Reason.UNREADABLE, "a folder with the name of an audio file"))
            elif entry.is_file():
                yield member


def _entries(root: Path, folder: str, listing: Listing) -> list[os.DirEntry[str]]:
    """What lies in a folder, in order of names; of one that can't be listed, why."""
    try:
        with os.scandir(root / folder) as entries:
            return sorted(entries, key=lambda item: item.name)
    except OSError as error:
        listing.refused.append(Unlisted(_shown(folder) or ".", Reason.UNREADABLE, f"a folder that can't be listed: {error.strerror}"))
        return []


def _shown(member: str) -> str:
    """A path as text that can be written anywhere, bytes that aren't UTF-8 as escapes."""
    return member.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _bad_link(target: str, trees: tuple[str, ...]) -> str | None:
    """Why a link can't be followed; None if it can."""
    if not places.lies_in(target, trees):
        return "a link that leads out of the corpus"
    return None if Path(target).is_file() else "a link to a folder or to nothing"


def is_audio(member: str) -> bool:
    """Whether a path's suffix is one of an audio file."""
    return member.lower().endswith(AUDIO_SUFFIXES)


def is_sound(member: str) -> bool:
    """Whether a path's suffix is one of a file that looks like sound, read or not."""
    return member.lower().endswith(AUDIO_SUFFIXES + OTHER_SUFFIXES)


def _texts(root: Path, listing: Listing, wanted: Iterable[str]) -> dict[str, str | None]:
    """Text files as wholes with single blanks, by name; none of one that isn't there; None where it's empty or, noted, isn't UTF-8."""
    found: dict[str, str | None] = {}
    on_disk = {listing.written.get(name, name): name for name in wanted}
    for where, content in places.contents(root, on_disk).items():
        try:
            found[on_disk[where]] = words(content.decode("utf-8-sig"))
        except UnicodeDecodeError:
            listing.notes.append(f"{on_disk[where]}: not UTF-8 text: what is said is unknown")
    return found


def _sex_in(path: Path, rows: Iterable[tuple[int, list[str]]], at: int, listing: Listing) -> dict[str, str | None]:
    """Speaker, the first cell, -> sex, the cell `at`, in a table of speakers; rows that are too short are noted."""
    told = {}
    for line, cells in rows:
        if len(cells) > at:
            told[named(cells[0]) or ""] = sex_of(cells[at])
        else:
            listing.notes.append(f"{path.name}:{line}: fewer than {counted(at + 1, 'cell')}: the speaker's sex is unknown")
    return told


def _first_folder(root: Path, names: tuple[str, ...], corpus: str) -> str:
    for folder in names:
        if places.is_folder(root / folder):
            return folder
    raise _missing(root, f"no folder {' or '.join(names)} in it; the folder of {corpus} has one")


# -- the layouts ------------------------------------------------------------------------------------------------------


def _vctk(root: Path, rule: LayoutRule, listing: Listing) -> None:
    """VCTK 0.92 (two microphones, FLAC) or 0.80 (one, WAV), whichever lies there."""
    folder = _first_folder(root, ("wav48_silence_trimmed", "wav48"), "VCTK")
    two_mics = folder == "wav48_silence_trimmed"
    pattern = re.compile(rf"{folder}/(\w+)/(\1_\d+)" + (r"_(mic[12])\.flac" if two_mics else r"\.wav"))
    sex = _vctk_sex(root, listing)
    mics: dict[tuple[str, str], set[str]] = {}
    for member in walk(root, listing, folder):
        match = pattern.fullmatch(member)
        if match:
            mics.setdefault((match[1], match[2]), set()).add(match[3] if two_mics else "")
    if listing.written and places.is_folder(root / "txt"):
        list(walk(root, listing, "txt"))  # how texts are written there
    texts = _texts(root, listing, [f"txt/{speaker}/{utterance}.txt" for speaker, utterance in mics])
    for (speaker, utterance), recorded in mics.items():
        mic = rule.mic if two_mics else ""
        if mic in recorded:
            member = f"{folder}/{speaker}/{utterance}" + (f"_{mic}.flac" if two_mics else ".wav")
            listing.take(member, speaker, sex.get(speaker), "en", texts.get(f"txt/{speaker}/{utterance}.txt"))
        else:
            listing.refused.append(Unlisted(f"{speaker}/{utterance}", Reason.UNREADABLE, f"no recording by {mic}"))


def _vctk_sex(root: Path, listing: Listing) -> dict[str, str | None]:
    """Speaker -> sex of speaker-info.txt; version 0.80 writes identifiers without their letter."""
    path = root / "speaker-info.txt"
    told = _sex_in(path, ((line, row.split()) for line, row in tables.lines(path)), 2, listing)
    return {speaker if speaker[:1].isalpha() else f"p{speaker}": sex for speaker, sex in told.items()}


def _chapters(root: Path, rule: LayoutRule, listing: Listing, suffix: str) -> Iterator[tuple[str, str, str]]:
    """Member, speaker and folder of each part/speaker/chapter/utterance file with a suffix."""
    written = places.Written(root)
    parts = rule.parts or tuple(folder for folder in places.folders(root) if not folder.startswith("."))
    for part in map(written, parts):
        if not places.is_folder(root / part):
            raise _missing(root, f"no folder {part} in it")
        for member in walk(root, listing, part):
            steps = member.split("/")
            if len(steps) == 4 and member.endswith(suffix):
                yield member, steps[1], member.rpartition("/")[0]


def _librispeech(root: Path, rule: LayoutRule, listing: Listing) -> None:
    """LibriSpeech: FLAC files, one transcript per chapter, SPEAKERS.TXT."""
    path = root / "SPEAKERS.TXT"
    sex = _sex_in(path, ((line, row.split("|")) for line, row in tables.lines(path) if not row.startswith(";")), 1, listing)
    texts: dict[str, dict[str, str]] = {}
    for member, speaker, folder in list(_chapters(root, rule, listing, ".flac")):
        if folder not in texts:
            transcript = f"{folder}/{'-'.join(folder.split('/')[1:])}.trans.txt"
            rows = (row.split(maxsplit=1) for _, row in tables.lines(root / listing.written.get(transcript, transcript)))
            texts[folder] = {composed(row[0]): row[1] for row in rows if len(row) == 2}
        listing.take(member, speaker, sex.get(named(speaker) or ""), "en", texts[folder].get(PurePosixPath(member).stem))


def _libritts(root: Path, rule: LayoutRule, listing: Listing) -> None:
    """LibriTTS: WAV files, two texts beside each, speakers.tsv."""
    path = root / "speakers.tsv"
    sex = _sex_in(path, ((line, row.split("\t")) for line, row in tables.lines(path)), 1, listing)
    found = {member: speaker for member, speaker, _ in _chapters(root, rule, listing, ".wav")}
    text_of = {member: f"{member.removesuffix('.wav')}.{rule.transcript}.txt" for member in found}
    texts = _texts(root, listing, text_of.values())
    for member, speaker in found.items():
        listing.take(member, speaker, sex.get(named(speaker) or ""), "en", texts.get(text_of[member]))


def _common_voice(root: Path, rule: LayoutRule, listing: Listing) -> None:
    """Common Voice: one TSV with a row per clip, MP3 files under clips/. A row that can't be read is refused with its line."""
    path = root / rule.table
    try:
        table = tables.read(path, ("client_id", "path", "sentence"), "\t", quoted=False)
    except FileNotFoundError as error:
        raise _missing(root, f"{rule.table}: no such table in it") from error
    if table.faults:
        raise CorpusUnavailable(f"{path}:{table.faults[0]}")
    there = set(walk(root, listing, _first_folder(root, ("clips",), "Common Voice")))
    taken: set[str] = set()
    for row in table.rows:
        file = composed(row.cells["path"]) if row.fault is None else ""
        member = f"clips/{file}" if is_audio(file) else f"clips/{file}.mp3"
        if row.fault:
            listing.refused.append(Unlisted(f"{rule.table}:{row.line}", Reason.UNREADABLE, row.fault))
        elif member in taken:
            listing.refused.append(Unlisted(member, Reason.DUPLICATE, "listed twice"))
        elif member not in there:
            listing.refused.append(Unlisted(member, Reason.UNREADABLE, "no such file in the corpus"))
        else:
            client = (named(row.cells["client_id"]) or "")[:16] or ("unknown" if rule.unknown_speakers == "together" else None)
            taken |= {member} if client else set()
            listing.take(member, client, row.cells.get("gender"), row.cells.get("locale"), row.cells["sentence"])


def _festvox(root: Path, rule: LayoutRule, listing: Listing) -> None:
    """A festvox voice: wav/NAME.wav, and lines `( NAME "text" )` in etc/txt.done.data."""
    _first_folder(root, ("wav",), "a festvox voice")
    marks = str.maketrans("", "", rule.text_marks)
    texts = {}
    for number, line in tables.lines(root / "etc" / "txt.done.data"):
        match = re.fullmatch(r'\(\s*(\S+)\s+"(.*)"\s*\)', line.strip())
        if match:
            texts[composed(match[1])] = composed(match[2]).replace('\\"', '"').translate(marks)
        else:
            listing.notes.append(f'etc/txt.done.data:{number}: isn\'t ( NAME "text" ): what is said is unknown')
    for member in walk(root, listing, "wav"):
        if member.endswith(".wav"):
            listing.take(member, rule.speaker, rule.sex, None, texts.get(PurePosixPath(member).stem))


def _files(root: Path, rule: LayoutRule, listing: Listing) -> None:
    """Audio files that match a pattern; a text file of the same name beside one holds what is said."""
    left_out = dict.fromkeys(map(composed, rule.leave_out), 0)
    wanted = composed(rule.pattern)
    taken: dict[str, str] = {}
    there = list(walk(root, listing))
    for member in there:
        if not (is_audio(member) and fnmatchcase(member, wanted)):
            continue
        matched = next((pattern for pattern in left_out if fnmatchcase(member, pattern)), None)
        speaker = rule.speaker or (member.split("/")[0] if "/" in member else None)
        if matched is not None:
            left_out[matched] += 1
            listing.seen.discard(member)
        elif speaker is None:
            listing.refused.append(Unlisted(member, Reason.NO_SPEAKER, "in no folder that could name a speaker"))
        else:
            taken[member] = speaker
    text_of = {member: str(PurePosixPath(member).with_suffix(".txt")) for member in taken}
    texts = _texts(root, listing, set(text_of.values()) & set(there))
    for member, speaker in taken.items():
        listing.take(member, speaker, rule.sex, None, texts.get(text_of[member]))
    for pattern, count in left_out.items():
        if count:
            listing.refused.append(
                Unlisted(rule.pattern, Reason.LEFT_OUT, f"{counted(count, 'file matches', 'files match')} {pattern} of leave_out", count)
            )


LOOKED_FOR = {
    "vctk": "wav48_silence_trimmed/SPEAKER/SPEAKER_001_mic1.flac or wav48/SPEAKER/SPEAKER_001.wav",
    "librispeech": "PART/SPEAKER/CHAPTER/UTTERANCE.flac",
    "libritts": "PART/SPEAKER/CHAPTER/UTTERANCE.wav",
    "common_voice": "rows of the table, with files in clips/",
    "festvox": "wav/NAME.wav",
    "files": "audio files that match the pattern, each in a folder named after its speaker",
}
"""Layout -> where its recordings lie."""
LAYOUTS: Mapping[str, Callable[[Path, LayoutRule, Listing], None]] = {
    "vctk": _vctk,
    "librispeech": _librispeech,
    "libritts": _libritts,
    "common_voice": _common_voice,
    "festvox": _festvox,
    "files": _files,
}
