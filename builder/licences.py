"""What the licences of sounds allow and ask, and what a dataset made of several may be published under.

A clip is an adaptation of its recording: it's cut and one property of it is swept. So a licence without derivatives can't be used
at all. A dataset is taken as one work here, since whoever loads it mixes its rows: a licence that asks for the same licence
(ShareAlike) holds for all of it. That is stricter than taking it as a collection of clips, each under a licence of its own.

Sections in the lines are those of the licences' own texts. This is a check of what can be read there, no legal advice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Annotated, Any

from pydantic import Field

from builder.strict_yaml import Strict
from builder.words import nearest

MIXED = "other"
"""What a recipe declares, and a card says, where rows have licences of their own."""
CUSTOM = "LicenseRef-"
"""How SPDX has licences named that it doesn't list."""


@dataclass(frozen=True)
class Licence:
    """What a licence allows and asks.

    Parameters
    ----------
    name
        SPDX identifier, or one that begins with `LicenseRef-`.
    text
        Address of the licence, or its terms in words.
    derivatives, commercial
        Whether adaptations may be shared; whether commercial use is allowed.
    attribution
        Whether its notice must be kept.
    share_alike
        The licences that an adaptation may have; empty for any that keeps the other terms.
    """

    name: str
    text: str
    derivatives: bool = True
    commercial: bool = True
    attribution: bool = True
    share_alike: tuple[str, ...] = ()

    @property
    def asks(self) -> str:
        """What it asks, in words."""
        asked = {
            "attribution": self.attribution,
            "the same licence": bool(self.share_alike),
            "no commercial use": not self.commercial,
            "no derivatives": not self.derivatives,
        }
        return ", ".join(what for what, holds in asked.items() if holds) or "nothing"


class Terms(Strict):
    """Terms of a licence that isn't in the table, as a corpus recipe states them."""

    terms: Annotated[str, Field(min_length=1)]
    derivatives: bool
    commercial: bool
    attribution: bool = True
    share_alike: bool = False

    def of(self, name: str) -> Licence:
        """The licence with these terms."""
        same = (name,) if self.share_alike else ()
        return Licence(name, " ".join(self.terms.split()), self.derivatives, self.commercial, self.attribution, same)


CC_VERSIONS = ("1.0", "2.0", "2.5", "3.0", "4.0")
CC_ELEMENTS = ("BY", "BY-SA", "BY-NC", "BY-NC-SA", "BY-ND", "BY-NC-ND")


def _creative_commons(elements: str, version: str) -> Licence:
    """One of the licences; ShareAlike ones from 2.0 on allow later versions with the same elements, 1.0 itself alone."""
    later = (version,) if version == "1.0" else CC_VERSIONS[CC_VERSIONS.index(version) :]
    return Licence(
        f"CC-{elements}-{version}",
        f"https://creativecommons.org/licenses/{elements.lower()}/{version}/",
        derivatives="ND" not in elements,
        commercial="NC" not in elements,
        share_alike=tuple(f"CC-{elements}-{each}" for each in later) if "SA" in elements else (),
    )


def _listed(name: str, **terms: Any) -> Licence:
    return Licence(name, f"https://spdx.org/licenses/{name}.html", **terms)


KNOWN: Mapping[str, Licence] = {
    licence.name: licence
    for licence in (
        Licence("CC0-1.0", "https://creativecommons.org/publicdomain/zero/1.0/", attribution=False),
        _listed("PDDL-1.0", attribution=False),
        _listed("Unlicense", attribution=False),
        _listed("0BSD", attribution=False),
        *(_listed(name) for name in ("MIT", "ISC", "BSD-2-Clause", "BSD-3-Clause", "Apache-2.0", "ODC-By-1.0")),
        _listed("ODbL-1.0", share_alike=("ODbL-1.0",)),
        *(_creative_commons(elements, version) for version in CC_VERSIONS for elements in CC_ELEMENTS),
    )
}
"""Licences by SPDX identifier. Any other needs its terms stated by the corpus."""

HUB = {
    "CC0-1.0": "cc0-1.0", "PDDL-1.0": "pddl", "Unlicense": "unlicense", "MIT": "mit", "ISC": "isc", "BSD-2-Clause": "bsd-2-clause",
    "BSD-3-Clause": "bsd-3-clause", "Apache-2.0": "apache-2.0", "ODC-By-1.0": "odc-by", "ODbL-1.0": "odbl",
    **{f"CC-BY-{version}": f"cc-by-{version}" for version in ("2.0", "2.5", "3.0", "4.0")},
    **{f"CC-BY-SA-{version}": f"cc-by-sa-{version}" for version in ("3.0", "4.0")},
    **{f"CC-BY-NC-{version}": f"cc-by-nc-{version}" for version in ("2.0", "3.0", "4.0")},
    **{f"CC-BY-NC-SA-{version}": f"cc-by-nc-sa-{version}" for version in ("2.0", "3.0", "4.0")},
}  # fmt: skip
"""The Hub's own words for licences that a dataset can have."""


def _clause(licence: Licence, what: str) -> str:
    """Where a licence says so, for those whose sections are known to us."""
    sections = {
        ("CC", "4.0"): {"derivatives": "2(a)(1)", "commercial": "2(a)(1)", "share_alike": "3(b)", "attribution": "3(a)"},
        ("CC", "3.0"): {"derivatives": "3", "share_alike": "4(b)"},
        ("ODbL", "1.0"): {"share_alike": "4.4"},
    }
    found = sections.get((licence.name.split("-")[0], licence.name.split("-")[-1]), {}).get(what)
    return f" (section {found})" if found and licence.name in KNOWN else ""


def objection(source: Licence, target: Licence) -> str | None:
    """Why an adaptation of what has one licence can't be published under another; None where it can."""
    if not source.derivatives:
        return f"{source.name} allows no derivatives to be shared{_clause(source, 'derivatives')}, and every clip is one"
    if source.share_alike and target.name not in source.share_alike:
        allowed = " or ".join(source.share_alike)
        return f"{source.name} asks for the same licence{_clause(source, 'share_alike')}: {allowed}, not {target.name}"
    if not source.commercial and target.commercial:
        return f"{source.name} allows no commercial use{_clause(source, 'commercial')}, {target.name} does"
    if source.attribution and not target.attribution:
        return f"{source.name} asks for attribution{_clause(source, 'attribution')}, {target.name} doesn't"
    return None


def known_with(stated: Mapping[str, Terms]) -> dict[str, Licence]:
    """The table, with the licences whose terms corpora state."""
    return {**KNOWN, **{name: terms.of(name) for name, terms in stated.items()}}


def unknown(name: str, known: Mapping[str, Licence]) -> str:
    """What to do about a name that's in no table."""
    return (
        f"{name!r} isn't a licence whose terms are known{nearest(name, list(known))}: write its SPDX identifier, "
        f"or state its terms under `licences` of the corpus recipe"
    )


def combine(names: Mapping[str, str], known: Mapping[str, Licence], declared: str = MIXED) -> tuple[str, list[str]]:
    """What a dataset with sounds under several licences is published under.

    Parameters
    ----------
    names
        Licence of each sound -> an example of what has it, for the lines.
    known
        The table, with what corpora state.
    declared
        What the recipe says: a licence for the whole, or `other`.

    Returns
    -------
    licence
        The declared one; for `other`, the only one that there is, else `other`: each row has its own.
    refusals
        What forbids it, one line each, with the clause; empty where nothing does.
    """
    refusals = [f"{names[name]}: {unknown(name, known)}" for name in sorted(names) if name not in known]
    if declared != MIXED and declared not in known:
        refusals.append(f"licence of the recipe: {unknown(declared, known)}")
    if refusals:
        return declared, refusals
    used = [known[name] for name in sorted(names)]
    if declared == MIXED:
        return (used[0].name if len(used) == 1 else MIXED), [f"{names[bad]}: {why}" for bad, why in _conflicts(used, known)]
    against = [(source.name, objection(source, known[declared])) for source in used]
    return declared, [f"{names[name]}: {why}" for name, why in against if why]


def _conflicts(used: list[Licence], known: Mapping[str, Licence]) -> list[tuple[str, str]]:
    """Licences that can't be in one dataset, with the reason."""
    found = [(each.name, str(objection(each, each))) for each in used if not each.derivatives]
    for pair in combinations((each for each in used if each.derivatives), 2):
        sharing, other = sorted(pair, key=lambda each: not each.share_alike)
        against = [objection(other, known[target]) for target in sharing.share_alike]
        if against and all(against):
            asks = f"{sharing.name} asks for the same licence{_clause(sharing, 'share_alike')} for what it becomes part of"
            found.append((other.name, f"{asks}, but {against[-1]}"))
    return found


def on_card(licence: str) -> dict[str, str]:
    """The fields of a card's front matter that say a licence in the Hub's words."""
    if licence in HUB:
        return {"license": HUB[licence]}
    name = "mixed-per-row" if licence == MIXED else licence.lower()
    return {"license": MIXED, "license_name": name, "license_link": "ATTRIBUTION.md"}
