"""The bench's made-up tables are what they say, and the command runs."""

from __future__ import annotations

from collections import defaultdict

import pytest

from bench import plan_scale


def test_the_vctk_table_has_its_passage() -> None:
    """The first 24 sentences are everybody's, the others have about three readers in the whole table."""
    found = plan_scale.table("vctk", 44_000, 109)
    readers: dict[str, set[str]] = defaultdict(set)
    for cut in found.cuts:
        readers[cut.recording.text or ""].add(cut.recording.speaker)
    assert sum(len(names) == 109 for names in readers.values()) == 24
    others = [len(names) for names in readers.values() if len(names) < 109]
    assert 2.5 < sum(others) / len(others) < 3.7
    assert 2.6 < len(found.syllables) / len(found.cuts) < 2.7


@pytest.mark.parametrize("shape", ["read", "vctk"])
def test_the_bench_prints_what_it_took(shape: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each step, each dimension and split, refusals, and the sum; on a table small enough for a test."""
    plan_scale.main(["--shape", shape, "--cuts", "3000", "--speakers", "60"])
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("pitch          test ") for line in lines)
    assert any(line.startswith("refused by the splits: text_in_other_split ") for line in lines)
    n_pairs = int(next(line for line in lines if " pairs in " in line).split()[0])
    assert n_pairs > {"read": 1_000_000, "vctk": 117_000}[shape]
    assert lines[-1].endswith("MB at most")
