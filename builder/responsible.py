"""What a dataset is made from, can't tell, leans to and may do: the fields of responsible AI and provenance, from its own numbers.

The words are fixed, as what they say holds for every dataset that is built here; every number and name in them comes out of the
manifest and the rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builder.acoustics import voice
from builder.dimensions import BY_NAME
from builder.keys import digest
from builder.layout import read_rows, split_of
from builder.words import counted

ROW_COLUMNS = ["direction", "source_kind", "source_id", "speaker_id", "language", "licence", "attribution"]


@dataclass(frozen=True)
class Facts:
    """What is counted in the rows of a dataset.

    Parameters
    ----------
    n_clips, n_controls
        All clips; those of them that have no direction.
    n_real
        Clips that are made from recordings of people.
    n_sources
        Distinct sources.
    kinds
        Clips by kind of source.
    speakers
        Splits of real speakers.
    languages, sexes
        Clips of real voices by language and by sex (`f`, `m`); what a corpus doesn't tell is `not told`.
    voice_licences
        Licences of the recordings of people.
    attributions
        Clips by licence and line of attribution.
    """

    n_clips: int
    n_controls: int
    n_real: int
    n_sources: int
    kinds: Counter[str]
    speakers: Mapping[str, str]
    languages: Counter[str]
    sexes: Counter[str]
    voice_licences: frozenset[str]
    attributions: Counter[tuple[str, str]]


def facts(root: Path, manifest: Mapping[str, Any]) -> Facts:
    """Count what the prose tells; reads the shards."""
    rows = [{**row, "split": split_of(item["shard"])} for item in manifest["shards"] for row in read_rows(root, item["shard"], ROW_COLUMNS)]
    real = [row for row in rows if row["source_kind"] not in voice.MAKERS]
    sex = manifest["sources"]["sex"]
    return Facts(
        n_clips=len(rows),
        n_controls=sum(row["direction"] is None for row in rows),
        n_real=len(real),
        n_sources=len({row["source_id"] for row in rows}),
        kinds=Counter(row["source_kind"] for row in rows),
        speakers={row["speaker_id"]: row["split"] for row in real},
        languages=Counter(row["language"] or "not told" for row in real),
        sexes=Counter({"f": "women", "m": "men"}.get(sex.get(row["speaker_id"]), "not told") for row in real),
        voice_licences=frozenset(row["licence"] for row in real),
        attributions=Counter((row["licence"], row["attribution"]) for row in rows),
    )


def fields(manifest: Mapping[str, Any], found: Facts) -> dict[str, Any]:
    """The `rai:` and `prov:` fields of a dataset's description."""
    return {
        "rai:dataCollection": _collection(manifest, found),
        "rai:hasSyntheticData": True,  # in every build: no clip is a recording as it was made
        "rai:dataLimitations": _limitations(manifest, found),
        "rai:dataBiases": _biases(manifest, found),
        "rai:personalSensitiveInformation": _personal(found),
        "rai:dataUseCases": _uses(found),
        "rai:dataSocialImpact": (
            "It lets a claim that a model hears be tested apart from words, and shows which audible changes a model misses. It tells "
            "nothing about people. The processing that makes it (moving the pitch, rate or spectrum of a voice) could be misused on other "
            "recordings, and is no more than what public tools already do."
        ),
        "rai:dataReleaseMaintenancePlan": (
            f"This is release {manifest['release']}. A release never changes: a correction, another seed or other sources make another "
            "release with its own version or seed. The recipe, the seed and the versions named in manifest.json make the same bytes again, "
            "unless the seed is kept secret; a maintainer makes fresh splits with a new seed when these may have been trained on."
        ),
        "prov:wasDerivedFrom": _derived_from(manifest, found),
        "prov:wasGeneratedBy": _generated_by(manifest),
    }


def _counts(counter: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counter.items(), key=lambda item: (-item[1], item[0])))


def _names(names: Iterable[str]) -> str:
    return ", ".join(names)


def _dimensions(manifest: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(cell["dimension"] for cell in manifest["cells"]))


def _collection(manifest: Mapping[str, Any], found: Facts) -> str:
    swept = [cell for cell in manifest["cells"] if cell["curve"] != "flat"]
    tried, published = (sum(cell[key] for cell in swept) for key in ("tried", "published"))
    carriers = (
        f"{found.n_real} of the {counted(found.n_clips, 'clip is', 'clips are')} made from recordings of "
        f"{counted(len(found.speakers), 'speaker')} in the corpora that prov:wasDerivedFrom names, which are cut, brought to one level and "
        "processed"
        if found.n_real
        else f"all {counted(found.n_clips, 'clip is', 'clips are')} made from synthesis; no recording of a person is in it"
    )
    return (
        f"Made by a program: {carriers}. Clips by kind of source: {_counts(found.kinds)}. One property of each labelled clip is swept, "
        "rising in one clip of a pair and falling in the other. The label is what is then measured in the published samples, never "
        f"what was asked for: {published} of {counted(tried, 'pair that was tried was', 'pairs that were tried were')} published, the "
        "others were rejected and counted by reason. No person annotated or listened to them."
    )


def _limitations(manifest: Mapping[str, Any], found: Facts) -> list[str]:
    names = _dimensions(manifest)
    linked = [f"{name} with {_names(BY_NAME[name].linked)}" for name in names if BY_NAME[name].linked]
    running = [name for name in names if BY_NAME[name].jnd.running != BY_NAME[name].jnd.steady]
    lines = [
        "Nobody has listened to the clips: that a change can be heard is concluded from measurements and from thresholds in the "
        "literature, not from a listening test of this dataset.",
        "J, the unit of just noticeable change that tiers count in, is a convention until listeners confirm it"
        + (f", and was raised for running speech in {_names(running)}" if running else "")
        + ": a tier needn't be equally hard in different dimensions.",
        f"Clips are {manifest['recipe']['sample_rate_hz']} Hz, a few seconds long, and one property at a time rises or falls once: scores "
        "say nothing about other sounds, about changes that come and go, or about several at once.",
        f"{counted(found.n_clips - found.n_controls, 'labelled clip comes', 'labelled clips come')} from "
        f"{counted(found.n_sources, 'source')}, controls' included: clips of one source aren't independent, so intervals must cluster on "
        "source_id.",
    ]
    if found.n_real:
        splits = _counts(Counter(found.speakers.values()))
        spoken = f"{counted(len(found.speakers), 'real speaker')} ({splits})"
        lines.append(f"{spoken}: enough for splits that share no speaker, not for statistics about speakers.")
    if linked:
        lines.append(f"By nature, or by their meters, these dimensions move together with others: {'; '.join(linked)}.")
    if manifest["unreachable"]:
        missing = [f"{item['dimension']} {item['tier']} on {item['kind']}" for item in manifest["unreachable"]]
        lines.append(f"Tiers that a kind of source can't span don't exist: {_names(missing)}.")
    return lines


def _biases(manifest: Mapping[str, Any], found: Facts) -> list[str]:
    rejected: Counter[str] = Counter()
    for cell in manifest["cells"]:
        rejected.update(cell["rejected"])
    kept = "Only pairs whose change measures clearly are published, so clips are cleaner than sounds as they come"
    lines = [f"{kept}. Pairs rejected by reason: {_counts(rejected) or 'none'}."]
    synthetic = {kind: count for kind, count in found.kinds.items() if kind in voice.MAKERS}
    if synthetic:
        share = f"{sum(synthetic.values())} of {counted(found.n_clips, 'clip is', 'clips are')} synthetic"
        lines.append(f"{share} ({_counts(synthetic)}), which models may not know.")
    if found.n_real:
        lines += [
            f"Clips of real voices by sex, as the recipe of the corpus tells it: {_counts(found.sexes)}.",
            f"Clips of real voices by language: {_counts(found.languages)}. Languages, accents, ages and voices that their corpora lack are"
            " missing.",
        ]
        refused = manifest["sources"]["refused"]
        lines.append(
            f"Recordings beyond the recipe's limits (length, level, noise, clipping, share of voice), or that would tie two splits "
            f"together, were refused. Refused by reason: {_counts(refused) or 'none'}."
        )
    lines.append("Questions and answers are in English.")
    return lines


def _personal(found: Facts) -> list[str]:
    if not found.n_real:
        return ["None: all sounds are synthesised, and no voice is that of a person."]
    people = counted(len(found.speakers), "real person", "real people")
    return [
        f"{counted(found.n_real, 'clip holds', 'clips hold')} voices of {people}. They come out of the corpora that "
        f"prov:wasDerivedFrom names, under the licence that each row names ({_names(sorted(found.voice_licences))}). A voice can identify "
        "a person; speaker_id is the name that the corpus gives to the speaker, which may be the speaker's own.",
        "The build makes no attempt to identify anyone; sex, language and words are those that the recipe of the corpus tells. It isn't "
        "there to identify speakers or to imitate their voices.",
        "What is said is what the corpora hold; it was not searched for personal information.",
    ]


def _uses(found: Facts) -> list[str]:
    lines = [
        "Meant for testing whether a model that takes audio hears one property rise or fall: accuracy by dimension and tier, on the split "
        "test.",
        "The splits train and validation are for probes and for fine-tuning; whoever trains on them should say so with the score.",
        "Not meant for recognising speakers, emotions, health or any trait of a person, nor as a measure of human hearing, nor for "
        "clinical use.",
    ]
    if found.n_controls:
        controls = counted(found.n_controls, "flat control tells", "flat controls tell")
        lines.append(f"{controls} a model's bias towards one answer; there is no right one.")
    return lines


def _derived_from(manifest: Mapping[str, Any], found: Facts) -> list[dict[str, Any]]:
    """One entity for every line of attribution: corpora, and synthesis."""
    return [
        {
            "@type": "prov:Entity",
            "@id": f"source/{digest([licence, line])}",
            "prov:label": line,
            "description": f"{counted(count, 'clip')}; licence {licence}, "
            f"which asks for: {manifest['sources']['licences'][licence]['asks']}",
            "license": manifest["sources"]["licences"][licence]["text"],
        }
        for (licence, line), count in sorted(found.attributions.items())
    ]


def _generated_by(manifest: Mapping[str, Any]) -> dict[str, Any]:
    versions = manifest["versions"]
    return {
        "@type": "prov:Activity",
        "@id": f"build/{manifest['plan_digest']}",
        "prov:label": f"Build of {manifest['name']} {manifest['release']} by vocalgrad {versions['vocalgrad']}",
        "description": (
            f"recipe {manifest['name']}, SHA-256 of its values {manifest['recipe_sha256']}; seed {manifest['seed']}; "
            f"digest of the plan {manifest['plan_digest']}"
        ),
        "prov:wasAssociatedWith": [
            {"@type": "prov:SoftwareAgent", "@id": f"software/{name}", "prov:label": name, "version": version}
            for name, version in versions.items()
        ],
    }
