"""The audit's page: all that it must hold, that data can't break out of its text, and that a browser shows and plays it."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from collections.abc import Callable, Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import chromium
import pyarrow.parquet as pq
import pytest

from builder import audit, charts, pipeline, report, truth
from builder.__main__ import main
from builder.dimensions import BY_NAME
from builder.layout import read_manifest
from builder.pipeline import Built
from builder.workers import Local

RECIPES = Path(__file__).parent.parent / "recipes"
SMALL = """
include: base.yaml
dimensions: [pitch.yaml, pan.yaml, noise.yaml]
speech: {corpus: null}
kinds: [voice, tone]
tiers: {hard: 2.0, medium: 4.0}
curves: [linear, step]
pairs_per_cell: {test: 1}
splits: {test: {share: 1.0}}
controls_per_kind: {test: 1}
"""
VOID = {"meta", "link", "br"}
EVIL = "<script>alert('&')</script>"
MAX_BYTES = 6_500_000


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pitch, noise and the stereo dimension, a pair of each cell."""
    folder = tmp_path_factory.mktemp("report")
    for path in RECIPES.glob("*.yaml"):
        shutil.copy(path, folder)
    (folder / "small.yaml").write_text(SMALL)
    pipeline.build(folder / "small.yaml", None, folder / "ds", Local(1), lambda line: None)
    return folder / "ds"


@pytest.fixture(scope="module")
def found(small: Path) -> dict[str, Any]:
    """Its audit, with sections that have no form of their own."""
    whole = audit.run(small, read_manifest(small), 4)
    planned = {"hard": 2.0, "medium": 4.0}
    whole["difficulty"] = [
        {
            "dimension": row["dimension"], "source_kind": row["kind"], "tier": row["tier"], "curve": curve, "n_clips": 2,
            "planned_jnd": planned[row["tier"]], "effect_low_jnd": 1.0, "effect_median_jnd": 2.125, "effect_high_jnd": 4.5,
            "asked_jnd": 0.75, "margin_jnd": 0.25, "residual_jnd": 0.5,
        }
        for row in whole["yields"] if row["tier"] != "control"
        for curve in ("linear", "step")
    ]  # fmt: skip
    says = [(1, 1), (0, 1), (0, -1), (-1, -1)]
    head = {"dimension": "pitch", "tier": "hard", "curve": "step"}
    whole["imposed"] = truth.imposed(
        [{**head, "source_id": str(i), "clips": [{"rule": rule, "slope": slope}]} for i, (rule, slope) in enumerate(says)]
    )
    whole["shortcuts"] = [{"dimension": "pitch", "cue": EVIL, "balanced_accuracy": 0.51236, "gated": True, "low": None}]
    whole["duplicates"] = {"audio": 0, "examples": [["a", "b"]]}
    whole["truth"] = {"pitch": {"n": 4, "agree": 1.0}, "noise": {"n": 2, "agree": 0.5}}
    return whole


@pytest.fixture(scope="module")
def page(small: Path, found: dict[str, Any]) -> str:
    """Its page."""
    report.write(small, read_manifest(small), found, small / "page.html")
    return (small / "page.html").read_text(encoding="utf-8")


class Tree(HTMLParser):
    """Reads a page strictly: each element must be closed, in order, and identifiers must differ."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep an element, and its identifier."""
        assert len(dict(attrs)) == len(attrs), (tag, attrs)
        self.elements.append((tag, dict(attrs)))
        self.ids += [value for key, value in attrs if key == "id" and value]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep an element that closes itself."""
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        """Close the last opened element."""
        assert self.open.pop() == tag, (tag, self.getpos())


def read(text: str) -> Tree:
    """The page's elements."""
    tree = Tree()
    tree.feed(text)
    tree.close()
    assert tree.open == []
    return tree


def having(tree: Tree, tag: str) -> list[dict[str, str | None]]:
    """Attributes of all elements of a name."""
    return [attributes for name, attributes in tree.elements if name == tag]


def altered(small: Path, tmp_path: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    """A copy of the dataset in which `change` went over every pitch row."""
    out = tmp_path / "ds"
    shutil.copytree(small, out)
    for path in (out / "data" / "pitch").glob("*.parquet"):
        table = pq.read_table(path)
        rows = table.to_pylist()
        for row in rows:
            change(row)
        pq.write_table(table.from_pylist(rows, schema=table.schema), path)
    return out


def test_the_page_is_well_formed(page: str) -> None:
    """Every element is closed in order, identifiers differ, and each link within the page and each label leads somewhere."""
    tree = read(page)
    assert page.startswith("<!DOCTYPE html>")
    assert len(set(tree.ids)) == len(tree.ids)
    links = [attributes["href"] for attributes in having(tree, "a")]
    labels = [attributes["aria-labelledby"] for _, attributes in tree.elements if "aria-labelledby" in attributes]
    assert links
    assert {str(link).removeprefix("#") for link in links} | set(labels) <= set(tree.ids)


def test_the_page_needs_nothing_else(page: str) -> None:
    """No script, no style sheet, no font and no picture from elsewhere: every address is a data URI or within the page."""
    tree = read(page)
    addresses = [
        value for _, attributes in tree.elements for key, value in attributes.items() if key in ("src", "href", "srcset", "poster")
    ]
    assert all(str(address).startswith(("data:", "#")) for address in addresses)
    assert not having(tree, "script")
    style = re.search(r"<style>(.*?)</style>", page, re.S)
    assert style is not None
    assert "url(" not in style[1]
    assert "@import" not in style[1]


def test_every_dimension_has_its_panel(page: str) -> None:
    """Definition, and pairs with rising and falling drawn and heard; of a stereo dimension too."""
    tree = read(page)
    for name in ("pitch", "noise", "pan"):
        assert f"dimension-{name}" in tree.ids
        panel = page[page.index(f'id="dimension-{name}"') :].split("<h3", 2)[1]
        assert BY_NAME[name].jnd.source in unescape(panel)
        assert panel.count("<article") == 2
        assert panel.count("▲ rising") == panel.count("▼ falling") == 2
        assert panel.count('class="planned"') == panel.count('class="heard"') == panel.count('class="sham"') == 4
    assert "dimension-loudness" not in tree.ids
    assert len(having(tree, "audio")) == 12
    assert all("controls" in attributes and attributes["aria-label"] for attributes in having(tree, "audio"))


def test_tables_have_captions_and_headers_with_scope(page: str) -> None:
    """A screen reader can say where it is: one caption for each table, a scope for each header, a name for each scrolled region."""
    tree = read(page)
    assert len(having(tree, "caption")) == len(having(tree, "table")) >= 8
    assert all(attributes.get("scope") for attributes in having(tree, "th"))
    scrolled = [attributes for attributes in having(tree, "div") if attributes.get("class") == "scroll"]
    assert all(attributes["tabindex"] == "0" and attributes["aria-label"] for attributes in scrolled)


def test_headings_descend_by_one(page: str) -> None:
    """One first heading, and no level is left out."""
    levels = [int(tag[1]) for tag, _ in read(page).elements if re.fullmatch(r"h\d", tag)]
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_gates_are_listed_with_every_failure(small: Path, found: dict[str, Any], tmp_path: Path) -> None:
    """Each gate passes or fails, and each line of a failure is there; with none the audit passes."""
    gates = {**{gate: [] for gate in found["gates"]}, "a gate that fails": ["one fault", "another fault"]}
    report.write(small, read_manifest(small), {**found, "gates": gates, "failures": ["one fault", "another fault"]}, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "fails in 2 points" in text
    assert text.count("✓ passes") == len(found["gates"]) > 5
    assert text.count("✕ fails") == 1
    assert "<li>one fault</li>" in text
    assert "<li>another fault</li>" in text
    report.write(small, read_manifest(small), {**found, "gates": {}, "failures": []}, tmp_path / "page.html")
    assert "The audit passes." in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_cells_of_the_matrix_say_their_state() -> None:
    """The swept one, held, beyond the limit, linked, not measurable; shades change at their limits."""
    leak = {"swept": "pitch", "linked": False, "median_jnd": 0.1, "n_measured": 30}
    cells = [
        {**leak, "measured": "pitch", "p95_jnd": 4.0},
        {**leak, "measured": "loudness", "p95_jnd": 0.99},
        {**leak, "measured": "tempo", "p95_jnd": 1.0},
        {**leak, "measured": "brightness", "p95_jnd": 2.0, "linked": True},
        {**leak, "measured": "pan", "p95_jnd": None, "n_measured": 0},
    ]
    row = report._heat(cells, ["pitch moves tempo: 95th percentile 1.00 J"])["rows"]["pitch"]
    assert [cell["state"] for cell in row.values()] == ["swept", "held", "beyond", "linked", "nothing"]
    assert [cell["shade"] for cell in row.values()] == [6, 3, 4, 5, 0]


def test_what_the_audit_adds_is_shown_as_tables(page: str) -> None:
    """Sections without a form of their own: lists of rows, and named rows."""
    assert 'id="further-shortcuts"' in page
    assert "<td>0.5124</td><td>yes</td><td>–</td>" in page
    assert "<tr><td>noise</td><td>2</td><td>0.5</td></tr>" in page
    assert "<tr><td>examples</td><td>[[&#34;a&#34;, &#34;b&#34;]]</td></tr>" in page
    assert "planned 4.00 J, 2.12 J (1.00 to 4.50), weakest 1.00 of at least 0.75, residual 0.50, 2 clips" in page
    assert '<td class="number">50 % (15 to 85)</td><td class="number">25 % (5 to 70)</td>' in page


def test_pictures_are_drawn_and_repeat(found: dict[str, Any], tmp_path: Path) -> None:
    """Three PNGs of some size, the same bytes each time; without running speech two, and nothing is left half-written."""
    first, again = (charts.write(found, tmp_path / name) for name in ("one", "two"))
    assert [path.name for path in first] == ["difficulty.png", "leakage.png", "imposed.png"]
    for path, other in zip(first, again, strict=True):
        assert path.read_bytes() == other.read_bytes()
        assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
        assert len(path.read_bytes()) > 5000
    assert [path.name for path in charts.write({**found, "imposed": []}, tmp_path / "three")] == ["difficulty.png", "leakage.png"]
    assert sorted(path.name for path in (tmp_path / "three").iterdir()) == ["difficulty.png", "leakage.png"]


def test_an_audit_without_any_section_has_a_page(small: Path, tmp_path: Path) -> None:
    """What isn't in the report is left out, and panels stay."""
    report.write(small, read_manifest(small), {}, tmp_path / "page.html")
    tree = read((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert {"dimension-pitch", "dimension-noise", "dimension-pan"} <= set(tree.ids)


def test_data_stays_text(small: Path, found: dict[str, Any], tmp_path: Path) -> None:
    """Markup in a speaker's name, a licence, an attribution, a detail of a rejection or the audit's own text isn't run."""
    out = altered(small, tmp_path, lambda row: row.update(speaker_id=EVIL, licence='"><b>', attribution=EVIL))
    shard = next((out / "reports" / "pitch").glob("*.json"))
    values = json.loads(shard.read_text())
    plan = {"dimension": "pitch", "tier": "hard", "curve": "linear", "source": {"kind": "voice", "speaker_id": EVIL}}
    values["rejected_examples"] = {EVIL: [{"plan": plan, "detail": EVIL}]}
    shard.write_text(json.dumps(values))
    report.write(out, read_manifest(out), {**found, "failures": [EVIL], "gates": {EVIL: [EVIL]}}, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert not having(read(text), "script")
    assert "&lt;script&gt;alert(&#39;&amp;&#39;)&lt;/script&gt;" in text
    assert '"><b>' not in text


def test_rejected_examples_are_told(small: Path, found: dict[str, Any], tmp_path: Path) -> None:
    """At most three of a dimension under one reason, each with what was measured."""
    out = altered(small, tmp_path, lambda row: None)
    shard = next((out / "reports" / "noise").glob("*.json"))
    values = json.loads(shard.read_text())
    plan = {"dimension": "noise", "tier": "hard", "curve": "ease_in", "source": {"kind": "voice", "speaker_id": "jo"}}
    values["rejected_examples"] = {"too_small": [{"plan": plan, "detail": f"moved by {n}"} for n in range(5)]}
    shard.write_text(json.dumps(values))
    report.write(out, read_manifest(out), found, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<h4>too small</h4>" in text
    assert re.findall(r"<li>voice, hard, ease in, jo: (.*)</li>", text) == ["moved by 0", "moved by 1", "moved by 2"]


def test_pages_repeat(small: Path, found: dict[str, Any], page: str, tmp_path: Path) -> None:
    """The same dataset and audit give the same bytes; another release draws by another seed."""
    report.write(small, read_manifest(small), found, tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == page
    pairs = report._pairs(small, read_manifest(small), "pan")
    drawn = {tuple(up["pair_id"] for up, _ in report._chosen(pairs, f"release {n}", 1e9)) for n in range(8)}
    assert len(drawn) > 1


def test_pairs_are_of_different_kinds_and_fit(small: Path) -> None:
    """One pair of a kind at most, a real kind first, the next ones of other cells; within the bytes that are left, but one in any case."""
    pairs = report._pairs(small, read_manifest(small), "pitch")
    chosen = report._chosen(pairs, "x", 1e9)
    assert sorted(up["source_kind"] for up, _ in chosen) == ["tone", "voice"]
    assert len({up["tier"] for up, _ in chosen}) == len({up["curve"] for up, _ in chosen}) == 2
    assert len(report._chosen(pairs, "x", 0.0)) == 1
    voiced = [({**up, "source_kind": "vowels"}, down) if up["source_kind"] == "voice" else (up, down) for up, down in pairs]
    assert all(report._chosen(voiced, f"release {n}", 1e9)[0][0]["source_kind"] == "vowels" for n in range(4))


def test_drawings_show_what_the_row_says() -> None:
    """Dots only where there is a value, a sham broken where it has none, and the plan through the middle of what was heard."""
    row = {
        "contour_time_s": [0.5, 1.0, 1.5, 2.0], "contour_value": [9.0, None, 11.0, 12.0], "contour_sham": [10.0, 10.0, None, 10.0],
        "curve": "linear", "span": 4.0, "duration_s": 2.0, "active_start_s": 0.0, "active_end_s": 2.0,
    }  # fmt: skip
    lines = report._lines(row)
    assert lines["planned"][[0, -1]].tolist() == [8.0, 12.0]
    drawing = report._drawing(row, lines, 8.0, 12.0)
    assert drawing["heard"].count("M") == 3
    assert drawing["sham"].count("M") == 2
    assert drawing["active"] == (52.0, 460.0)
    assert [text for _, text in drawing["up"]] == ["8", "9", "10", "11", "12"]


@pytest.mark.parametrize(
    ("low", "high", "texts"),
    [(0.0, 1.0, ["0", "0.2", "0.4", "0.6", "0.8", "1"]), (-3.1, 2.9, ["−2", "0", "2"]), (5.44, 5.51, ["5.44", "5.46", "5.48", "5.5"])],
)
def test_ticks_are_round(low: float, high: float, texts: list[str]) -> None:
    """Multiples of 1, 2 or 5 within the axis."""
    assert [text for _, text in report.Axis(low, high, 0.0, 100.0).ticks(5)] == texts


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [(None, "%.2f", "–"), (-1.5, "%+.2f", "−1.50"), (-0.001, "%+.2f", "0.00"), (2.0, "%+.3g", "+2"), (-1e-5, "%.3g", "−1e−05")],
)
def test_numbers_for_people(value: float | None, form: str, text: str) -> None:
    """A true minus sign, no signed zero, a dash for none."""
    assert report._number(value, form) == text


def test_the_command_writes_it(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`vocalgrad audit` writes the page beside its JSON and says where."""
    main(["audit", "--dataset", str(small), "--pairs", "2", "--workers", "1"])
    path = small / "audit" / "report.html"
    assert str(path) in capsys.readouterr().out
    read(path.read_text(encoding="utf-8"))


# -- in a browser -----------------------------------------------------------------------------------------------------

BEYOND = """
[...document.querySelectorAll("body *")]
  .filter((item) => item.getBoundingClientRect().right > innerWidth + 1 && !item.closest(".scroll"))
  .map((item) => item.tagName + " " + item.textContent.slice(0, 40))
"""
DURATIONS = """
Promise.all([...document.querySelectorAll("audio")].map((audio) => new Promise((done) => {
  audio.onloadedmetadata = () => done(audio.duration);
  audio.onerror = () => done(-1);
  audio.preload = "metadata";
  audio.load();
})))
"""
CHANNELS = """
Promise.all([...document.querySelectorAll("audio")].map(async (audio) => {
  const bytes = Uint8Array.from(atob(audio.src.split(",")[1]), (letter) => letter.charCodeAt(0));
  return (await new OfflineAudioContext(2, 1, 16000).decodeAudioData(bytes.buffer)).numberOfChannels;
}))
"""
CONTRASTS = """
(() => {
  const parsed = (text) => text.match(/[0-9.]+/g).map(Number);
  const luminance = (colour) => colour.slice(0, 3).map((value) => value / 255)
    .map((value) => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4)
    .reduce((sum, value, at) => sum + value * [0.2126, 0.7152, 0.0722][at], 0);
  const under = (item) => {
    const colour = parsed(getComputedStyle(item).backgroundColor);
    return colour.length === 4 && colour[3] === 0 ? under(item.parentElement) : colour;
  };
  const texts = [...document.querySelectorAll("body *")].filter((item) => !item.closest("svg, audio, .hidden")
    && [...item.childNodes].some((node) => node.nodeType === 3 && node.data.trim()));
  return texts.map((item) => {
    const [light, dark] = [luminance(parsed(getComputedStyle(item).color)), luminance(under(item))].sort((a, b) => b - a);
    return [(light + 0.05) / (dark + 0.05), item.className + " " + item.textContent.slice(0, 30)];
  }).sort((a, b) => a[0] - b[0])[0];
})()
"""


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chromium.Page]:
    """A browser, or the test is skipped."""
    command = chromium.there()
    if command is None:
        pytest.skip("no Chromium on this machine: the page isn't tried in a browser")
    with chromium.Page(command, tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_nothing_is_wider_than_the_page(opened: chromium.Page, page: str, small: Path, width: int) -> None:
    """On a phone and on a desk, with all details open, tables scroll within their own frame, and nothing is asked of a network."""
    opened.requested.clear()
    opened.open(small / "page.html", width)
    opened.said("document.querySelectorAll('details').forEach((item) => { item.open = true; })")
    assert opened.said("innerWidth") == width
    assert opened.said("document.documentElement.scrollWidth") == width
    assert opened.said(BEYOND) == []
    assert [url for url in opened.requested if not url.startswith(("file:", "data:"))] == []


def test_every_sound_plays(opened: chromium.Page, page: str, small: Path) -> None:
    """Each has its length, and two channels if its dimension is stereo."""
    opened.open(small / "page.html", 1280)
    durations = opened.said(DURATIONS)
    assert len(durations) == 12
    assert all(2.0 <= duration <= 4.1 for duration in durations), durations
    assert opened.said(CHANNELS) == [1] * 8 + [2] * 4


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_legible(opened: chromium.Page, small: Path, found: dict[str, Any], scheme: str) -> None:
    """Each text stands out from what is under it by 4.5:1 in both colour schemes (WCAG 2.2, 1.4.3), on all shades of the matrix too."""
    names = list(dict.fromkeys(leak["measured"] for leak in found["leaks"]))
    shades = [0.0, *report.SHADES_JND]
    leaks = [
        {"swept": swept, "measured": name, "linked": linked, "median_jnd": 0.0, "p95_jnd": shades[n % len(shades)], "n_measured": 30}
        for swept, linked in (("pitch", True), ("pan", False))
        for n, name in enumerate(names)
    ]
    report.write(small, read_manifest(small), {**found, "leaks": leaks}, small / "shades.html")
    opened.open(small / "shades.html", 1280, scheme)
    assert opened.said("matchMedia('(prefers-color-scheme: dark)').matches") == (scheme == "dark")
    ratio, where = opened.said(CONTRASTS)
    assert ratio >= 4.5, where


def test_the_keyboard_reaches_everything(opened: chromium.Page, page: str, small: Path) -> None:
    """The first key goes to the skip link, which is seen then and leads to the summary; what has the focus is outlined."""
    opened.open(small / "page.html", 1280)
    opened.press("Tab")
    assert opened.said("document.activeElement.className") == "skip"
    assert opened.said("document.activeElement.getBoundingClientRect().left") >= 0
    assert opened.said("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    opened.press("Enter")
    opened.said("new Promise((done) => setTimeout(done, 50))")
    assert opened.said("document.activeElement.id") == "summary"


@pytest.mark.slow
def test_the_smoke_builds_page(smoke: Built, tmp_path: Path) -> None:
    """Every dimension, at most three pairs of each, within the size that a person can send."""
    manifest = read_manifest(smoke.out)
    report.write(smoke.out, manifest, audit.run(smoke.out, manifest, 2), tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert all(f'id="dimension-{name}"' in text for name in BY_NAME)
    assert text.count("<article") <= 3 * len(BY_NAME)
    assert (tmp_path / "page.html").stat().st_size < MAX_BYTES
