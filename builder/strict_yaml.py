"""YAML as plain values, strictly: every fault of a file with its line, and models checked with the nearest known key.

Values are strings, true and false, whole and decimal numbers, null, lists and mappings with string keys. There are no tags,
aliases, merge keys, dates, octal or sexagesimal numbers, and `no` is a word (it's Norwegian).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from builder.words import nearest, unknown

Model = TypeVar("Model", bound=BaseModel)
Where = tuple[Any, ...]

MAX_DEPTH = 30


class Strict(BaseModel):
    """A model that takes known keys of the right type only, and finite numbers only."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def spelt(pattern: str, what: str) -> AfterValidator:
    """A check that text is spelt by a pattern, which people are told in words."""
    shape = re.compile(pattern)

    def check(value: str) -> str:
        if not shape.fullmatch(value):
            raise ValueError(f"{value!r} isn't {what}")
        return value

    return AfterValidator(check)


NEEDED = {
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": "text",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a mapping of keys to values",
    "mapping_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
}
"""Type of a fault -> what should have been there."""
LIMITS = {
    "greater_than": "more than {gt}",
    "greater_than_equal": "{ge} or more",
    "less_than": "less than {lt}",
    "less_than_equal": "{le} or less",
}
"""Type of a fault -> the limit that a number is beyond."""
LENGTHS = {
    "string_too_short": "must not be empty",
    "too_short": "too short: {min_length} or more are needed, and there are {actual_length}",
    "too_long": "too long: {max_length} are needed, and there are {actual_length}",
}
"""Type of a fault -> what is wrong with a length."""
QUOTED = (bool, int, float)
"""What YAML reads from words without quotes, and may have been meant as text."""


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 (PyYAML's own attribute)


_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), list("tf"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"^(?:~|null|)$"), ["~", "n", ""])
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^-?(?:0|[1-9][0-9]{0,18})$"), list("-0123456789"))
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+(?:[eE][-+]?[0-9]{1,3})?|[eE][-+]?[0-9]{1,3})$"),
    list("-0123456789"),
)


class YamlFile:
    """One file as plain values, with the line of each key and the faults found.

    Parameters
    ----------
    path
        The file. `values` is empty where it couldn't be read; `faults` then says why.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.faults: list[str] = []
        self.lines: dict[Where, int] = {}
        self.values: dict[str, Any] = {}
        text = self._text()
        if text is None:
            return
        try:
            node = self._composed(text)
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 1
            self.faults.append(f"{path}:{line}: not YAML: {error.problem}")
            return
        except (yaml.YAMLError, RecursionError) as error:
            why = "nested too deep" if isinstance(error, RecursionError) else str(error).split("\n")[0]
            self.faults.append(f"{path}: not YAML: {why}")
            return
        if self.faults:
            return
        if not isinstance(node, yaml.MappingNode) or not node.value:
            self.faults.append(
                f"{path}: a mapping of keys to values is needed" + ("; the file is empty" if not node or not node.value else "")
            )
            return
        self._walk(node, ())
        if not self.faults:
            self.values = yaml.load(text, Loader=_Loader)

    def _text(self) -> str | None:
        try:
            return self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            there = [path.name for path in self.path.parent.glob("*.yaml")] if self.path.parent.is_dir() else []
            self.faults.append(f"{self.path}: there is no such file{nearest(self.path.name, there)}")
        except OSError as error:
            self.faults.append(f"{self.path}: can't be read: {error.strerror}")
        except UnicodeDecodeError:
            self.faults.append(f"{self.path}: can't be read: not UTF-8 text")
        return None

    def _composed(self, text: str) -> yaml.Node | None:
        """The node tree, after a look at every event for what isn't allowed."""
        depth = 0
        for event in yaml.parse(text, Loader=_Loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                raise RecursionError
            line = event.start_mark.line + 1 if event.start_mark else 1
            tag = getattr(event, "tag", None)
            if tag:
                self.faults.append(f"{self.path}:{line}: tag {tag!r}: values only, no tags")
            if isinstance(event, yaml.AliasEvent):
                self.faults.append(f"{self.path}:{line}: alias *{event.anchor}: write the value out")
        return None if self.faults else yaml.compose(text, Loader=_Loader)

    def _walk(self, node: yaml.Node, at: Where) -> None:
        if isinstance(node, yaml.MappingNode):
            seen = set()
            for key_node, value_node in node.value:
                line = key_node.start_mark.line + 1
                if not isinstance(key_node, yaml.ScalarNode) or key_node.tag != "tag:yaml.org,2002:str":
                    self.faults.append(f"{self.path}:{line}: {dotted((*at, _shown(key_node)))}: a key must be a word")
                    continue
                where = (*at, key_node.value)
                if key_node.value == "<<":
                    self.faults.append(f"{self.path}:{line}: {dotted(where)}: merge keys aren't allowed; write the values out")
                elif key_node.value in seen:
                    self.faults.append(f"{self.path}:{line}: {dotted(where)}: given twice")
                seen.add(key_node.value)
                self.lines[where] = line
                self._walk(value_node, where)
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self.lines[(*at, index)] = item.start_mark.line + 1
                self._walk(item, (*at, index))

    def line_of(self, where: Where) -> int | None:
        """Line of a key, or of the nearest key above it that the file has."""
        while where and where not in self.lines:
            where = where[:-1]
        return self.lines.get(where)

    def fault(self, where: Where, message: str) -> str:
        """A fault with this file's name, the line of a key, and the key."""
        line = self.line_of(where)
        at = f"{self.path}:{line}" if line else f"{self.path}"
        return ": ".join(part for part in (at, dotted(where), message) if part)


def _shown(node: yaml.Node) -> str:
    return str(node.value) if isinstance(node, yaml.ScalarNode) else "?"


def dotted(where: Sequence[Any]) -> str:
    """A key's path as people write it."""
    return ".".join(str(part) for part in where)


def one_of(value: str, known: Mapping[str, Any] | Sequence[str], what: str) -> str:
    """The value if it's known.

    Raises
    ------
    ValueError
        With the nearest known value, and all of them.
    """
    if value not in known:
        raise ValueError(unknown(what, value, list(known)))
    return value


def checked(model: type[Model], values: Mapping[str, Any], files: Sequence[YamlFile], faults: list[str]) -> Model | None:
    """The model made from values.

    Parameters
    ----------
    model
        What to make.
    values
        Plain values, merged from the files.
    files
        Where they come from, the most particular first: a fault is told at the first file that has its key.
    faults
        Takes a line for every fault.

    Returns
    -------
    Model or None
        None where there were faults.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        at: dict[Where, list[Any]] = {}
        for fault in error.errors():
            at.setdefault(_written(fault["loc"], values), []).append(fault)
        faults += [_line(model, where, mine, files) for where, mine in at.items()]
    return None


def _written(loc: Where, values: Any) -> Where:
    """The part of a fault's place that is written in the file (of a missing key, with it): types that were tried are no part of it."""
    where: Where = ()
    for part in loc:
        inside = isinstance(values, Mapping) or (isinstance(values, list | tuple) and isinstance(part, int))
        if not inside or part == "[key]":
            break
        where = (*where, part)
        known = part in values if isinstance(values, Mapping) else part < len(values)
        values = values[part] if known else None
    return where


def _line(model: type[BaseModel], where: Where, faults: Sequence[Any], files: Sequence[YamlFile]) -> str:
    """One line for all faults of one value, of which there are several where one of several types is needed."""
    file = next((file for file in files if where in file.lines), None)
    file = file or next((file for file in files if where and where[:1] in file.lines), files[0])
    return file.fault(where, _said(model, where, faults))


def _said(model: type[BaseModel], where: Where, faults: Sequence[Any]) -> str:
    """What is wrong with a value, in plain words."""
    fault = faults[0]
    kind, found, context = fault["type"], fault["input"], fault.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind == "extra_forbidden":
        return f"unknown key{nearest(str(where[-1]), _keys_beside(model, where))}"
    if kind == "missing":
        return "missing: a value is needed here" if isinstance(where[-1], int) else "missing: this key is required"
    if kind == "literal_error":
        return unknown("value", str(found), re.findall(r"'([^']*)'", str(context["expected"])))
    if kind in LENGTHS:
        return LENGTHS[kind].format(**context)
    if kind in LIMITS:
        return f"must be {LIMITS[kind].format(**{key: plain(limit) for key, limit in context.items()})} (found {found!r})"
    wanted = " or ".join(dict.fromkeys(NEEDED[fault["type"]] for fault in faults))
    quotes = "; put it in quotes" if kind == "string_type" and isinstance(found, QUOTED) else ""
    return f"{wanted} is needed{quotes} (found {found!r})"


def plain(number: float) -> str:
    """A number as people write it: 1.0 is 1."""
    return str(number) if isinstance(number, int) else f"{number:g}"


def _keys_beside(model: type[BaseModel], where: Where) -> list[str]:
    """Keys that are allowed where an unknown one was found."""
    current = model
    for part in where[:-1]:
        if isinstance(part, int) or part not in current.model_fields:
            continue
        inner = _models_in(current.model_fields[part].annotation)
        if not inner:
            return []
        current = inner[0]
    return list(current.model_fields)


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in getattr(annotation, "__args__", ()) for model in _models_in(part)]
