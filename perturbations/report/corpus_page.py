"""The page of a corpus: one self-contained HTML file of counts, failures, sizes, measured distortion and crops.

It loads no other file, runs no script, and is identical for identical manifests and files. It links to what lies beside
it, and to the videos that it shows.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from perturbations.base import shown, storage, templates
from perturbations.base.errors import ManifestError
from perturbations.engine.corpus_card import mean_psnr, stand_ins
from perturbations.manifest import files, layout, locations, sets
from perturbations.manifest.kinds import COMPLETE, QUARANTINE, VIDEOS, VideoRow
from perturbations.report import crops, pages
from perturbations.suites import registry

_MOST_REASONS = 100


def write(path: Path, output: Path) -> None:
    """Write the page of a `videos` manifest, with the quarantine beside it.

    A clip whose file is missing or damaged has no crop, but the reason. Raises `ManifestError`.
    """
    rows = files.read_rows(path, VIDEOS)
    about = files.read_metadata(path)
    quarantine = path.with_name(layout.name(QUARANTINE.name))
    failed = files.read_rows(quarantine, QUARANTINE) if quarantine.is_file() else []
    names = _in_order(rows)
    complete = [row for row in rows if row.status == COMPLETE]
    reasons = pages.reasons(failed)
    drawn = _pictures(complete, names, path, about)
    text = templates.rendered(
        "perturbations.report",
        "corpus.html.j2",
        title=_title(rows, about),
        facts=_facts(path, rows, about),
        perturbed=[_line(name, _of(rows, name)) for name in names],
        tables=[table for table in _tables(complete, names) if table["rows"]],
        reasons=reasons[:_MOST_REASONS],
        number_of_reasons=len(reasons),
        pictures=drawn,
        links=_links(path, quarantine, output, about),
        videos=_videos(complete, {item for item, _ in drawn}, locations.root_of(path, about), output),
        side=crops.SIDE,
    )
    storage.write_text(output, text)


def _links(path: Path, quarantine: Path, output: Path, about: Mapping[str, object]) -> list[tuple[str, str]]:
    """The page of all pages, and the files beside the manifest, which the same run makes."""
    there = {
        "all corpora and results": locations.root_of(path, about) / layout.at("index"),
        "card": path.with_name(layout.name("card")),
        "contact sheet": path.with_name(layout.name("preview")),
        "rows (Parquet)": path,
        "quarantined rows (Parquet)": quarantine,
    }
    return [(name, pages.href(target, output)) for name, target in there.items()]


def _videos(rows: Sequence[VideoRow], items: set[str], root: Path, output: Path) -> dict[tuple[str, str, str], str]:
    """The links to the stored and the clean videos of the shown items, by item, perturbation and a crop's label."""
    links = {}
    for row in (row for row in rows if row.item_id in items):
        if row.path is not None:
            links[row.item_id, row.perturbation, crops.label(row)] = pages.href(root / row.path, output)
        source = Path(os.path.normpath(root / row.source_path))
        if source.is_relative_to(root):  # a page does not say where other folders are
            links[row.item_id, row.perturbation, crops.CLEAN] = pages.href(source, output)
    return links


def _in_order(rows: Sequence[VideoRow]) -> list[str]:
    """The perturbations of the rows, in their suite's order; then those of somebody else's shelf, by name."""
    present = {row.perturbation for row in rows}
    suites = sorted({row.suite for row in rows} & registry.suites().keys())
    order = [entry.name for suite in suites for entry in registry.perturbations(suite, "video")]
    known = [name for name in dict.fromkeys(order) if name in present]
    return known + sorted(present.difference(known))


def _title(rows: Sequence[VideoRow], about: Mapping[str, object]) -> str:
    suite = str(about.get("suite") or (rows[0].suite if rows else ""))
    title = registry.suite(suite).title if suite in registry.suites() else suite
    return f"{title} on {about.get('dataset') or (rows[0].dataset if rows else 'no dataset')}"


def _facts(path: Path, rows: Sequence[VideoRow], about: Mapping[str, object]) -> list[str]:
    listed = sets.read_listed(path)
    facts = [f"{listed.sentence('clips')}."] if listed else []
    complete = [row for row in rows if row.status == COMPLETE]
    if rows:
        total = sum(row.bytes or 0 for row in complete)
        variants = ", ".join(sorted({row.variant for row in rows}))
        severities = ", ".join(map(str, sorted({row.severity for row in rows})))
        stored = ", ".join(sorted({row.storage for row in rows}))
        # As the card counts: a clip that failed before it was perturbed has no row here.
        wanted = listed.listed * listed.scenarios if listed else len(rows)
        facts.append(
            f"{len(complete):,} of {wanted:,} videos complete, {shown.size(total)} in all; severities {severities}."
        )
        facts.append(f"Variant {variants}; seed {rows[0].seed}; storage {stored}{_loss(complete)}.")
    else:
        facts.append("No clip could be perturbed.")
    if lost := sets.losses_sentence(about):
        facts.append(f"{lost[0].upper()}{lost[1:]}.")
    if comparability := about.get("comparability"):
        facts.append(f"Results are {comparability}.")
    facts.append(
        f"Made by perturbations {about.get('package_version', 'of an unknown version')}, "
        f"configuration {about.get('config_digest', 'unknown')}."
    )
    return facts


def _loss(rows: Sequence[VideoRow]) -> str:
    values = [row.storage_psnr_db for row in rows if row.storage_psnr_db is not None and row.storage_psnr_db < math.inf]
    return f", at {min(values):.1f} to {max(values):.1f} dB from the intended frames" if values else ""


def _line(name: str, rows: Sequence[VideoRow]) -> dict[str, object]:
    """A perturbation's line: its clips at all severities together."""
    complete = [row for row in rows if row.status == COMPLETE]
    return {
        "name": name,
        "level": rows[0].level,
        "complete": len(complete),
        "quarantined": len(rows) - len(complete),
        "size": shown.size(sum(row.bytes or 0 for row in complete)),
        "stand_ins": ", ".join(stand_ins(complete)),
    }


# --- what was measured ------------------------------------------------------------------------------------------------


def _tables(rows: Sequence[VideoRow], names: Sequence[str]) -> list[dict[str, object]]:
    return [
        _measured(
            "PSNR against the clean clip, dB",
            "Higher is closer to the clean clip. Means over the clips that changed. ∞: no clip did; -: frames of "
            "another size, which cannot be compared.",
            rows,
            names,
            lambda row: row.psnr_db,
            lambda value: "∞" if value == math.inf else f"{value:.1f}",
            lambda value: (40 - value) / 32,
            mean=mean_psnr,
        ),
        _measured(
            "SSIM against the clean clip",
            "Higher is closer to the clean clip; 1 is the same. Means over clips.",
            rows,
            names,
            lambda row: row.ssim,
            lambda value: f"{value:.3f}",
            lambda value: 1 - value,
        ),
        _measured(
            "Length, of the clean clip's",
            "Frames, in percent of the source's; means over clips.",
            [row for row in rows if row.source_frame_count],
            [name for name in names if any(row.frame_count != row.source_frame_count for row in _of(rows, name))],
            lambda row: 100 * row.frame_count / row.source_frame_count,
            lambda value: f"{value:.0f}",
            None,
        ),
        _measured(
            "Size of the stored file, kB",
            "Means over clips.",
            rows,
            names,
            lambda row: None if row.bytes is None else row.bytes / 1000,
            lambda value: f"{value:,.0f}" if value >= 10 else f"{value:.1f}",
            None,
        ),
    ]


def _of(rows: Sequence[VideoRow], name: str) -> list[VideoRow]:
    return [row for row in rows if row.perturbation == name]


def _measured(
    title: str,
    note: str,
    rows: Sequence[VideoRow],
    names: Sequence[str],
    value: Callable[[VideoRow], float | None],
    text: Callable[[float], str],
    share: Callable[[float], float] | None,
    *,
    mean: Callable[[Sequence[float | None]], float | None] | None = None,
) -> dict[str, object]:
    """A table of one number by perturbation and severity; it has no rows where nothing was measured.

    `share`, from 0 to 1, is how strongly the clip is perturbed.
    """
    severities = tuple(sorted({row.severity for row in rows}))
    lines = []
    for name in names:
        cells = [[value(row) for row in _of(rows, name) if row.severity == severity] for severity in severities]
        lines.append((name, [(mean or _mean)(values) for values in cells]))
    if all(number is None for _, means in lines for number in means):
        lines = []
    return {
        "title": title,
        "note": note,
        "severities": severities,
        "rows": [(name, [_cell(number, text, share) for number in means]) for name, means in lines],
    }


def _cell(
    number: float | None, text: Callable[[float], str], share: Callable[[float], float] | None
) -> tuple[str, float | None]:
    if number is None:
        return "-", None
    return text(number), None if share is None else min(1.0, max(0.0, share(number)))


def _mean(values: Sequence[float | None]) -> float | None:
    measured = [value for value in values if value is not None and not math.isnan(value)]
    return math.fsum(measured) / len(measured) if measured else None


# --- crops ------------------------------------------------------------------------------------------------------------


def _pictures(
    rows: Sequence[VideoRow], names: Sequence[str], path: Path, about: Mapping[str, object]
) -> list[tuple[str, crops.Drawn]]:
    """The strips of each shown clip, under its id."""
    by_item: dict[str, list[VideoRow]] = {}
    root = locations.root_of(path, about)
    for row in rows:
        if storage.at_hand(root / row.source_path):
            by_item.setdefault(row.item_id, []).append(row)
    scenarios = len({(row.perturbation, row.severity) for row in rows})
    shown_items = crops.chosen(by_item, scenarios)
    clips = [list(crops.strips([_located(row, root) for row in by_item[item]], names, root)) for item in shown_items]
    drawn = crops.drawn(clips)
    return [
        (item, members)
        for item in shown_items
        if (members := [(strip, pictures) for strip, pictures in drawn if strip.item_id == item])
    ]


def _located(row: VideoRow, root: Path) -> VideoRow:
    try:
        return locations.located(row, root)
    except ManifestError as error:
        raise ManifestError(f"the row of {row.item_id!r} under {row.perturbation}: {error}") from error
