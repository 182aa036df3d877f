"""What every column of a dataset holds, as Croissant's fields: a sentence and, where it's physical, a unit.

A unit of None with the words "the row's unit" means that `unit` says it, since each dimension has its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from datasets import Audio, ClassLabel, List

from builder.records import Direction


class Column(NamedTuple):
    """A column in words; `unit` is None where it has none, or where the row's `unit` says it."""

    about: str
    unit: str | None = None


COLUMNS = {
    "id": Column("Identifier of the clip: a hash of its plan, which tells nothing of the label."),
    "audio": Column("The clip: a whole FLAC file, 16 bit."),
    "question": Column("The question to ask, with both choices in it, in their order."),
    "choices": Column("The two answers, in the order of the question."),
    "answer": Column("The right one of the choices; null for controls."),
    "answer_index": Column("Place of the answer in the choices, from 0; null for controls."),
    "direction": Column(
        f"The label, as measured: {', '.join(f'{i} is {way.value}' for i, way in enumerate(Direction))}; null for controls."
    ),
    "dimension": Column("The audible property that is swept."),
    "tier": Column("How far it's swept: a name for a number of J, the dimension's unit of just noticeable change."),
    "curve": Column("Shape of the sweep over time; flat for controls."),
    "pair_id": Column("Identifier of the pair: the same source, tier and curve, once rising and once falling."),
    "source_kind": Column("What was swept: a cut of speech, syllables or a vowel of a real voice, or a kind of synthesis."),
    "source_id": Column("Identifier of the source. Clips of one source aren't independent."),
    "speaker_id": Column("The speaker, as the corpus names them, or the synthetic voice; null where no voice is heard."),
    "language": Column("Language spoken, as the corpus tells it; null where it isn't told, and for synthesis."),
    "text": Column("What is said, where the clip is all of its recording and the corpus tells it."),
    "duration_s": Column("Length of the clip.", "s"),
    "active_start_s": Column("Where the swept stretch begins.", "s"),
    "active_end_s": Column("Where the swept stretch ends.", "s"),
    "span": Column("Change that was asked for from end to end, signed, in the row's unit; 0 for controls."),
    "unit": Column("Unit of span, effect and contours."),
    "effect": Column("Change that was measured: median of the swept stretch's last third minus that of its first, in the row's unit."),
    "effect_jnd": Column("The effect in J.", "J"),
    "rank_correlation": Column("Spearman's rho of the measured contour with time."),
    "salience": Column("Size of the contour's trend over the standard deviation about it; null where nothing is about it."),
    "difference_gain": Column("Factor by which clip minus sham follows the planned curve; null for controls."),
    "difference_r_squared": Column("Share of clip minus sham that the planned curve explains; null for controls."),
    "witness": Column("What an independent measure of the samples says of the label; null for controls."),
    "witness_effect": Column("The independent measure's change, last third minus first; null where it can't be told."),
    "leak_jnd": Column("Change of every other measured dimension against the sham; null where it isn't held or can't be told.", "J"),
    "contour_time_s": Column("Times of the contours.", "s"),
    "contour_value": Column("The dimension over time as measured in the clip, in the row's unit; null where it has no value."),
    "contour_sham": Column("The same of the sham, which went through the same processing under a flat curve."),
    "label_basis": Column("heard: the label is measured in the clip alone; parts: in the parts that were mixed, as they are in it."),
    "plan": Column("JSON: all that is needed to make the clip again."),
    "audio_sha256": Column("SHA-256 of the FLAC file, hexadecimal."),
    "licence": Column("Licence of the source: an SPDX identifier, or one that begins with LicenseRef-."),
    "attribution": Column("The line to print for the source."),
    "paper_category": Column("What the original study calls the dimension; null if it has none."),
}
PRIMITIVES = {"string": "sc:Text", "float64": "cr:Float64", "float32": "cr:Float32", "int64": "cr:Int64"}


def files_of(config: str) -> str:
    """Identifier of a configuration's set of files."""
    return f"files/{config}"


def described(config: str, name: str, kind: Any) -> dict[str, Any]:
    """A column as a field of Croissant.

    Parameters
    ----------
    config
        The configuration whose record set it's in.
    name, kind
        Its name, and its type as `layout.features` has it.
    """
    column = COLUMNS[name]
    field = {"@type": "cr:Field", "@id": f"{config}/{name}", "name": name, "description": column.about}
    unit = {} if column.unit is None else {"unitText": column.unit}
    source = {"fileSet": {"@id": files_of(config)}, "extract": {"column": name}}
    if isinstance(kind, dict):
        inner = [
            {
                "@type": "cr:Field",
                "@id": f"{config}/{name}/{part}",
                "name": part,
                "description": f"Change of {part.replace('_', ' ')} against the sham.",
                "dataType": type_of(kind[part]),
                **unit,
                "source": {**source, "transform": {"jsonPath": part}},
            }
            for part in kind
        ]
        return {**field, "subField": inner}
    if isinstance(kind, Audio):
        return {
            **field,
            "dataType": type_of(kind),
            "encodingFormat": "audio/flac",
            "source": {**source, "transform": {"jsonPath": "bytes"}},
        }
    array = {"isArray": True, "arrayShape": "-1"} if isinstance(kind, List) else {}
    return {**field, "dataType": type_of(kind), **array, **unit, "source": source}


def type_of(kind: Any) -> str:
    """Croissant's type of a column, or of the items of a list."""
    if isinstance(kind, Audio):
        return "sc:AudioObject"
    if isinstance(kind, List):
        return type_of(kind.feature)
    return "cr:Int64" if isinstance(kind, ClassLabel) else PRIMITIVES[kind.dtype]
