"""The page of a corpus: one HTML file of clips that play, counts, failures, sizes and measured distortion.

It is identical for identical manifests and files, and loads nothing: a sample of the clips plays from small previews
inside the page. It links to what lies beside it, and opens the videos themselves when it is asked to.
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
from perturbations.report import pages, previews
from perturbations.suites import registry

_MOST_REASONS = 100


def write(path: Path, output: Path) -> None:
    """Write the page of a `videos` manifest, with the quarantine beside it.

    A clip whose file is missing or damaged has no preview, but the reason. Raises `ManifestError`.
    """
    rows = files.read_rows(path, VIDEOS)
    about = files.read_metadata(path)
    quarantine = path.with_name(layout.name(QUARANTINE.name))
    failed = files.read_rows(quarantine, QUARANTINE) if quarantine.is_file() else []
    names = _in_order(rows)
    complete = [row for row in rows if row.status == COMPLETE]
    reasons = pages.reasons(failed)
    root = locations.root_of(path, about)
    strips = _previews(complete, names, root)
    text = templates.rendered(
        "perturbations.report",
        "corpus.html.j2",
        title=_title(rows, about),
        totals=_totals(path, rows, complete),
        items=[(item, _cards(item, own, complete, root, output)) for item, own in strips.items()],
        categories=_categories(rows, names),
        severities=sorted({row.severity for row in complete}),
        shape=max(((row.width, row.height) for row in complete[:1]), default=(4, 3)),
        sample=_sample(strips, complete),
        facts=_facts(path, rows, about),
        perturbed=[_line(name, _of(rows, name)) for name in names],
        tables=[table for table in _tables(complete, names) if table["rows"]],
        reasons=reasons[:_MOST_REASONS],
        number_of_reasons=len(reasons),
        links=_links(path, quarantine, output, about),
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
            "Size of the stored file, kB",
            "Means over clips.",
            rows,
            names,
            lambda row: None if row.bytes is None else row.bytes / 1000,
            lambda value: f"{value:,.0f}" if value >= 10 else f"{value:.1f}",
            None,
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


# --- clips that play --------------------------------------------------------------------------------------------------


def _previews(rows: Sequence[VideoRow], names: Sequence[str], root: Path) -> dict[str, list[previews.Strip]]:
    """The previews of each shown clip, by its id."""
    by_item: dict[str, list[VideoRow]] = {}
    for row in rows:
        if storage.at_hand(root / row.source_path):
            by_item.setdefault(row.item_id, []).append(row)
    scenarios = len({(row.perturbation, row.severity) for row in rows})
    shown_items = previews.chosen(by_item, scenarios)
    return previews.of_items(
        {item: [_located(row, root) for row in by_item[item]] for item in shown_items}, names, root
    )


def _cards(
    item: str, strips: Sequence[previews.Strip], rows: Sequence[VideoRow], root: Path, output: Path
) -> list[dict[str, object]]:
    """What the page shows of a clip: per perturbation its previews, what was measured, and the videos themselves.

    `shares` is the place of the first card with the same clean preview, which is in the page once.
    """
    own = {(row.perturbation, row.severity): row for row in rows if row.item_id == item}
    firsts: dict[previews.Preview, int] = {}
    cards = []
    for place, strip in enumerate(strips):
        first = firsts.setdefault(strip.clean, place)
        of_strip = [own[strip.perturbation, part.severity] for part in strip.perturbed]
        source = Path(os.path.normpath(root / of_strip[0].source_path))
        whole = of_strip[0].start_s is None and of_strip[0].end_s is None
        perturbed = [
            {
                **vars(part),
                "measured": _numbers(row),
                "href": pages.href(root / row.path, output) if row.storage.startswith("video/") and row.path else "",
            }
            for part, row in zip(strip.perturbed, of_strip, strict=True)
        ]
        cards.append(
            {
                "perturbation": strip.perturbation,
                "category": of_strip[0].level,
                "clean": strip.clean,
                "shares": None if first == place or not strip.clean.video else first,
                # A page does not say where other folders are.
                "clean_href": pages.href(source, output) if whole and source.is_relative_to(root) else "",
                "perturbed": perturbed,
            }
        )
    return cards


def _numbers(row: VideoRow) -> list[str]:
    """What was measured of a clip, in words."""
    known = []
    if row.psnr_db is not None and not math.isnan(row.psnr_db):
        known.append("unchanged" if row.psnr_db == math.inf else f"PSNR {row.psnr_db:.1f} dB")
    if row.ssim is not None and not math.isnan(row.ssim):
        known.append(f"SSIM {row.ssim:.2f}")
    return known


def _categories(rows: Sequence[VideoRow], names: Sequence[str]) -> dict[str, list[str]]:
    """The perturbations by category, in their suite's order."""
    level_of = {row.perturbation: row.level for row in rows}
    categories: dict[str, list[str]] = {}
    for name in names:
        categories.setdefault(level_of[name], []).append(name)
    return categories


def _sample(strips: Mapping[str, object], rows: Sequence[VideoRow]) -> str:
    clips = len({row.item_id for row in rows})
    return (
        f"Shown: {len(strips)} of {clips:,} clips, by small previews of two seconds: the clip's beginning, or frames "
        "of all of it where time is perturbed or frames are stored. Enlarge opens the stored file."
    )


def _totals(path: Path, rows: Sequence[VideoRow], complete: Sequence[VideoRow]) -> list[tuple[str, str]]:
    """The numbers that the page opens on."""
    listed = sets.read_listed(path)
    clips = listed.listed if listed else len({row.item_id for row in rows})
    # As the card counts: a clip that failed before it was perturbed has no row here.
    wanted = listed.listed * listed.scenarios if listed else len(rows)
    size = sum(row.bytes or 0 for row in complete)
    return [
        ("clip" if clips == 1 else "clips", f"{clips:,}"),
        ("perturbations", f"{len({row.perturbation for row in rows}):,}"),
        ("severities", f"{len({row.severity for row in rows}):,}"),
        ("videos complete", f"{len(complete):,} of {wanted:,}"),
        *([("size", shown.size(size))] if size else []),
    ]


def _located(row: VideoRow, root: Path) -> VideoRow:
    try:
        return locations.located(row, root)
    except ManifestError as error:
        raise ManifestError(f"the row of {row.item_id!r} under {row.perturbation}: {error}") from error
