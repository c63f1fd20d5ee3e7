"""The catalogue: a page per suite, made from the declarations when the documentation is built.

`examples()` perturbs sentences for `caption_examples.csv`, which is kept, because it needs the models of captions.
`draw` draws the pictures, which are not kept: `python docs/generate.py --pictures`.
"""

from __future__ import annotations

import csv
import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import cv2
import numpy as np

import perturbations
from perturbations.base.arrays import Image
from perturbations.base.kernel import name_of
from perturbations.corpus.captions import pipeline
from perturbations.corpus.plan import caption_recipes
from perturbations.demo import film
from perturbations.manifest.rows import CaptionRow
from perturbations.models.guides import guide_registry as guides
from perturbations.pages.contact_sheet import contact_sheet
from perturbations.suites import suite_registry
from perturbations.suites.suite_registry import Perturbation, Suite

DOCS = Path(__file__).parent
PICTURES = DOCS / "catalogue"
"""What `draw` draws: a picture per perturbation of videos. Not committed."""
EXAMPLES = DOCS / "caption_examples.csv"
MEASURED = DOCS / "measurements" / "captions.csv"


# --- pages -----------------------------------------------------------------------------------------------------------


def pages() -> dict[str, str]:
    """The Markdown of every page, by its path in the folder `catalogue`."""
    suites = suite_registry.suites().values()
    return {"README.md": _index(), **{f"{suite.name}.md": _page(suite) for suite in suites}}


_HOW_TO_READ = """
- Pictures show a clip of the demo: its middle frame, clean and at each severity; of temporal perturbations six frames
  in order, row by row.
- Below each name: what changes (the *frames* one by one, their *order*, the *stored stream* of an encoder, or the *sent
  stream* that a decoder shows), and whether randomness is drawn once per clip or per frame.
- A parameter has one number per severity. Where the variants differ, `released` follows the authors' code, bugs
  included, and `paper` the text ([fidelity](../explanation/fidelity.md)). Pictures show the suite's
  first variant, the default.
- Where a model or another corpus is needed, pictures and examples show the stand-in.
"""


def _index() -> str:
    lines = ["# Catalogue", "", "|suite|paper|of videos|of captions|", "|---|---|---|---|"]
    for suite in suite_registry.suites().values():
        counts = [len(suite_registry.perturbations(suite.name, kind)) for kind in ("video", "text")]
        lines.append(f"|[{suite.name}]({suite.name}.md)|{suite.reference}|{counts[0]}|{counts[1]}|")
    return "\n".join([*lines, _HOW_TO_READ])


def _page(suite: Suite) -> str:
    video, text = (suite_registry.perturbations(suite.name, kind) for kind in ("video", "text"))
    sources = {entry.source for entry in video}
    common = f" {sources.pop()}." if len(sources) == 1 else ""
    lines = [f"# {suite.name}", "", f"{suite.title}. {suite.reference}.{common}", ""]
    for category, entries in groupby(video, key=lambda entry: entry.category):
        lines += [f"## {category.capitalize()}", ""]
        for entry in entries:
            lines += _section(entry, with_source=not common)
    if text:
        lines += _captions(suite, text)
    return "\n".join(lines)


def _section(entry: Perturbation, *, with_source: bool) -> list[str]:
    changes = {"pixel": "frames", "temporal": "order", "codec": "stored stream"}[entry.method]
    draw = f"one draw per {entry.draw}" if entry.draw != "none" else "nothing random"
    grows = "" if entry.monotonic else "; distortion does not grow at every step"
    about = f"{entry.summary}. *{'sent stream' if entry.damage else changes}; {draw}{grows}*"
    lines = [f"### {entry.name}", "", about, ""]
    if picture_of(entry).exists():
        lines += [f"![{entry.name}, clean and at each severity]({picture_of(entry).name})", ""]
    lines += [f"- `{name}`: {numbers}" for name, numbers in parameters_of(entry)]
    if entry.guide:
        lines.append(f"- needs {guides.get(entry.guide).summary}")
    lines += [f"- **{form.variant}** {form.differences}" for form in entry.forms() if form.differences]
    return [*lines, *[f"- {entry.source}"] * with_source, ""]


def parameters_of(entry: Perturbation) -> Iterator[tuple[str, str]]:
    """Each parameter with its value per severity; per variant where the variants differ."""
    forms = {
        form.variant: {name: [_shown(row[name]) for row in form.by_severity] for name in form.by_severity[0]}
        for form in entry.forms()
    }
    for name in dict.fromkeys(name for table in forms.values() for name in table):
        by_variant = {variant: table[name] for variant, table in forms.items() if name in table}
        values = [*by_variant.values()]
        if len(values) == len(forms) and values.count(values[0]) == len(values):
            by_variant = {"": values[0]}
        for variant, numbers in by_variant.items():
            yield f"{name}`, `{variant}" if variant else name, " ".join(numbers if len({*numbers}) > 1 else numbers[:1])


def _shown(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _captions(suite: Suite, entries: list[Perturbation]) -> list[str]:
    """A table of perturbations with an example each, and what several of them share in one line."""
    with EXAMPLES.open(encoding="utf-8", newline="") as file:
        examples = {(row["suite"], row["perturbation"]): row for row in csv.DictReader(file)}
    with MEASURED.open(encoding="utf-8", newline="") as file:
        shares = {row["perturbation"]: row["changed"] for row in csv.DictReader(file)}
    measured = suite.name == "msrvtt_p"  # on the captions of MSR-VTT: measurements/captions.md
    lines = [
        "## Captions",
        "",
        f"|perturbation|category|example|{'changed|' * measured}",
        f"|{'---|' * (3 + measured)}",
    ]
    for entry in entries:
        example = examples[suite.name, entry.name]
        share = f"{100 * float(shares[entry.name]):.0f} %|" if measured else ""
        lines.append(f"|{entry.name}|{entry.category}|{_plain(example['before'])} → {_plain(example['after'])}|{share}")
    shared: dict[str, list[str]] = defaultdict(list)
    for entry in entries:
        for name, numbers in parameters_of(entry):
            if re.match(r"0\.\d", numbers):  # other parameters are said by the name: nouns, passive
                shared[f"`{name}`: {numbers}, of"].append(entry.name)
        if entry.languages != "English":
            shared[f"made for {entry.languages}, not for English alone:"].append(entry.name)
        if entry.gated:
            shared["drawn again, up to 100 times, until the topic is kept:"].append(entry.name)
        if entry.levels_of_paper:
            shared[f"{entry.levels_of_paper}:"].append(entry.name)
        if entry.not_comparable:
            shared[f"the stand-in is **not comparable**, {entry.not_comparable}:"].append(entry.name)
        for form in entry.forms():
            if form.differences:
                shared[f"**{form.variant}** {form.differences}:"].append(entry.name)
    lines.append("")
    return [
        *lines,
        *(f"- {what} {', '.join(names)}" for what, names in shared.items()),
        "",
        f"{entries[0].source}.",
        "",
    ]


def _plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\`*_{}\[\]<>|])", r"\\\1", text)


# --- examples of captions --------------------------------------------------------------------------------------------


def examples() -> list[list[str]]:
    """The rows of `caption_examples.csv`: the shortest of our sentences that changes, at the middle severity.

    Raises `BackendError` where a library, program or file of a model is missing.
    """
    sentences = (DOCS / "example_captions.txt").read_text(encoding="utf-8").splitlines()
    names = [f"example-{number:02}" for number in range(len(sentences))]
    listed = [
        CaptionRow(dataset="d", caption_id=name, item_id=name, text=text)
        for name, text in zip(names, sentences, strict=True)
    ]
    rows = [["suite", "perturbation", "before", "after"]]
    for entry in suite_registry.perturbations(kind="text"):
        severity = entry.severities[len(entry.severities) // 2]
        perturbed = pipeline.rows_of(caption_recipes.make(entry, severity), "examples", listed)
        row = min((row for row in perturbed if row.changed), key=lambda row: len(row.source_text))
        rows.append([entry.suite, entry.name, row.source_text, row.text])
    return rows


# --- pictures --------------------------------------------------------------------------------------------------------

_SCENE, _DONORS = 6, (0, 1, 2)  # of the demo dataset
_HEIGHT = 120  # of a cell, in pixels: half a clip's


def picture_of(entry: Perturbation) -> Path:
    """Where a picture is, or will be drawn: its name follows from what it shows."""
    shown = repr((entry.key, name_of(entry.kernel), entry.version, entry.by_severity, _HEIGHT))
    return PICTURES / f"{entry.suite}-{entry.name}-{hashlib.sha256(shown.encode()).hexdigest()[:8]}.webp"


def draw(entries: list[Perturbation]) -> Iterator[Path]:
    """Draw the pictures that are missing, and yield their paths."""
    PICTURES.mkdir(exist_ok=True)
    clip, *donors = (np.stack(list(film.frames(scene))) for scene in (_SCENE, *_DONORS))
    for entry in [entry for entry in entries if not picture_of(entry).exists()]:
        _, data = cv2.imencode(".webp", strip(entry, clip, donors)[:, :, ::-1], [cv2.IMWRITE_WEBP_QUALITY, 60])
        picture_of(entry).write_bytes(data.tobytes())
        yield picture_of(entry)


def strip(entry: Perturbation, clip: np.ndarray, donors: list[np.ndarray]) -> Image:
    """The clip clean and under every severity, RGB uint8 (height, width, 3); clips are T x H x W x 3."""
    clips = [clip]
    for severity in entry.severities:
        clips.append(
            perturbations.perturb(clip, entry.key, severity, seed=0, item_id="demo", fps=film.FPS, donors=donors)
        )
    images = [_six(frames) if entry.method == "temporal" else frames[len(frames) // 2] for frames in clips]
    columns = ["clean", *(f"severity {severity}" for severity in entry.severities)]
    return contact_sheet([("", images)], columns, cell_height=_HEIGHT)


def _six(frames: np.ndarray) -> Image:
    """Six frames, evenly spread, in two lines."""
    first, second = frames[np.linspace(0, len(frames) - 1, 6).round().astype(int)].reshape(2, 3, *frames.shape[1:])
    return np.concatenate([np.concatenate(first, 1), np.concatenate(second, 1)])
