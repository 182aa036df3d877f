"""Plans a large release over a made-up corpus table, and prints what it took.

    python -m bench.plan_scale                       # 100,000 cuts of 1,000 speakers, 1,000,000 pairs of 15 dimensions
    python -m bench.plan_scale --shape vctk          # a table like VCTK's, recipes/release.yaml as it is

No audio is read: the table says where cuts would lie. Everything after it is what a build does: sources of every kind, splits,
shards, digests, the digests again as a resumed build asks for them, and the first
candidates of a cell of each dimension and split.

Shapes: `read` is a corpus of read speech, where a text in ten is read by a second speaker. `vctk` has 109 speakers of about 400
sentences, of which the first 24 are the same for all, and the others come from a list of 13,000, so that a text has three readers
on average.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from builder import plan, recipe, sources
from builder.corpora import Recording
from builder.cuts import Cut, Survey, Syllable
from builder.keys import digest, seed_of
from builder.plan import Plan
from builder.words import counted

RELEASE = Path(__file__).parent.parent / "recipes" / "release.yaml"
SYLLABLES_PER_CUT = (2, 3, 3)
"""As in the embedded corpus: 2.6 on average."""

MILLION = {"train": 112_000, "validation": 6_000, "test": 16_000}
"""Clips of each dimension that make a million pairs of fifteen."""


def read_texts(speaker: int, number: int) -> str:
    """Sentence of a speaker's recording; one in ten is another speaker's too."""
    draw = seed_of("bench", speaker, number)
    return f"shared sentence {draw % 1_000_003 % 5_000}" if draw % 10 == 0 else f"sentence {number} of reader {speaker}"


def vctk_texts(speaker: int, number: int) -> str:
    """The first 24 are the same for all; the others are drawn from one list."""
    return f"passage {number}" if number < 24 else f"newspaper {seed_of('bench', speaker, number) % 13_000}"


def table(shape: str, n_cuts: int, n_speakers: int) -> Survey:
    """What a survey of such a corpus would find."""
    text_of = {"read": read_texts, "vctk": vctk_texts}[shape]
    found = Survey()
    for index in range(n_cuts):
        number, speaker = divmod(index, n_speakers)
        member = f"wav/p{speaker:04d}/p{speaker:04d}_{number:04d}.wav"
        sex = "fm"[speaker % 2]
        recording = Recording(member, f"p{speaker:04d}", sex, "en", text_of(speaker, number), "CC-BY-4.0", "A corpus of read speech")
        cut = Cut(recording, 4_000, 4_000 + 40_000 + seed_of(member) % 20_000, whole=True)
        found.checksum[member] = digest(["file", member])
        found.cuts.append(cut)
        starts = [cut.start + 9_000 * turn for turn in range(SYLLABLES_PER_CUT[index % 3])]
        found.syllables += [Syllable(cut, start, start + 3_200) for start in starts]
    return found


class Clock:
    """Seconds of each step, and the most memory so far."""

    def __init__(self) -> None:
        self._last = self._now()
        self.total_s = self.cpu_s = 0.0

    @staticmethod
    def _now() -> tuple[float, float]:
        return time.perf_counter(), time.process_time()

    def lap(self, what: str) -> None:
        """Print a step that just ended."""
        took_s, cpu_s = (now - then for now, then in zip(self._now(), self._last, strict=True))
        self.total_s += took_s
        self.cpu_s += cpu_s
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
        print(f"{what:<52}{took_s:>7.1f} s, CPU {cpu_s:>6.1f} s{peak_mb:>8.0f} MB at most", flush=True)
        self._last = self._now()


def clips(made: Plan) -> Iterator[str]:
    """Lines of a table: clips, controls, cells, sources and shortages of each dimension and split."""
    short = Counter(f"{item.cell.dimension} {item.cell.split}" for item in made.shortages)
    yield f"{'dimension':<15}{'split':<12}{'clips':>8}{'controls':>10}{'cells':>7}{'shards':>8}{'real sources':>14}{'short':>7}"
    for (name, split), group in itertools.groupby(made.shards, key=lambda shard: (shard.dimension, shard.split)):
        shards = list(group)
        swept = [shard for shard in shards if not shard.controls]
        n_clips, n_controls = 2 * sum(shard.n_wanted for shard in swept), sum(shard.n_wanted for shard in shards if shard.controls)
        cells = len({cell for shard in swept for cell, _ in shard.wanted})
        n_sources = sum(len(specs) for shard in swept for specs in shard.pool.values())
        lacking = short[f"{name} {split}"]
        yield f"{name:<15}{split:<12}{n_clips:>8}{n_controls:>10}{cells:>7}{len(shards):>8}{n_sources:>14}{lacking:>7}"


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=("read", "vctk"), default="read")
    parser.add_argument("--cuts", type=int, default=None, help="cuts of speech (default: 100000; vctk 44000)")
    parser.add_argument("--speakers", type=int, default=None, help="speakers (default: 1000; vctk 109)")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(argv)
    n_cuts, n_speakers = (44_000, 109) if asked.shape == "vctk" else (100_000, 1_000)

    clock = Clock()
    used = recipe.load(RELEASE, asked.seed)
    if asked.shape == "read":
        parts = tuple(part.model_copy(update={"clips": MILLION}) for part in used.dimensions)
        used = used.model_copy(update={"dimensions": parts})
    clock.lap("recipe and imports")
    found = table(asked.shape, asked.cuts or n_cuts, asked.speakers or n_speakers)
    clock.lap("table, made up")
    clock.total_s = clock.cpu_s = 0.0
    real = sources.specs_of("bench", found, used.sample_rate_hz)
    del found
    clock.lap(", ".join(f"{len(specs)} {kind}" for kind, specs in real.items()))
    made = plan.make(used, real)
    clock.lap("splits, pools and shards")
    whole = made.digest
    clock.lap("digest of every shard")
    for shard in made.shards:
        plan.shard_digest(shard)
    clock.lap("digests again, as when resuming")
    some = [shard for shard in made.shards if shard.index == 0]
    tried = [pair for shard in some for cell, count in shard.wanted[:1] for pair in itertools.islice(plan.candidates(shard, cell), count)]
    clock.lap(f"{counted(len(tried), 'first candidate')} of {counted(len(some), 'cell')}")

    print("\n" + "\n".join(clips(made)))
    n_pairs = sum(shard.n_wanted for shard in made.shards if not shard.controls)
    speakers = Counter(made.split_of.values())
    print("\n" + ", ".join(f"{counted(speakers[split], 'speaker')} in {split}" for split in used.splits))
    print("refused by the splits: " + (", ".join(f"{reason} {count}" for reason, count in made.refused.items()) or "nothing"))
    for item in made.shortages:
        print(item)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
    print(f"{counted(n_pairs, 'pair')} in {counted(len(made.shards), 'shard')}, plan {whole[:16]}")
    print(f"{clock.total_s:.1f} s ({clock.cpu_s:.1f} s of CPU), {peak_mb:.0f} MB at most")


if __name__ == "__main__":
    main()
