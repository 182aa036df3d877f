"""Walks the stages over shards, on an executor, resuming.

    recipe -> sources -> plan -> (render -> measure -> label -> shard) per shard -> card -> validate -> audit -> publish

Publishing is a command of its own.

A build goes to `<out>.partial` and takes the place of `<out>` only when it's whole and valid, so what is under `<out>` is
never half-written; there it's audited, and its card written again with what the audit found. A shard that's already there
(in either place) is kept if its report carries the digest of the plan and the Parquet file has the checksum that the report
says (see `resume`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builder import checks, croissant, dataset, frontpage, licences, places, plan, recipe, resume, shard, sight, sources
from builder.acoustics import voice
from builder.engines import Engine, tell
from builder.errors import DatasetInvalid, LicencesForbid
from builder.factory import factory_digest, versions
from builder.fill import Context, Filler
from builder.layout import clear_temporary, parquet_path, read_rows, report_path, write_json
from builder.licences import Licence
from builder.plan import Plan
from builder.progress import Progress
from builder.records import CONTROLS, ShardPlan
from builder.synthesis import SYNTHESIS_LICENCE
from builder.words import counted
from builder.workers import Local

IN_PROCESS = Local(1)
CLIP_BYTES = 50_000
"""Of a clip and its row at 16 kHz, as docs/scale.md measured it."""
STAGES = ("recipe", "sources", "plan", "render", "measure", "label", "shard", "card", "validate", "audit", "publish")

# -- in a worker ------------------------------------------------------------------------------------------------------

_worker: dict[str, Any] = {}


def _start_worker(context: Context, root: Path, factory: str, mark: str) -> None:
    sight.check_shown(root, mark)
    _worker.update(context=context, root=root, factory=factory)


def _make_shard(planned: ShardPlan) -> dict[str, Any]:
    """Fill one shard and write its Parquet and report; returns the report."""
    filler = Filler(planned, _worker["context"], lambda done, rejected: tell((done, rejected)))
    filler.run()
    return write_shard(planned, filler, _worker["root"], _worker["factory"])


def write_shard(planned: ShardPlan, filler: Filler, root: Path, factory: str) -> dict[str, Any]:
    """Write a filled shard's Parquet, then its report.

    Returns
    -------
    dict
        The report.
    """
    checksum = shard.write(filler.rows, parquet_path(root, planned), planned.sample_rate_hz)
    report = resume.sealed(
        {
            "shard": planned.name,
            "plan_digest": plan.shard_digest(planned),
            "factory_digest": factory,
            "parquet_sha256": checksum,
            "n_rows": len(filler.rows),
            **filler.report(),
        }
    )
    write_json(report, report_path(root, planned))
    return report


# -- a whole build ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Built:
    """What a build made."""

    plan: Plan
    reports: tuple[Mapping[str, Any], ...]
    out: Path
    n_reused: int


def load_plan(path: Path, seed: int | None, engine: Engine = IN_PROCESS) -> tuple[Plan, sources.Gathered]:
    """Recipe, sources and plan, before any sound is made; recordings that were never surveyed are read by the workers.

    Raises
    ------
    LicencesForbid
        What may be drawn on can't be published as the recipe says.
    """
    checked = recipe.load(path, seed)
    with engine.each() as each:
        gathered = sources.gather(checked, path.parent, each)
    planned = plan.make(checked, gathered.by_kind, gathered.sex)
    _, refusals = licences.combine(_licences_used(planned), _known_licences(gathered), checked.licence)
    if refusals:
        raise LicencesForbid(refusals)
    return planned, gathered


def _licences_used(planned: Plan) -> dict[str, str]:
    """Licence of each source that a shard may use -> the first such source, for messages."""
    found = {SYNTHESIS_LICENCE: "synthesis"} if any(c.kind in voice.MAKERS for item in planned.shards for c, _ in item.wanted) else {}
    for spec in (spec for item in planned.shards for specs in item.pool.values() for spec in specs):
        name = f"{spec.parameters.get('member')} ({spec.speaker_id})"
        found[spec.licence] = min(found.get(spec.licence, name), name)
    return found


def _known_licences(gathered: sources.Gathered) -> dict[str, Licence]:
    return licences.known_with({name: terms for corpus in gathered.corpora.values() for name, terms in corpus.licences.items()})


def build(path: Path, seed: int | None, out: Path, engine: Engine, say: Callable[[str], None]) -> Built:
    """Make a whole dataset.

    Parameters
    ----------
    path, seed
        Recipe file; a seed to use instead of the recipe's.
    out
        Folder of the dataset; replaced only by a whole, valid one.
    engine
        Where the work is done; the result doesn't depend on it.
    say
        Takes lines for people.

    Raises
    ------
    VocalgradError
        With what to do; finished shards are kept.
    """
    asked, out = out, places.whole(out)
    resume.check_replaceable(out)
    say(f"recipe   {path}")
    planned, gathered = load_plan(path, seed, engine)
    plan.check_filled(planned)
    found = _counts({kind: len(specs) for kind, specs in gathered.by_kind.items()}) or "synthesis only"
    counts = Counter(gathered.refused) + Counter(planned.refused)
    refused = f"refused {_counts(counts)}" if counts else "nothing refused"
    say(f"sources  {found}; {counted(len(planned.split_of), 'real speaker')}; {refused}")
    n_pairs = sum(item.n_wanted for item in planned.shards if not item.controls)
    n_controls = sum(item.n_wanted for item in planned.shards if item.controls)
    clips = f"{counted(n_pairs, 'pair')} and {counted(n_controls, 'control')} ({counted(2 * n_pairs + n_controls, 'clip')})"
    say(f"plan     {clips} in {counted(len(planned.shards), 'shard')}; seed {planned.recipe.seed_name}, {engine}")
    with resume.locked(out):
        resume.recover(out, say)
        n_bytes = sum(CLIP_BYTES * item.n_clips * item.sample_rate_hz // 16_000 for item in planned.shards)
        resume.check_room(out, n_bytes, counted(2 * n_pairs + n_controls, "clip"))
        partial = resume.partial_of(out)
        if not places.is_remote(partial):
            partial.mkdir(exist_ok=True)
        context = Context(gathered.corpora, planned.recipe.speech, gathered.bandwidth_hz)
        reports, n_reused = _fill_all(planned, context, partial, out, engine, say)
        _finish(planned, gathered, reports, partial)
        say("validate every clip is decoded and measured again")
        faults = checks.validated(partial, engine, dataset.Remaker(path), say=say)
        if faults:
            raise DatasetInvalid(f"{partial} isn't valid and was not published:\n" + "\n".join(f"  {fault}" for fault in faults))
        resume.swap(partial, out)
    return Built(planned, tuple(reports), asked, n_reused)


def _fill_all(
    planned: Plan, context: Context, partial: Path, out: Path, engine: Engine, say: Callable[[str], None]
) -> tuple[list[dict[str, Any]], int]:
    factory = factory_digest()
    reports = resume.kept(planned.shards, factory, partial, out, say)
    resume.clear_stale(planned.shards, partial, reports, say)
    n_reused = len(reports)
    todo = sorted((item for item in planned.shards if item.name not in reports), key=lambda item: -item.n_wanted)
    if todo:
        for report in _run(todo, context, partial, factory, engine, say):
            reports[report["shard"]] = report
        clear_temporary(partial)  # of workers that died over a shard which another has made
    return [reports[item.name] for item in planned.shards], n_reused


def _run(
    todo: list[ShardPlan], context: Context, partial: Path, factory: str, engine: Engine, say: Callable[[str], None]
) -> Iterator[dict[str, Any]]:
    """Make shards on workers, largest first; yields reports as they're finished."""
    n_clips = sum(item.n_clips for item in todo)
    names = [item.name for item in todo]
    with (
        sight.shown(partial) as mark,
        closing(engine.team(_start_worker, (context, partial, factory, mark))) as team,
        Progress("build", n_clips, say) as progress,
    ):
        for _, report in team.run(_make_shard, [(item,) for item in todo], progress.told, names):
            yield report


def _finish(planned: Plan, gathered: sources.Gathered, reports: list[dict[str, Any]], partial: Path) -> None:
    """Manifest, licences, card and the card for machines: what makes shards a dataset."""
    manifest = manifest_of(planned, gathered, reports)
    write_json(manifest, partial / "manifest.json")
    frontpage.write(partial, manifest)
    croissant.write(partial, manifest)


def manifest_of(planned: Plan, gathered: sources.Gathered, reports: list[dict[str, Any]]) -> dict[str, Any]:
    """Everything that says what a build is: recipe, seed, versions, digests, counts, sources."""
    used = planned.recipe
    values = used.model_dump(mode="json")
    names = list(gathered.corpora)
    values["speech"]["corpus"] = names if len(names) > 1 else next(iter(names), None)
    values["seed"] = used.seed_name
    counts = Counter(gathered.refused) + Counter(planned.refused)
    refused = {"refused": dict(sorted(counts.items())), "details": sorted(gathered.details)}
    known = _known_licences(gathered)
    return {
        "name": used.name,
        "version": used.version,
        "seed": used.seed_name,
        "release": used.release,
        "recipe": values,
        "recipe_sha256": used.digest,
        "plan_digest": planned.digest,
        "versions": versions(),
        "shards": [{key: report[key] for key in ("shard", "plan_digest", "parquet_sha256", "n_rows")} for report in reports],
        "cells": [cell for report in reports for cell in report["cells"]],
        "imposed": [outcome for report in reports for outcome in report["imposed"]],
        "unreachable": [dict(zip(("dimension", "kind", "tier"), item, strict=True)) for item in planned.unreachable],
        "sources": {
            **refused,
            "speakers": {speaker: planned.split_of[speaker] for speaker in sorted(planned.split_of)},
            "sex": {speaker: sex for speaker in sorted(planned.split_of) if (sex := gathered.sex.get(speaker))},
            "licences": {name: {"text": known[name].text, "asks": known[name].asks} for name in sorted(_licences_used(planned))},
        },
    }


def _counts(counter: Mapping[str, int]) -> str:
    return ", ".join(f"{reason} {count}" for reason, count in sorted(counter.items(), key=lambda item: -item[1]))


def table(reports: tuple[Mapping[str, Any], ...]) -> str:
    """Per dimension and split: pairs tried, published, and rejected by reason."""
    rows: dict[tuple[str, str], Counter[str]] = {}
    for report in reports:
        for cell in report["cells"]:
            name = f"{cell['dimension']} {CONTROLS}" if cell["curve"] == "flat" else cell["dimension"]
            row = rows.setdefault((name, cell["split"]), Counter())
            row.update({"wanted": cell["wanted"], "tried": cell["tried"], "published": cell["published"]})
            row.update({f"- {reason}": count for reason, count in cell["rejected"].items()})
    lines = [f"{'pairs of':<24}{'split':<12}{'planned':>8}{'tried':>7}{'published':>11}  rejected by reason"]
    for (dimension, split), row in sorted(rows.items(), key=lambda item: item[0][0].endswith(CONTROLS)):
        rejected = {key[2:]: count for key, count in row.items() if key.startswith("- ")}
        lines.append(f"{dimension:<24}{split:<12}{row['wanted']:>8}{row['tried']:>7}{row['published']:>11}  {_counts(rejected) or 'none'}")
    return "\n".join(lines)


def any_clip(built: Built) -> tuple[str, str]:
    """Identifier and dimension of the first clip: an example for people."""
    first = built.plan.shards[0]
    return str(read_rows(built.out, first.name, ["id"])[0]["id"]), first.dimension
