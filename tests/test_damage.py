"""Whatever a file, a name or a header holds is data: read, or refused with a reason; no command ends in a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from made_corpora import LICENCE, RATE_HZ, SPEAKERS, encoded, put, recipe_of, utterance

from builder import corpora
from builder.__main__ import main
from builder.acoustics import audio, containers
from builder.cuts import survey
from builder.errors import RecipeError, Refused
from builder.measure import LEAST_RATE_HZ
from builder.recipe import SpeechRule

ROOT = Path(__file__).parent.parent
RULE = SpeechRule(corpus=None)
QUICK = settings(derandomize=True, deadline=None, max_examples=150)
LONG = settings(derandomize=True, deadline=None, max_examples=5000)
VOICE = utterance("225", 0)[: RATE_HZ // 4]
WHOLE = {kind: encoded(VOICE, kind) for kind in containers.CHECKS}


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A file of some container, with bits flipped, numbers of its header replaced, or a piece cut out, doubled or added."""
    content = bytearray(WHOLE[draw(st.sampled_from(sorted(WHOLE)))])
    for _ in range(draw(st.integers(1, 3))):
        near = draw(st.booleans())
        at = draw(st.integers(0, min(len(content), 80 if near else len(content)) - 1))
        match draw(st.sampled_from(("flip", "number", "cut", "double", "end"))):
            case "flip":
                content[at] ^= 1 << draw(st.integers(0, 7))
            case "number":
                value = draw(st.sampled_from((0, 1, 2, 0x7FFF, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)))
                content[at : at + 4] = value.to_bytes(4, draw(st.sampled_from(("little", "big"))))
            case "cut":
                del content[at : at + draw(st.integers(1, 500))]
            case "double":
                content[at:at] = content[at : at + draw(st.integers(1, 500))]
            case "end":
                del content[max(at, 1) :]
        content = content or bytearray(1)
    return bytes(content)


def reads_or_refuses(content: bytes, suffix: str) -> None:
    """Samples of a shape and rate that make sense, or a reason that can be written anywhere."""
    try:
        samples, rate_hz = audio.read(Path("a" + suffix), content=content)
    except Refused as refusal:
        detail = refusal.detail
    else:
        assert (samples.ndim, samples.dtype) == (2, np.float64)
        assert audio.RATES_HZ[0] <= rate_hz <= audio.RATES_HZ[1]
        assert len(samples) <= audio.MAX_DURATION_S * rate_hz
        return
    assert 5 < len(detail) < 300
    assert detail.isprintable()


SUFFIXES = st.sampled_from(("", ".wav", ".mp3", ".au", ".g722"))


@given(damaged(), SUFFIXES)
@QUICK
def test_a_damaged_file_is_read_or_refused(content: bytes, suffix: str) -> None:
    """Bit flips, wrong sizes and huge claims in every container."""
    reads_or_refuses(content, suffix)


@pytest.mark.slow
@given(damaged(), SUFFIXES)
@LONG
def test_many_damaged_files_are_read_or_refused(content: bytes, suffix: str) -> None:
    """The same, at length."""
    reads_or_refuses(content, suffix)


@given(st.binary(max_size=400), st.sampled_from(containers.SIGNATURES))
@QUICK
def test_any_bytes_behind_a_signature_are_read_or_refused(content: bytes, start: bytes) -> None:
    """What only begins like a sound file."""
    reads_or_refuses(start + content, ".wav")


# -- names ------------------------------------------------------------------------------------------------------------

NAMES = st.binary(min_size=1, max_size=40).filter(lambda name: not set(name) & {0, ord("/")} and name not in (b".", b".."))


@given(st.lists(NAMES, min_size=1, max_size=4, unique=True))
@example([b"caf\xe9", "日本".encode()])
@example([b"a\nb", b"-rf", b"\x1b[31m", b"[#]"])
@settings(QUICK, max_examples=40)
def test_any_file_name_is_listed_or_refused(names: list[bytes]) -> None:
    """Each file counts once, used or refused; what is told of it is text."""
    with tempfile.TemporaryDirectory() as folder:
        for name in [b"good", *names]:
            path = Path(os.fsdecode(os.fsencode(folder) + b"/corpus/a/" + name + b".wav"))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(WHOLE["WAV"])
        layout = {"kind": "files", "speaker": "a"}
        found = corpora.load(recipe_of(Path(folder), [{"folder": "corpus", "layout": layout, **LICENCE}]))
        counts, lines = found.refusals()
        assert len(found.recordings) + sum(counts.values()) == len({b"good", *names})
        json.dumps([lines, [item.member for item in found.recordings]], ensure_ascii=False).encode()
        survey(found, RULE, RATE_HZ)


@pytest.mark.parametrize("member", ["a\0b.wav", "x" * 300 + ".wav", "a/" + "é" * 200 + "/b.wav"])
def test_what_no_path_can_hold_is_a_fault_of_its_row(tmp_path: Path, member: str) -> None:
    """A zero byte and an endless name in a table are told with their line."""
    put(tmp_path / "corpus" / "table.csv", f"path,speaker,licence\n{member},a,CC0-1.0\n")
    with pytest.raises(
        RecipeError, match=r"table.csv:2: (.* is no path: it has a zero byte, or a name of more than 255 bytes|holds a NUL)"
    ):
        corpora.load(recipe_of(tmp_path, [{"folder": "corpus", "table": "table.csv"}]))


# -- the commands -----------------------------------------------------------------------------------------------------


def run(*arguments: str | bytes | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command as a user runs it."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "builder", *arguments],
        cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip


RECIPE = f"""
include: {ROOT / "recipes" / "base.yaml"}
dimension: loudness
sources: [{{{{kind: speech}}}}]
speech: {{{{corpus: {{}}}}}}
splits: {{{{train: {{{{share: 0.5}}}}, test: {{{{share: 0.5}}}}}}}}
tiers: {{{{medium: 4.0}}}}
curves: [linear]
pairs_per_cell: {{{{train: 1, test: 1}}}}
controls_per_kind: {{{{train: 0, test: 1}}}}
"""


@given(damaged())
@settings(QUICK, max_examples=20)
def test_measure_of_a_damaged_file_says_what_is_wrong(content: bytes) -> None:
    """A table, or one line that names the file, and status 1."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a.wav").write_bytes(content)
        try:
            audio.check_finite(audio.read(Path(folder) / "a.wav")[0])
            expected = 0
        except Refused:
            expected = 1
        assert main(["measure", f"{folder}/a.wav", "--json"]) == expected


@pytest.mark.parametrize("rate_hz", [100, 500, 2000, 3000, LEAST_RATE_HZ - 1, LEAST_RATE_HZ, 11_025, 96_000, 192_000])
@pytest.mark.parametrize("channels", [1, 2, 3])
def test_measure_gives_values_or_a_reason_at_any_rate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rate_hz: int, channels: int
) -> None:
    """Strict JSON; under 8 kHz no value of anything, and the reason is the rate; no warning."""
    tone = 0.2 * np.sin(2.0 * np.pi * 40.0 * np.arange(rate_hz) / rate_hz)
    soundfile.write(tmp_path / "a.wav", np.repeat(tone[:, None], channels, 1), rate_hz, subtype="FLOAT")
    assert main(["measure", str(tmp_path / "a.wav"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(f"{name} isn't JSON"))
    for contour in found.values():
        has_value = any(value is not None for value in contour["value"])
        assert has_value == (contour["no_value"] is None)
        assert rate_hz >= LEAST_RATE_HZ or contour["no_value"].startswith(f"sampled at {rate_hz} Hz")
    assert main(["measure", str(tmp_path / "a.wav")]) == 0
    assert (f"sampled at {rate_hz} Hz" in capsys.readouterr().out) == (rate_hz < LEAST_RATE_HZ)


def test_measure_of_samples_that_no_sound_has_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers that would overflow when they're squared are told like those that aren't finite."""
    soundfile.write(tmp_path / "a.wav", np.full(16_000, 1e200), 16_000, subtype="DOUBLE")
    assert main(["measure", str(tmp_path / "a.wav")]) == 1
    assert "not_finite: 16000 samples" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_what_a_terminal_cannot_print_is_escaped(tmp_path: Path, encoding: str) -> None:
    """Speakers, paths and messages, on stdout and stderr: with escapes where need be, and no traceback."""
    name = os.fsdecode(b"caf\xe9")
    for speaker, number in zip(("Žofie", "b", "c", "d"), SPEAKERS, strict=True):
        put(tmp_path / "corpus" / speaker / "1.wav", utterance(number, 0))
    (tmp_path / "corpus" / "Žofie" / f"{name}.wav").write_bytes(WHOLE["WAV"])
    recipe = recipe_of(tmp_path, [{"folder": "corpus", "layout": {"kind": "files"}, **LICENCE}]).name
    put(tmp_path / "build.yaml", RECIPE.format(recipe))
    told = {"PYTHONIOENCODING": encoding, "VOCALGRAD_CACHE": str(tmp_path / "cache")}
    done = run("sources", "--recipe", tmp_path / "build.yaml", "--workers", "1", **told)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert ("Žofie" if encoding == "utf-8" else r"\u017dofie") in done.stdout
    assert r"caf\xe9.wav: unreadable: its name isn't UTF-8" in done.stdout
    path = tmp_path / f"{name}.wav"
    path.write_bytes(WHOLE["WAV"])
    measured, missing = run("measure", path, **told), run("measure", tmp_path / f"no {name}", **told)
    assert (measured.returncode, measured.stderr) == (0, "")
    assert r"caf\udce9.wav: 0.25 s" in measured.stdout
    assert (missing.returncode, missing.stdout) == (1, "")
    assert missing.stderr.endswith("no caf\\udce9\n")


@given(st.lists(damaged(), min_size=1, max_size=4))
@example([b""])
@settings(QUICK, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_sources_counts_what_is_damaged(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, contents: list[bytes]) -> None:
    """A corpus of nothing but damaged files is listed, each file with its reason or as too short a sound."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        monkeypatch.setenv("VOCALGRAD_CACHE", str(folder / "cache"))
        for number, content in enumerate(contents):
            put(folder / "corpus" / f"speaker {number}" / "1.wav", content)
        recipe = recipe_of(folder, [{"folder": "corpus", "layout": {"kind": "files"}, **LICENCE}]).name
        put(folder / "build.yaml", RECIPE.format(recipe))
        capsys.readouterr()
        status = main(["sources", "--recipe", str(folder / "build.yaml"), "--workers", "1"])
        said = capsys.readouterr()
        assert (status, said.err) == (0, "")
        assert sum(line.startswith("  speaker ") for line in said.out.splitlines()) == len(contents)


@pytest.mark.parametrize(
    ("files", "told"), [({}, "no recordings of the layout files"), ({"notes.txt": b"x"}, "no recordings of the layout files")]
)
def test_sources_of_nothing_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str], files: dict[str, bytes], told: str) -> None:
    """An empty corpus, and one without sound: status 1 and one message; a missing one is named."""
    recipe = recipe_of(tmp_path, [{"folder": "corpus", "layout": {"kind": "files"}, **LICENCE}]).name
    put(tmp_path / "build.yaml", RECIPE.format(recipe))
    command = ["sources", "--recipe", str(tmp_path / "build.yaml"), "--workers", "1"]
    assert main(command) == 1
    assert "corpus: no such folder" in capsys.readouterr().err
    (tmp_path / "corpus").mkdir()
    for name, content in files.items():
        put(tmp_path / "corpus" / name, content)
    assert main(command) == 1
    assert told in capsys.readouterr().err
