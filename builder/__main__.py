"""`vocalgrad <stage>`: one subcommand per stage, `build` for all of them, `show` for a picture of one clip."""

from __future__ import annotations

import argparse
import glob
import json
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from builder import __version__, pin_threads
from builder.words import counted, nearest, unknown

if TYPE_CHECKING:
    from builder.engines import Engine
    from builder.pipeline import Built

DEFAULT_RECIPE = Path("recipes/default.yaml")
DEFAULT_OUT = Path("vocalgrad")
MAX_FAULTS = 50
ENGINES = ("local", "dask")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand.

    Returns
    -------
    int
        The exit status: 0 done, 1 a fault with a message, 2 wrong usage, 128 and the signal's number if one stopped it.
    """
    pin_threads()
    _print_anything()
    parser = _parser()
    arguments, strange = parser.parse_known_args(argv)
    if strange:
        arguments.parser.refuse(strange)
    if getattr(arguments, "scheduler", None) is not None and arguments.engine != "dask":
        parser.error(f"--scheduler {arguments.scheduler} is for --engine dask: add that, or leave --scheduler out")
    _heed_signals()
    from builder.errors import VocalgradError

    try:
        status: int = arguments.run(arguments)
    except VocalgradError as error:
        print(f"vocalgrad {arguments.command}: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            return 0
        place = f": {error.filename}" if error.filename else ""
        print(f"vocalgrad {arguments.command}: {error.strerror or error}{place}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as stop:
        print("\nvocalgrad: stopped; finished shards are kept: run the same command again to go on", file=sys.stderr)
        return 128 + (stop.args[0] if stop.args else signal.SIGINT)
    return status


def _print_anything() -> None:
    """Have what a terminal can't show printed with escapes: names of speakers and files may hold any sign, and bytes that are none."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _heed_signals() -> None:
    """Let SIGTERM stop a command as Ctrl-C does, also where a shell has its background jobs ignore that; SIGHUP unless it's ignored."""

    def stop(number: int, _: object) -> None:
        raise KeyboardInterrupt(number)

    signal.signal(signal.SIGTERM, stop)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup has it
        signal.signal(signal.SIGHUP, stop)


class _Parser(argparse.ArgumentParser):
    """A parser that names the nearest known word for one that it doesn't know."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(action, unknown("name", value, list(action.choices)))

    def refuse(self, strange: Sequence[str]) -> NoReturn:
        """End with what is wrong about arguments that no option takes."""
        options = [option for action in self._actions for option in action.option_strings]
        told = [f"{word}{nearest(word.partition('=')[0], options) if word.startswith('-') else ''}" for word in strange]
        self.error(f"unknown: {', '.join(told)}; `{self.prog} --help` lists what it takes")


def _parser() -> _Parser:
    parser = _Parser(prog="vocalgrad", description="A factory for directional acoustic-perception datasets.")
    parser.add_argument("--version", action="version", version=f"vocalgrad {__version__}")
    stages = parser.add_subparsers(dest="command", required=True, metavar="STAGE", title="stages, and other commands")

    def stage(name: str, run: Callable[[argparse.Namespace], int], text: str, *, planned: bool = False) -> _Parser:
        added = stages.add_parser(name, help=text, description=text)
        added.set_defaults(run=run, parser=added)
        if planned:
            added.add_argument("--recipe", type=_local, default=DEFAULT_RECIPE, help="recipe file (default: %(default)s)")
            said = "seed to use instead of the recipe's: a number, or env:NAME for a secret in an environment variable"
            added.add_argument("--seed", type=_seed, default=None, help=said)
        return added

    def on_clip(added: argparse.ArgumentParser, also: str = "") -> None:
        added.add_argument("id", help=f"identifier of a published clip, or its beginning{also}")
        added.add_argument("--dataset", type=_place, default=DEFAULT_OUT, help="folder or URL of the dataset (default: %(default)s)")
        added.add_argument("--recipe", type=_local, default=DEFAULT_RECIPE, help="recipe, to find its corpus (default: %(default)s)")

    def with_workers(added: argparse.ArgumentParser, *, anywhere: bool = True) -> None:
        said = "processes (default: as many as this process may use cores)"
        added.add_argument("--workers", type=_count, default=None, help=f"{said}; a running scheduler has its own" if anywhere else said)
        if anywhere:
            said = "where the work is done: processes here, or a dask cluster; the bytes are the same (default: %(default)s)"
            added.add_argument("--engine", choices=ENGINES, default="local", help=said)
            said = "of a running dask scheduler, tcp://host:8786, or its scheduler file; without it --engine dask starts a cluster here"
            added.add_argument("--scheduler", metavar="ADDRESS", default=None, help=said)
            said = "seconds to wait for the scheduler and its first worker (default: %(default)s)"
            added.add_argument("--wait", type=_count, default=60, metavar="S", help=said)

    stage("recipe", _recipe, "check a recipe and print it with every default filled in", planned=True)
    on = stage("sources", _sources, "fetch and check the speech corpus; list speakers and refusals", planned=True)
    with_workers(on)
    on = stage("plan", _plan, "print what would be built: shards, cells, candidates", planned=True)
    with_workers(on)
    on.add_argument(
        "--diff", type=_place, default=None, metavar="DATASET", help="a built dataset, or its manifest: print what would change"
    )
    on = stage("render", _render, "make a published clip again from its row and prove it by checksum")
    on_clip(on)
    on.add_argument("--to", type=_local, default=None, metavar="FILE", help="FLAC file to write (default: ID.flac)")
    on = stage("measure", _measure, "measure every dimension of a sound file")
    on.add_argument("file", type=_local, help="sound file, in any format that libsndfile reads")
    on.add_argument("--json", action="store_true", help="print whole contours as JSON")
    on_clip(stage("label", _label, "print what a published clip's own bytes say, beside its published label"))
    on = stage("shard", _shard, "make one shard alone, by name as `vocalgrad plan` prints it", planned=True)
    on.add_argument("name", help="such as pitch/test-00000-of-00001")
    on.add_argument("--out", type=_place, default=DEFAULT_OUT, help="folder, or URL such as s3://bucket/vocalgrad (default: %(default)s)")
    on = stage("card", _card, "write a dataset's README, its picture and croissant.json again, from its manifest, shards and audit")
    on.add_argument("--dataset", type=_place, default=DEFAULT_OUT, help="folder or URL of the dataset (default: %(default)s)")
    on.add_argument("--url", metavar="ADDRESS", help="page where the dataset is, or will be, published; for croissant.json")
    on.add_argument("--published", metavar="DAY", help="day of its publication, such as 2026-01-31; for croissant.json")
    on = stage("validate", _validate, "reread a built dataset as a stranger would and list every fault")
    on.add_argument("--dataset", type=_place, default=DEFAULT_OUT, help="folder or URL of the dataset (default: %(default)s)")
    said = "also make K clips again from their rows, which needs the corpus (default: none)"
    on.add_argument("--again", type=_count, default=0, metavar="K", help=said)
    on.add_argument("--recipe", type=_local, default=DEFAULT_RECIPE, help="recipe, to find its corpus (default: %(default)s)")
    with_workers(on)
    on = stage("audit", _audit, "measure whether the labels of a dataset are true and what else tells them; print it and write audit/")
    on.add_argument("--dataset", type=_place, default=DEFAULT_OUT, help="folder or URL of the dataset (default: %(default)s)")
    on.add_argument(
        "--pairs",
        type=_count,
        default=48,
        help="pairs of each dimension in which every dimension is measured at first (default: %(default)s)",
    )
    with_workers(on)
    said = "check that the recipe's version is ready to be released: changelog, working tree, dataset"
    on = stage("release-check", _release_check, said, planned=True)
    on.add_argument("--dataset", type=_place, default=DEFAULT_OUT, help="folder or URL of the dataset (default: %(default)s)")
    on.add_argument("--source", type=_local, default=Path(), help="folder of the source, with CHANGELOG.md (default: here)")
    on = stage("publish", _publish, "put a finished, audited dataset on the Hugging Face Hub: one commit, compared, then tagged")
    on.add_argument("repo", help="namespace/name on the Hub")
    on.add_argument("--dataset", type=_place, default=DEFAULT_OUT, help="folder or URL of the dataset (default: %(default)s)")
    on.add_argument("--private", action="store_true", help="make the repository private")
    on.add_argument("--pr", action="store_true", help="propose it in a pull request instead")
    on.add_argument("--dry-run", action="store_true", help="only print what would be sent; needs no token and no network")
    with_workers(on)
    on = stage("pull-check", _pull_check, "download a published version into a fresh cache and validate it, row by row")
    on.add_argument("version", help="namespace/name@tag on the Hub")
    with_workers(on, anywhere=False)
    on = stage("build", _build, "run all stages: build a whole dataset and audit it; go on with one that was begun", planned=True)
    on.add_argument("--out", type=_place, default=DEFAULT_OUT, help="folder, or URL such as s3://bucket/vocalgrad (default: %(default)s)")
    with_workers(on)
    on = stage("export", _export, "write clips and metadata as files, for harnesses that don't read Parquet")
    on.add_argument("--dataset", type=_place, default=DEFAULT_OUT, help="folder or URL of the dataset (default: %(default)s)")
    on.add_argument("--as", dest="form", required=True, choices=("audiofolder", "webdataset", "jsonl"), help="how to write them")
    on.add_argument("--to", type=_local, required=True, metavar="FOLDER", help="folder to make; it must not be there")
    on.add_argument("--config", default="all", help="configuration, such as a dimension (default: %(default)s)")
    on.add_argument("--split", default=None, help="split (default: every one)")
    on = stage("show", _show, "draw a published clip with its contours, or pairs of a dimension, rising beside falling")
    on_clip(on, "; or a dimension, such as pitch")
    on.add_argument("--to", type=_local, default=None, metavar="FILE", help="PNG file to write (default: ID.png, or DIMENSION.png)")
    on = stage("commit-split", _commit_split, "write a commitment to a split that is held private, and the secret that opens it")
    on.add_argument("--dataset", type=_place, default=DEFAULT_OUT, help="folder or URL of the dataset (default: %(default)s)")
    on.add_argument("--split", default="test", help="split that is held private (default: %(default)s)")
    on.add_argument("--out", type=_local, required=True, help="file of the commitment, to publish now")
    on.add_argument("--secret", type=_local, default=None, help="file of the secret, to publish with the data (default: OUT with .secret)")
    on = stage("reveal-split", _reveal_split, "check that a dataset's split is what was committed to")
    on.add_argument("--dataset", type=_place, default=DEFAULT_OUT, help="folder or URL of the dataset (default: %(default)s)")
    on.add_argument("--commitment", type=_local, required=True, help="file that was published first")
    on.add_argument("--secret", type=_local, required=True, help="file that was published with the data")
    return parser


def _seed(text: str) -> int:
    from builder import seeds

    try:
        return seeds.parsed(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _place(text: str) -> Path:
    """A folder, or a URL."""
    from builder import places
    from builder.errors import StoreFault

    try:
        return places.parsed(text)
    except StoreFault as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _local(text: str) -> Path:
    """A file or folder of this machine."""
    path = _place(text)
    if not isinstance(path, Path):
        raise argparse.ArgumentTypeError(f"{text} is no file or folder of this machine; copy it here, or write here and copy it there")
    return path


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} isn't a whole number, 1 or more")
    return int(text)


def _say(line: str) -> None:
    print(line, flush=True)


def _engine(arguments: argparse.Namespace) -> AbstractContextManager[Engine]:
    from builder import engines

    return engines.opened(arguments.engine, arguments.workers, arguments.scheduler, arguments.wait)


def _recipe(arguments: argparse.Namespace) -> int:
    from builder import recipe

    checked = recipe.load(arguments.recipe, arguments.seed)
    values = {**checked.model_dump(mode="json"), "seed": checked.seed_name, "recipe_sha256": checked.digest}
    print(json.dumps(values, indent=1, allow_nan=False))
    return 0


def _sources(arguments: argparse.Namespace) -> int:
    from collections import Counter
    from itertools import chain

    from builder import recipe, sources, splits
    from builder.records import Reason

    checked = recipe.load(arguments.recipe, arguments.seed)
    with _engine(arguments) as engine, engine.each() as each:
        gathered = sources.gather(checked, arguments.recipe.parent, each)
    found = splits.assign(chain.from_iterable(gathered.by_kind.values()), checked)
    usable: Counter[tuple[str, str]] = Counter()
    refused: Counter[str] = Counter(gathered.refused)
    for spec in chain.from_iterable(gathered.by_kind.values()):
        where = found.of(spec)
        if isinstance(where, Reason):
            refused[where.value] += 1
        else:
            usable[splits.owner(spec), spec.kind] += 1
    print(f"{'speaker':<30}{'sex':<5}{'split':<12}" + "".join(f"{kind:>11}" for kind in gathered.by_kind))
    for speaker in sorted(found.of_owner):
        columns = "".join(f"{usable[speaker, kind]:>11}" for kind in gathered.by_kind)
        print(f"{speaker:<30}{gathered.sex.get(speaker) or '?':<5}{found.of_owner[speaker]:<12}{columns}")
    print(f"{counted(len(found.of_owner), 'speaker')}, " + ", ".join(f"{len(specs)} {kind}" for kind, specs in gathered.by_kind.items()))
    _print_bandwidths(gathered.bandwidth_hz)
    used = Counter(spec.licence for specs in gathered.by_kind.values() for spec in specs)
    print("licences: " + (", ".join(f"{name} {n}" for name, n in sorted(used.items())) or "none"))
    print("refused: " + (", ".join(f"{reason} {n}" for reason, n in sorted(refused.items())) or "nothing"))
    for line in gathered.details:
        print(f"  {line}")
    return 0


def _print_bandwidths(bandwidth_hz: Mapping[str, float]) -> None:
    """For each bandwidth that dimensions need, how many recordings reach it."""
    from builder.dimensions import DIMENSIONS

    needing: dict[float, list[str]] = {}
    for dimension in DIMENSIONS:
        needing.setdefault(dimension.band.needs_hz, []).append(dimension.name)
    for needs_hz, names in sorted(needing.items()):
        reach = sum(found >= needs_hz for found in bandwidth_hz.values())
        limit = f"up to {needs_hz:.0f} Hz" if needs_hz else "far enough, whatever their bandwidth"
        print(f"{reach} of {counted(len(bandwidth_hz), 'recording reaches', 'recordings reach')} {limit}: {', '.join(names)}")


def _plan(arguments: argparse.Namespace) -> int:
    from builder import difference, pipeline, plan

    with _engine(arguments) as engine:
        planned, _ = pipeline.load_plan(arguments.recipe, arguments.seed, engine)
    print(f"{'shard':<40}{'cells':>6}{'wanted':>8}  real sources")
    for item in planned.shards:
        pool = ", ".join(f"{kind} {len(specs)}" for kind, specs in item.pool.items()) or "none"
        print(f"{item.name:<40}{len(item.wanted):>6}{item.n_wanted:>8}  {pool}")
    for dimension, kind, tier in planned.unreachable:
        print(f"{dimension}: tier {tier} doesn't exist on {kind}: it needs a larger span than the dimension allows there")
    for shortage in planned.shortages:
        print(f"{'short' if shortage.fatal else 'tight'}: {shortage}")
    n_pairs = sum(item.n_wanted for item in planned.shards if not item.controls)
    n_controls = sum(item.n_wanted for item in planned.shards if item.controls)
    print(f"{counted(n_pairs, 'pair')} and {counted(n_controls, 'control')}, {counted(2 * n_pairs + n_controls, 'clip')}")
    print(f"release {planned.recipe.release}, plan {planned.digest[:16]}")
    first = next(plan.candidates(planned.shards[0], planned.shards[0].wanted[0][0]), None)
    if first is not None:
        print(f"first candidate: {first.cell}, span {first.span:g}, source {first.source.source_id}")
    if arguments.diff is not None:
        print("\n" + difference.text(difference.between(planned, arguments.diff)))
    plan.check_filled(planned)
    return 0


def _remaker(arguments: argparse.Namespace) -> Any:
    from builder import dataset

    return dataset.Remaker(arguments.recipe)


def _render(arguments: argparse.Namespace) -> int:
    from builder import dataset

    values = dataset.row(arguments.dataset, arguments.id)
    _, content = _remaker(arguments).clip(values)
    target = arguments.to or Path(f"{values['id']}.flac")
    target.write_bytes(content)
    same = dataset.same_bytes(values, content)
    verdict = f"sha256 {'equals' if same else 'DIFFERS from'} the published {values['audio_sha256'][:16]}"
    print(f"{target}: {counted(len(content), 'byte')}, {verdict}")
    if not same:
        print("the bytes depend on the code and on pinned packages: compare `versions` in manifest.json", file=sys.stderr)
    return 0 if same else 1


def _measure(arguments: argparse.Namespace) -> int:
    from builder import label, measure
    from builder.acoustics import audio
    from builder.dimensions import BY_NAME
    from builder.errors import NotFound, Refused, VocalgradError
    from builder.records import Sound

    if not arguments.file.is_file():
        raise NotFound(f"no such file: {arguments.file}")
    try:
        samples, rate = audio.read(arguments.file)
        audio.check_finite(samples)
    except Refused as refusal:
        raise VocalgradError(f"{arguments.file}: {refusal}") from refusal
    sound = Sound(samples if samples.shape[1] == 2 else samples.mean(axis=1), rate)
    contours = measure.measure_all(sound)
    if arguments.json:
        values = {
            name: {
                "time_s": contour.time_s.tolist(),
                "value": [value if told else None for value, told in zip(contour.value.tolist(), contour.valid, strict=True)],
                "no_value": measure.no_value(sound, contour),
            }
            for name, contour in contours.items()
        }
        print(json.dumps(values, allow_nan=False))
        return 0
    start_s, end_s = audio.active_region_s(sound)
    print(
        f"{arguments.file}: {sound.duration_s:.2f} s at {rate} Hz, active {start_s:.2f} to {end_s:.2f} s; contrast: last third less first"
    )
    print(f"{'dimension':<15}{'contrast':>10}{'rank':>7}{'valid':>7}  unit")
    for name, contour in contours.items():
        heard = label.hear(contour, start_s, end_s)
        print(f"{name:<15}{heard.contrast:>10.3f}{heard.rank_correlation:>7.2f}{heard.valid:>7.0%}  {BY_NAME[name].unit}")
    without: dict[str, list[str]] = {}
    for name, contour in contours.items():
        without.setdefault(measure.no_value(sound, contour) or "", []).append(name)
    print("".join(f"\nno value of {', '.join(without[why])}: {why}" for why in without if why))
    return 0


def _label(arguments: argparse.Namespace) -> int:
    from builder import dataset, label, measure
    from builder.acoustics import audio
    from builder.dimensions import BY_NAME
    from builder.records import Margins
    from builder.rows import from_json

    values = dataset.row(arguments.dataset, arguments.id)
    sound = audio.from_flac(values["audio"]["bytes"])
    dimension = BY_NAME[values["dimension"]]
    heard = label.hear(measure.measure(sound, dimension), values["active_start_s"], values["active_end_s"])
    pair, _ = from_json(json.loads(values["plan"]))
    said = {1: "up", -1: "down", 0: "nothing"}[label.direction_of(heard, pair.jnd, Margins())]
    published = {0: "up", 1: "down", None: "nothing"}[values["direction"]]
    print(f"{values['id']}: {dimension.name}: the bytes say {said}, published is {published}")
    print(f"contrast {heard.contrast:+.3f} {dimension.unit} (published {values['effect']:+.3f}), trend {heard.trend:+.3f},")
    print(
        f"rank {heard.rank_correlation:+.2f}, tau of blocks {heard.block_tau:+.2f}, salience {heard.salience:.2f}, valid {heard.valid:.0%}"
    )
    return 0 if said == published else 1


def _shard(arguments: argparse.Namespace) -> int:
    from builder import layout, pipeline, places, resume
    from builder.errors import NotFound
    from builder.factory import factory_digest
    from builder.fill import Context, Filler

    out = places.whole(arguments.out)
    resume.check_replaceable(out)
    planned, gathered = pipeline.load_plan(arguments.recipe, arguments.seed)
    mine = next((item for item in planned.shards if item.name == arguments.name), None)
    if mine is None:
        names = [item.name for item in planned.shards]
        hint = nearest(arguments.name, names) or f"; it has {', '.join(names[:4])}, ..."
        raise NotFound(f"the plan has no shard {arguments.name!r}{hint}; `vocalgrad plan` lists them")
    filler = Filler(mine, Context(gathered.corpora, planned.recipe.speech, gathered.bandwidth_hz))
    filler.run()
    partial = resume.partial_of(out)
    with resume.locked(out, shared=True):
        resume.go_on(out, _say)
        report = pipeline.write_shard(mine, filler, partial, factory_digest())
    print(pipeline.table((report,)))
    print(f"{layout.parquet_path(partial, mine)}: {counted(report['n_rows'], 'row')}, sha256 {report['parquet_sha256'][:16]}")
    return 0


def _card(arguments: argparse.Namespace) -> int:
    from builder import croissant, frontpage, layout

    manifest = layout.read_manifest(arguments.dataset)
    frontpage.write(arguments.dataset, manifest)
    croissant.write(arguments.dataset, manifest, arguments.url, arguments.published)
    print(arguments.dataset / "README.md")
    print(arguments.dataset / croissant.CROISSANT)
    return 0


def _validate(arguments: argparse.Namespace) -> int:
    from builder import checks, layout

    n_rows = sum(item["n_rows"] for item in layout.read_manifest(arguments.dataset)["shards"])
    remaker = _remaker(arguments) if arguments.again else None
    with _engine(arguments) as engine:
        faults = checks.validated(arguments.dataset, engine, remaker, arguments.again)
    for fault in faults:
        print(fault)
    print(f"{arguments.dataset}: {counted(n_rows, 'row')}, {counted(len(faults), 'fault')}")
    return 1 if faults else 0


def _audit(arguments: argparse.Namespace) -> int:
    from builder import audit, checks

    with _engine(arguments) as engine:
        found = checks.audited(arguments.dataset, engine, arguments.pairs)
    print(f"{audit.text(found)}\n\n{arguments.dataset / 'audit' / 'report.html'}: figures, pictures and sounds, to open in a browser")
    return 1 if found["failures"] else 0


def _release_check(arguments: argparse.Namespace) -> int:
    from builder import readiness, recipe

    checked = recipe.load(arguments.recipe, arguments.seed)
    print("\n".join(readiness.check(arguments.source, arguments.recipe, checked, arguments.dataset)))
    return 0


def _faults(folder: Path, engine: Engine) -> list[str]:
    """What is wrong with a dataset's rows."""
    from builder import checks

    _say(f"validate {folder}: every clip is decoded and measured again")
    return checks.validated(folder, engine)


def _publish(arguments: argparse.Namespace) -> int:
    from builder import publish, release
    from builder.errors import DatasetInvalid, VocalgradError

    if not isinstance(arguments.dataset, Path):
        told = f"publish sends files of this machine: copy {arguments.dataset} here, such as with `aws s3 sync`, and name the folder"
        raise VocalgradError(f"{told} with --dataset")
    look = publish.guess if arguments.dry_run else publish.look
    seen = look(release.read(arguments.dataset), arguments.repo, private=arguments.private, say=_say)
    if seen.tagged is not None:
        print(f"{arguments.repo}@{seen.release.tag} is published already, on commit {seen.tagged}: nothing is sent")
        return 0
    with _engine(arguments) as engine:
        faults = _faults(arguments.dataset, engine)
    if faults:
        raise DatasetInvalid(f"{arguments.dataset} isn't valid and was not published:\n" + "\n".join(f"  {fault}" for fault in faults))
    print(publish.preview(seen) if arguments.dry_run else publish.push(seen, private=arguments.private, pr=arguments.pr))
    return 0


def _pull_check(arguments: argparse.Namespace) -> int:
    from tempfile import TemporaryDirectory

    from builder import engines, layout, publish, release
    from builder.errors import NotPublished
    from builder.workers import Local

    repo_id, at, revision = arguments.version.partition("@")
    if not (at and revision):
        raise NotPublished(f"{arguments.version!r} names no version: write {repo_id or 'namespace/name'}@tag, such as @v0.1.0-seed.1")
    with TemporaryDirectory() as cache:
        fetched = publish.fetch(repo_id, revision, Path(cache), _say)
        manifest = layout.read_manifest(fetched.folder)
        faults = [*fetched.faults, *release.faults(fetched.folder, manifest), *release.tag_faults(manifest, revision)]
        faults += _faults(fetched.folder, Local(arguments.workers or engines.n_cores()))
    for fault in faults:
        print(fault)
    n_rows = sum(item["n_rows"] for item in manifest["shards"])
    print(f"{arguments.version} (commit {fetched.commit}): {counted(n_rows, 'row')}, {counted(len(faults), 'fault')}")
    return 1 if faults else 0


def _build(arguments: argparse.Namespace) -> int:
    with _engine(arguments) as engine:
        return _build_on(engine, arguments)


def _build_on(engine: Engine, arguments: argparse.Namespace) -> int:
    from builder import checks, pipeline

    built = pipeline.build(arguments.recipe, arguments.seed, arguments.out, engine, _say)
    print(pipeline.table(built.reports))
    some_id, dimension = pipeline.any_clip(built)
    n_clips = sum(report["n_rows"] for report in built.reports)
    print(f"\n{built.out}/ is whole and valid: release {built.plan.recipe.release}, {counted(n_clips, 'clip')}.", flush=True)
    print("Now its audit, of every clip ...", flush=True)
    found = checks.audited(built.out, engine, say=_say)
    page = f"{built.out / 'audit' / 'report.html'}: figures, pictures and sounds"
    if found["failures"]:
        print(f"the audit fails in {counted(len(found['failures']), 'point')}; don't publish this. See {page}", file=sys.stderr)
        print("\n".join(f"  {line}" for line in found["failures"]), file=sys.stderr)
        return 1
    print(f"the audit passes all of its {counted(len(found['gates']), 'gate')}. See {page}. Try next:")
    for line in _next_commands(built, arguments.recipe, some_id, dimension):
        print(f"  {line}")
    return 0


def _next_commands(built: Built, recipe: Path, some_id: str, dimension: str) -> Iterator[str]:
    """What to do with a dataset, to be copied into a shell: from any folder, with the recipe and the place of this build."""
    from builder import places
    from builder.commands import command, literal, python
    from builder.seeds import PUBLIC_BELOW

    place, recipe = places.whole(built.out), places.whole(recipe)
    named = f"{literal(place)}, {literal(dimension)}"
    if places.is_remote(place) or "[" in str(place):  # of a folder's path `datasets` takes [ for a pattern
        files = f"{place if places.is_remote(place) else glob.escape(str(place))}/data/{dimension}/*.parquet"
        named = f'"parquet", data_files={literal(files)}'
    clip = (some_id, "--dataset", place, "--recipe", recipe)
    yield python(f"from datasets import load_dataset; print(load_dataset({named}))")
    yield f"{command('show', *clip)}  # a picture of one clip"
    yield f"{command('render', *clip)}  # the same bytes again, from its row"
    seed = built.plan.recipe.seed
    if seed < PUBLIC_BELOW:
        again = command("build", "--recipe", recipe, "--out", place, "--seed", str((seed + 1) % PUBLIC_BELOW))
        yield f"{again}  # fresh splits in place of these"


def _export(arguments: argparse.Namespace) -> int:
    from builder import export

    counts = export.export(arguments.dataset, arguments.to, arguments.form, arguments.config, arguments.split)
    print(
        f"{arguments.to}: {arguments.form} of {arguments.config}: "
        + ", ".join(f"{split} {counted(n, 'clip')}" for split, n in counts.items())
    )
    return 0


def _show(arguments: argparse.Namespace) -> int:
    from builder import dataset, layout, show
    from builder.dimensions import BY_NAME
    from builder.errors import NotFound
    from builder.rows import CLIP, from_json

    if arguments.id in BY_NAME:
        target = arguments.to or Path(f"{arguments.id}.png")
        show.sheet(dataset.examples(arguments.dataset, arguments.id), target)
        print(target)
        return 0
    layout.read_manifest(arguments.dataset)
    if not arguments.id.startswith(CLIP):
        raise NotFound(f"{unknown('dimension', arguments.id, list(BY_NAME))}; a clip's identifier begins with {CLIP}")
    values = dataset.row(arguments.dataset, arguments.id)
    pair, _ = from_json(json.loads(values["plan"]))
    target = arguments.to or Path(f"{values['id']}.png")
    show.write(values, _remaker(arguments).source(pair), target)
    print(target)
    return 0


def _commit_split(arguments: argparse.Namespace) -> int:
    from builder import commitments, layout
    from builder.seeds import PUBLIC_BELOW

    secret = arguments.secret or arguments.out.with_name(arguments.out.name + ".secret")
    found = commitments.commit(arguments.dataset, arguments.split, arguments.out, secret)
    print(f"{arguments.out}: publish this now")
    print(f"{secret}: keep this; publish it with the data. Its SHA-256 is the commitment, and without it nothing can be proved")
    print(f"split {found['split']}, {counted(found['n_rows'], 'clip')}, sha256 {found['sha256']}")
    seed = layout.read_manifest(arguments.dataset).get("seed")
    if isinstance(seed, int) and seed < PUBLIC_BELOW:
        print(
            f"the dataset's seed, {seed}, is no secret: whoever tries it builds this split. Build private splits with --seed env:NAME",
            file=sys.stderr,
        )
    return 0


def _reveal_split(arguments: argparse.Namespace) -> int:
    from builder import commitments

    promised, faults = commitments.reveal(arguments.dataset, arguments.commitment, arguments.secret)
    for fault in faults[:MAX_FAULTS]:
        print(fault)
    if len(faults) > MAX_FAULTS:
        print(f"... and {len(faults) - MAX_FAULTS} more")
    verdict = (
        f"NOT what was committed to: {counted(len(faults), 'difference')}"
        if faults
        else f"what was committed to, all {counted(promised['n_rows'], 'clip')}"
    )
    print(f"{arguments.dataset}: split {promised['split']} is {verdict} (sha256 {promised['sha256']})")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
