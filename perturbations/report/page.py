"""The report: one self-contained HTML page of what was evaluated, with the papers' tables and pictures.

It loads nothing from anywhere, runs no script, and is the same for the same manifests.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pandas as pd

from perturbations.errors import ManifestError
from perturbations.manifest import files, sets
from perturbations.manifest.kinds import (
    QUARANTINE,
    RESULTS,
    TEXT_STATISTICS,
    QuarantineRow,
    ResultRow,
    TextStatisticsRow,
    columns_of,
)
from perturbations.models import text_roles
from perturbations.report import figures
from perturbations.retrieval import aggregate, robustness_scores
from perturbations.suites import registry
from perturbations.system import shown, storage
from perturbations.tta.methods import registry as methods

Row = dict[str, Any]

DIRECTIONS = {"v2t": "videos ask for captions (v2t)", "t2v": "captions ask for videos (t2v)"}
_KINDS = {"v2t": "video", "t2v": "text"}
_SCORES = {"gamma_a": "absolute robustness", "gamma_r": "relative robustness", "mmi": "MultiModal Impact"}
_SHEET_WIDTH = 1600  # pixels; more is not seen
_MOST_LISTED = 200  # quarantined rows


@dataclass(frozen=True)
class Cell:
    """A number of a table, or a heading."""

    text: str
    span: int = 1
    best: bool = False
    second: bool = False
    average: bool = False


@dataclass(frozen=True)
class Line:
    """A row of a table."""

    name: str
    cells: Sequence[Cell]


@dataclass(frozen=True)
class Table:
    """A table; `head` has one or two rows of headings."""

    caption: str
    head: Sequence[Sequence[Cell]]
    body: Sequence[Line]
    kind: str = "table"


@dataclass(frozen=True)
class Figure:
    """A picture inside the page."""

    source: str
    alt: str
    caption: str
    width: int | None = None
    kind: str = "figure"


@dataclass(frozen=True)
class Heading:
    """A heading between parts."""

    text: str
    kind: str = "heading"


@dataclass(frozen=True)
class Section:
    """A section of the page."""

    anchor: str
    title: str
    texts: Sequence[str] = ()
    parts: Sequence[Table | Figure | Heading] = field(default_factory=list)


def write(
    output: Path,
    *,
    results: Sequence[Path] = (),
    pictures: Sequence[Path] = (),
    statistics: Sequence[Path] = (),
    quarantine: Sequence[Path] = (),
    sheets: Sequence[Path] = (),
) -> None:
    """Write the page.

    Args:
        output: the .html.
        results: `results` manifests, one a dataset.
        pictures: what the jobs of an evaluation wrote to be drawn, .json.
        statistics: `text_statistics` manifests.
        quarantine: `quarantine` manifests.
        sheets: contact sheets, .png.

    Raises `ManifestError` when a file is not what it should be.
    """
    import jinja2

    frame = _read(results)
    failed = [row for path in quarantine for row in files.read_rows(path, QUARANTINE)]
    sections = [
        _results(frame),
        _severities(frame),
        _robustness(frame),
        *_hubs(frame, [one for path in pictures for one in _drawn(path)]),
        _costs(frame),
        _sheets(sheets),
        _gate(statistics),
        _quarantined(failed, [sentence for path in quarantine if (sentence := _corpus_sentence(path))]),
        _provenance(frame, results),
    ]
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("perturbations.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=False,
        finalize=lambda value: shown.line(value) if type(value) is str else value,
    )
    text = environment.get_template("page.html.j2").render(
        title="Retrieval under perturbation", summary=_summary(frame), banner=_banner(frame), sections=sections
    )
    storage.write_text(output, text)


def _read(paths: Sequence[Path]) -> pd.DataFrame:
    names = [column.name for column in columns_of(ResultRow)]
    rows = [row for path in paths for row in files.read_rows(path, RESULTS)]
    frame = pd.DataFrame([[getattr(row, name) for name in names] for row in rows], columns=names)
    return frame.sort_values(["dataset", "method", "seed"], key=_order, kind="stable").reset_index(drop=True)


def _groups(frame: pd.DataFrame, *names: str) -> Iterator[tuple[Any, pd.DataFrame]]:
    """Groups of rows in the order of their names."""
    yield from frame.groupby(list(names), sort=True)


def _order(column: Any) -> Any:
    """Methods in the order of the papers' tables, everything else by its name."""
    return column.map(methods.place_of) if column.name == "method" else column


def _drawn(path: Path) -> list[Row]:
    try:
        made: list[Row] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ManifestError(f"{path} holds no pictures of an evaluation: {error}") from error
    return made


def _summary(frame: pd.DataFrame) -> str:
    if frame.empty:
        return "Nothing was evaluated yet: snakemake tta_<dataset>, then snakemake report."
    columns = ["dataset", "direction", "suite", "perturbation", "severity", "mix", "share"]
    scenarios = len(frame[columns].drop_duplicates())
    return (
        f"{_plural(frame['dataset'].nunique(), 'dataset')}, {_plural(scenarios, 'scenario')}, "
        f"{_plural(frame['method'].nunique(), 'method')}; R@1 in percent, "
        "the best of a column bold, the second best underlined."
    )


def _plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _banner(frame: pd.DataFrame) -> list[str]:
    offline: dict[str, set[str]] = {}
    for said in frame["backend"].dropna().unique():
        for role, who in json.loads(said).items():
            stands_in = who in ("offline", "demo_encoder") or role == "severities"
            if stands_in or (role == "captions" and text_roles.stand_ins() & set(who.split(" + "))):
                offline.setdefault(role, set()).add(who)
    lines = []
    if offline.pop("retrieval", None):
        lines.append("Retrieval: a small encoder of drawn scenes, trained by the workflow itself.")
    captions = offline.pop("captions", None)
    severities = offline.pop("severities", None)
    lines += [f"{role.replace('_', ' ').capitalize()}: the offline backend." for role in sorted(offline)]
    if captions:
        lines.append(f"Captions were perturbed by {', '.join(sorted(captions))}.")
    if severities:
        lines.append(f"Severities are not the published ones: {', '.join(sorted(severities))}.")
    return lines


# --- tables ----------------------------------------------------------------------------------------------------------


def _results(frame: pd.DataFrame) -> Section:
    parts: list[Table | Figure | Heading] = []
    for (dataset, direction), group in _groups(frame, "dataset", "direction"):
        parts.append(Heading(f"{dataset}: {DIRECTIONS[direction]}"))
        clean = group[group["suite"] == "clean"]
        plain = group[(group["suite"] != "clean") & group["mix"].isna()]
        if plain.empty:
            parts.append(_table("unperturbed queries", {}, clean, pd.DataFrame()))
        for (suite, severity), scenario in _groups(plain, "suite", "severity"):
            asked = set(scenario["perturbation"])
            levels: dict[str, list[str]] = {}
            for entry in registry.suite(suite).perturbations:  # in the paper's order
                if entry.kind == _KINDS[direction] and entry.name in asked:
                    levels.setdefault(entry.level, []).append(entry.name)
            title = f"{suite} at severity {int(severity)}: R@1"
            parts.append(_table(title, levels, clean, scenario.assign(column=scenario["perturbation"])))
        for (suite, mix), mixed in _groups(group[group["mix"].notna()], "suite", "mix"):
            named = [
                f"{share:.0%} perturbed" if pd.notna(share) else name
                for name, share in zip(mixed["perturbation"], mixed["share"], strict=True)
            ]
            levels = {mix.replace("_", " "): list(dict.fromkeys(named))}
            parts.append(_table(f"{suite}, {mix.replace('_', ' ')}: R@1", levels, clean, mixed.assign(column=named)))
    texts = [] if parts else ["Nothing was evaluated yet: snakemake tta_<dataset>."]
    return Section("results", "Results", texts, parts)


def _table(title: str, levels: dict[str, list[str]], clean: pd.DataFrame, scenario: pd.DataFrame) -> Table:
    """Methods x perturbations, grouped by category, with averages."""
    methods = list(dict.fromkeys([*clean["method"], *(scenario["method"] if len(scenario) else ())]))
    columns: list[tuple[str, pd.Series, bool]] = [("clean", clean.groupby("method")["r1"].mean(), False)]
    head, second = [Cell("method"), Cell("clean")], [Cell(""), Cell("")]
    table = scenario.groupby(["method", "column"])["r1"].mean().unstack() if len(scenario) else pd.DataFrame()
    for level, names in levels.items():
        several = len(names) > 1
        head.append(Cell(level, span=len(names) + several))
        for name in names:
            columns.append((name, table[name], False))
            second.append(Cell(name))
        if several:
            columns.append(("average", table[names].mean(axis=1), True))
            second.append(Cell("average", average=True))
    if len(levels) > 1:
        head.append(Cell("all"))
        second.append(Cell("average", average=True))
        columns.append(("average", table[[name for names in levels.values() for name in names]].mean(axis=1), True))
    marked = [_marks([values.get(name, np.nan) for name in methods], average) for _, values, average in columns]
    body = [Line(name, [column[place] for column in marked]) for place, name in enumerate(methods)]
    return Table(title, [head, second] if levels else [head], body)


def _marks(values: Sequence[float], average: bool = False) -> list[Cell]:
    """Cells of a column. What reads the same is the same: ties are all best, and none is where all are alike."""
    shown = ["" if pd.isna(value) else f"{value:.1f}" for value in values]
    places = sorted({float(text) for text in shown if text}, reverse=True)
    several = len(places) > 1
    return [
        Cell(
            text,
            best=several and bool(text) and float(text) == places[0],
            second=several and bool(text) and float(text) == places[1],
            average=average,
        )
        for text in shown
    ]


def _plain_table(caption: str, frame: pd.DataFrame, formats: dict[str, str], names: Iterable[str]) -> Table:
    head = [Cell(""), *(Cell(name.replace("_", " ")) for name in formats)]
    body = []
    for name, row in zip(names, frame.to_dict("records"), strict=True):
        cells = ["" if pd.isna(row[key]) else format(row[key], how) for key, how in formats.items()]
        body.append(Line(name, [Cell(text) for text in cells]))
    return Table(caption, [head], body)


# --- sections --------------------------------------------------------------------------------------------------------


def _severities(frame: pd.DataFrame) -> Section:
    parts: list[Table | Figure | Heading] = []
    plain = frame[frame["mix"].isna() & (frame["suite"] != "clean")]
    for (dataset, direction, suite), group in _groups(plain, "dataset", "direction", "suite"):
        clean = frame[(frame["dataset"] == dataset) & (frame["direction"] == direction) & (frame["suite"] == "clean")]
        lines = {}
        for method in dict.fromkeys(group["method"]):
            at = group[group["method"] == method].groupby("severity")["r1"].mean()
            start = clean[clean["method"] == method]["r1"].mean()
            lines[method] = {0: float(start), **{int(one): float(value) for one, value in at.items()}}
        parts.append(
            Figure(
                figures.lines(lines, "severity (0: clean)", "R@1, %"),
                f"R@1 of each method against severity: {_spoken(lines)}",
                f"{dataset}, {suite}, {DIRECTIONS[direction]}: mean R@1 over the perturbations made at a severity.",
                640,
            )
        )
    return Section("severity", "R@1 against severity", [] if parts else ["No perturbed query yet."], parts)


def _spoken(lines: dict[str, dict[int, float]]) -> str:
    return "; ".join(
        f"{method} " + ", ".join(f"{value:.1f} at {severity}" for severity, value in values.items())
        for method, values in lines.items()
    )


def _robustness(frame: pd.DataFrame) -> Section:
    text = (
        "Absolute robustness is 1 - (clean - perturbed) / 100, relative robustness 1 - (clean - perturbed) / clean, "
        "MultiModal Impact (clean - perturbed) / clean, of R@1; "
        "mean and standard deviation over a category's perturbations. A method is compared with its own clean result."
    )
    plain = frame[frame["mix"].isna()]
    parts: list[Table | Figure | Heading] = []
    for (dataset, direction), group in _groups(plain, "dataset", "direction"):
        scored = robustness_scores(group)
        if scored.empty:
            continue
        made = aggregate(scored, ["suite", "level", "method"])
        for score, name in _SCORES.items():
            asked = set(made[["suite", "level"]].itertuples(index=False, name=None))
            columns = [
                column
                for suite in sorted({suite for suite, _ in asked})
                for column in dict.fromkeys((suite, entry.level) for entry in registry.suite(suite).perturbations)
                if column in asked
            ]
            body = []
            for method, own in made.sort_values("method", key=_order, kind="stable").groupby("method", sort=False):
                cell = {
                    (row["suite"], row["level"]): f"{row[f'{score}_mean']:.2f} ± {row[f'{score}_std']:.2f}"
                    for row in own.to_dict("records")
                }
                body.append(Line(str(method), [Cell(cell.get(column, "")) for column in columns]))
            suites = list(dict.fromkeys(suite for suite, _ in columns))
            head = [Cell("method"), *(Cell(one, span=sum(suite == one for suite, _ in columns)) for one in suites)]
            second = [Cell(""), *(Cell(level) for _, level in columns)]
            parts.append(Table(f"{dataset}, {DIRECTIONS[direction]}: {name}", [head, second], body))
    return Section("robustness", "Robustness scores", [text] if parts else ["No perturbed query yet."], parts)


def _hubs(frame: pd.DataFrame, pictures: Sequence[Row]) -> list[Section]:
    counts: list[Table | Figure | Heading] = []
    maps: list[Table | Figure | Heading] = []
    for dataset, direction, title, group in _shown(frame, pictures):
        occurrence = {one["method"]: one["occurrence"] for one in group}
        heat = {one["method"]: one["heatmap"] for one in group}
        where = f"{dataset}, {DIRECTIONS[direction]}, {title}"
        never = {name: float(np.mean(np.asarray(one) == 0)) for name, one in occurrence.items()}
        counts.append(
            Figure(
                figures.histograms(occurrence),
                "Histograms of k-occurrence; never retrieved: "
                + ", ".join(f"{name} {one:.0%}" for name, one in never.items()),
                f"{where}: how many gallery items are among the 15 best so often, before adapting (none) and after.",
            )
        )
        maps.append(
            Figure(
                figures.heatmaps(heat),
                "Similarities of the first queries (rows) and gallery items (columns), a square for each method",
                f"{where}: the first {len(next(iter(heat.values())))} queries and gallery items. "
                "Each row has its own scale, from white (least) to black; dark columns are hubs.",
            )
        )
    hubness = [column.name for column in columns_of(ResultRow) if column.name.startswith("hub_")]
    for (dataset, direction), rows in _groups(frame, "dataset", "direction"):
        perturbed = rows[rows["suite"] != "clean"]
        chosen = perturbed if len(perturbed) else rows
        means = chosen.groupby("method", sort=False)[hubness].mean()
        renamed = means.rename(columns=lambda name: name.removeprefix("hub_"))
        what = "mean over perturbed scenarios" if len(perturbed) else "clean queries"
        caption = f"{dataset}, {DIRECTIONS[direction]}: hubness of the k-occurrence, k = 15, {what}"
        counts.append(_plain_table(caption, renamed, dict.fromkeys(renamed.columns, ".3f"), list(renamed.index)))
    empty = ["No evaluation yet."]
    return [
        Section("hubness", "Hubness", [] if counts else empty, counts),
        Section("similarities", "Similarities", [] if maps else empty, maps),
    ]


def _shown(frame: pd.DataFrame, pictures: Sequence[Row]) -> list[tuple[str, str, str, list[Row]]]:
    """For each dataset and direction the scenario of least R@1, with the pictures of each method's first seed."""
    columns = ["dataset", "direction", "suite", "perturbation", "severity", "mix", "share"]
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for one in pictures:
        groups.setdefault(tuple(one[name] for name in columns), []).append(one)
    found = []
    none = frame[(frame["method"] == "none") & frame["mix"].isna()]
    for (dataset, direction), group in _groups(none, "dataset", "direction"):
        worst = group.sort_values(["r1", "suite", "perturbation", "severity"], kind="stable").iloc[0]
        severity = int(worst["severity"])
        key = (dataset, direction, worst["suite"], worst["perturbation"], severity, None, None)
        members: dict[str, Row] = {}
        for one in groups.get(key, ()):
            members.setdefault(one["method"], one)
        ordered = [members[name] for name in methods.methods() if name in members]
        if ordered:
            name = (
                "clean"
                if worst["suite"] == "clean"
                else f"{worst['suite']}/{worst['perturbation']} at severity {severity}"
            )
            found.append((dataset, direction, name, ordered))
    return found


def _costs(frame: pd.DataFrame) -> Section:
    formats = {
        **{f"{part}_ms_p50": ".2f" for part in ("encode", "adapt", "rerank", "total")},
        "total_ms_p95": ".2f",
        "peak_memory_mib": ",.0f",
        "updates": ".0f",
        "empty": ".0f",
        "non_finite": ".0f",
    }
    parts = []
    for (dataset, direction), group in _groups(frame, "dataset", "direction"):
        made = group.groupby("method", sort=False)[list(formats)].median()
        title = f"{dataset}, {DIRECTIONS[direction]}: milliseconds a query, medians over scenarios"
        parts.append(_plain_table(title, made, formats, list(made.index)))
    text = (
        "Encode: forward passes of the query encoder; adapt: losses, backward passes, optimizer; rerank: similarities. "
        "Steps: made (updates), skipped because no query passed the method's filter (empty), "
        "skipped because a number was none (non finite)."
    )
    return Section("cost", "Cost", [text] if parts else ["No evaluation yet."], parts)


def _sheets(paths: Sequence[Path]) -> Section:
    parts = []
    for path in paths:
        image = cv2.imread(str(path), cv2.IMREAD_COLOR)
        if image is None:
            raise ManifestError(f"{path} is no picture")
        if image.shape[1] > _SHEET_WIDTH:
            size = _SHEET_WIDTH, round(image.shape[0] * _SHEET_WIDTH / image.shape[1])
            image = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
        _, data = cv2.imencode(".webp", image, [cv2.IMWRITE_WEBP_QUALITY, 85])
        source = "data:image/webp;base64," + base64.b64encode(data.tobytes()).decode()
        suite, dataset = path.parent.name, path.parent.parent.name
        parts.append(Figure(source, f"Contact sheet of {suite} on {dataset}", f"{suite} on {dataset}."))
    return Section("sheets", "Perturbed clips", [] if parts else ["No corpus of videos yet."], parts)


def _gate(paths: Sequence[Path]) -> Section:
    parts = []
    for path in paths:
        columns = [column.name for column in columns_of(TextStatisticsRow)]
        rows = files.read_rows(path, TEXT_STATISTICS)
        made = pd.DataFrame([[getattr(row, name) for name in columns] for row in rows], columns=columns)
        if made.empty:
            continue
        share = {name: 100 * made[name] / made["captions"] for name in ("changed", "accepted")}
        shown = made.assign(**share)
        formats = {
            "severity": "d",
            "backend": "",
            "captions": ",d",
            "changed": ".1f",
            "accepted": ".1f",
            "similarity_mean": ".3f",
            "attempts_mean": ".2f",
            "bleu4": ".3f",
            "meteor": ".3f",
        }
        title = f"{made['suite'].iloc[0]} on {made['dataset'].iloc[0]}; changed and accepted in percent"
        parts.append(_plain_table(title, shown, formats, made["perturbation"].tolist()))
    text = (
        "Perturbed captions, and what the fidelity gate let through; "
        "similarity and tries are empty where nothing is gated."
    )
    return Section("captions", "Captions and the gate", [text] if parts else ["No caption was perturbed yet."], parts)


def _corpus_sentence(path: Path) -> str | None:
    """What became of a corpus' listed clips, from its quarantine manifest."""
    listed = sets.read_listed(path)
    return None if listed is None else f"{path.parent.name} on {path.parent.parent.name}: {listed.sentence('clips')}."


def _quarantined(rows: Sequence[QuarantineRow], corpora: Sequence[str]) -> Section:
    if not rows:
        return Section("quarantine", "Quarantine", [*corpora, "Nothing is quarantined."])
    unique = list({(row.item_id, row.stage, row.error): row for row in rows}.values())
    items = _plural(len({row.item_id for row in rows}), "item")
    texts = [*corpora, f"{_plural(len(rows), 'row')} of {items} could not be made."]
    if len(unique) > _MOST_LISTED:
        texts.append(f"The first {_MOST_LISTED} are listed; all are in the quarantine manifests.")
    body = [
        Line(row.item_id, [Cell(row.status), Cell(row.stage or ""), Cell(row.error or "")])
        for row in unique[:_MOST_LISTED]
    ]
    return Section(
        "quarantine",
        "Quarantine",
        texts,
        [Table("quarantined items", [[Cell("item"), Cell("status"), Cell("stage"), Cell("error")]], body)],
    )


def _provenance(frame: pd.DataFrame, paths: Sequence[Path]) -> Section:
    if frame.empty:
        return Section("provenance", "How it was made", ["Nothing was evaluated yet."])
    facts = {
        "model": frame["model"],
        "setting": frame["setting"],
        "seeds": frame["seed"].astype(str),
        "checkpoint (sha256)": frame["checkpoint_sha256"],
        "settings": frame["settings"],
        "tools": frame["tools"],
    }
    said = {name: sorted(set(values.dropna())) for name, values in facts.items()}
    about = [files.read_metadata(path) for path in paths]
    said["package"] = sorted({str(one["package_version"]) for one in about if "package_version" in one})
    body = [Line(name, [Cell("; ".join(map(str, values)))]) for name, values in said.items() if values]
    return Section(
        "provenance",
        "How it was made",
        [],
        [Table("what the numbers depend on", [[Cell("what"), Cell("which")]], body)],
    )
