"""The floor: what a published clip can't cost less than with these analyses, timed call by call on the clips that were published.

For each clip, and nothing twice:

- one resynthesis: the dimension's `manipulate`, with the source and what is known of it at hand (overlap-add by Praat, a filter, a
  mix, a gain, or the synthesis itself). Analyses of sounds that it makes on its way are not counted: a clip that is matched to its
  sham by measuring it first is not at the floor, nor is the matching (`restore`) itself;
- one of each analysis that its label needs: its own measure, its witness, and every held measure, on a sound of which nothing is known
  yet, so that an analysis which several of them share (spectrogram, F0, loudness) is made once;
- one FLAC encoding of its samples;
- its row's share of writing a Parquet file of the same rows.

That is the floor of a clip alone. A label also needs a sham, once for all clips of a source and dimension: `sham_s` is one resynthesis
and one of each analysis more per sham, spread over the clips that were published against it. Not in either: making the source,
candidates that were rejected, the label's statistics, and everything that is found out twice.

The floor stands on the analyses as they are implemented: it says what sharing and order cost, and falls when an analysis gets faster.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.clock import Clock, Seconds, add, replaced
from bench.stages import Published
from builder import measure, render, shard
from builder.acoustics import audio
from builder.dimensions import BY_NAME, MEASURES, Dimension
from builder.records import Sound


@dataclass
class Floor:
    """CPU seconds of all of a dimension's published clips together.

    Parameters
    ----------
    n_clips, n_shams
        Clips, and sounds that they were compared with.
    resynthesis_s, flac_s, parquet_s
        As the module says.
    analysis_s
        By analysis, as `Sound.once` knows it.
    """

    n_clips: int = 0
    n_shams: int = 0
    resynthesis_s: float = 0.0
    flac_s: float = 0.0
    parquet_s: float = 0.0
    analysis_s: Seconds = field(default_factory=lambda: defaultdict(float))

    @property
    def analyses_s(self) -> float:
        """All analyses."""
        return sum(self.analysis_s.values())

    @property
    def clip_s(self) -> float:
        """The clips alone."""
        return self.resynthesis_s + self.analyses_s + self.flac_s + self.parquet_s

    @property
    def sham_s(self) -> float:
        """What the shams of these clips need."""
        return (self.resynthesis_s + self.analyses_s) * self.n_shams / max(self.n_clips, 1)

    def add(self, other: Floor) -> None:
        """Count another's clips too."""
        self.n_clips += other.n_clips
        self.n_shams += other.n_shams
        self.resynthesis_s += other.resynthesis_s
        self.flac_s += other.flac_s
        self.parquet_s += other.parquet_s
        add(self.analysis_s, other.analysis_s)


def of(published: Sequence[Published], rows: Sequence[Mapping[str, Any]], path: Path) -> Floor:
    """The floor of one dimension's published clips.

    Parameters
    ----------
    rows
        What was published of them.
    path
        A Parquet file to write, which is removed again.
    """
    found = Floor(len(published), len({(item.pair.source.source_id, item.pair.movement) for item in published}))
    for item in published:
        found.resynthesis_s += _resynthesis_s(item)
        fresh = Sound(item.clip.sound.samples, item.clip.sound.sample_rate_hz, item.clip.sound.parts)
        add(found.analysis_s, _analysis_s(fresh, BY_NAME[item.pair.dimension]))
        clock = Clock()
        with clock.stretch("FLAC"):
            audio.flac_bytes(item.clip.sound)
        found.flac_s += clock.seconds["FLAC"]
    clock = Clock()
    with clock.stretch("Parquet"):
        shard.write(rows, path, published[0].pair.sample_rate_hz)
    path.unlink()
    found.parquet_s = clock.seconds["Parquet"]
    return found


def _resynthesis_s(item: Published) -> float:
    """Seconds of the bare sweep, without analyses of what it makes on its way."""
    clock = Clock()
    dimension = BY_NAME[item.pair.dimension]
    with _counted(clock), clock.stretch("resynthesis"):
        dimension.manipulate(item.source, render.planned(item.pair, item.source, item.clip.sign))
    return clock.seconds["resynthesis"]


def _analysis_s(fresh: Sound, dimension: Dimension) -> Seconds:
    """Seconds by analysis of all that a label of the dimension needs of one sound."""
    clock = Clock()
    with _counted(clock), clock.stretch("arithmetic"):
        measure.measure(fresh, dimension)
        measure.witness(fresh, dimension)
        for name, (other, _) in MEASURES.items():
            if other.name in dimension.holds and name not in dimension.linked:
                measure.held(fresh, name)
    return clock.seconds


def _counted(clock: Clock) -> Any:
    """Puts a name on each analysis that a sound makes once."""
    return replaced([(Sound, "once", lambda once: lambda sound, name, compute: once(sound, name, clock.timed(compute, name)))])
