"""The page of a corpus: one HTML file of clips that play, counts, failures, sizes and measured distortion.

It is identical for identical manifests and files, and loads nothing: a sample of the clips plays from small previews
inside the page. It links to what lies beside it, and opens the videos themselves when it is asked to.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from perturbations.base import shown, storage, tars, templates
from perturbations.base.errors import ManifestError
from perturbations.engine.corpus_card import mean_psnr
from perturbations.engine.tally import ScenarioTally, Tally, Value, stand_ins
from perturbations.manifest import files, layout, locations, sets
from perturbations.manifest.kinds import COMPLETE, QUARANTINE, VIDEOS, ClipRow, VideoRow
from perturbations.report import pages, previews
from perturbations.suites import registry

_MOST_REASONS = 100


def write(path: Path, output: Path) -> None:
    """Write the page of a `videos` manifest, with the quarantine beside it.

    A clip whose file is missing or damaged has no preview, but the reason. Raises `ManifestError`.
    """
    rows, about = files.read_rows(path, VIDEOS), files.read_metadata(path)
    root = locations.root_of(path, about)
    quarantine = path.with_name(layout.name(QUARANTINE.name))
    failed = files.read_rows(quarantine, QUARANTINE) if quarantine.is_file() else []
    complete: Counter[str] = Counter()
    videos = Tally({name: measure.value for name, measure in _MEASURES.items()})
    for row in videos.over(rows):
        complete[row.item_id] += row.status == COMPLETE
    names = _in_order(videos)
    items = previews.chosen(+complete, sum(scenario.complete > 0 for scenario in videos.scenarios.values()))
    members = [row for row in rows if row.item_id in items and row.status == COMPLETE]
    first = next((row for row in rows if row.status == COMPLETE), None)
    reasons = pages.reasons(failed)
    strips = _previews(items, members, names, root)
    text = templates.rendered(
        "perturbations.report",
        "corpus.html.j2",
        title=_title(videos, about),
        totals=_totals(path, videos),
        items=[(item, _cards(item, own, members, root, output)) for item, own in strips.items()],
        categories=_categories(videos, names),
        severities=_severities(videos),
        shape=(4, 3) if first is None else (first.width, first.height),
        sample=_sample(strips, videos),
        facts=_facts(path, videos, about),
        words=videos.in_words,
        is_still=videos.has_pictures,
        perturbed=[_line(name, videos.of(name)) for name in names],
        tables=[table for value in _MEASURES if (table := _table(videos, names, value))["rows"]],
        reasons=reasons[:_MOST_REASONS],
        number_of_reasons=len(reasons),
        links=_links(path, quarantine, output, about),
    )
    storage.write_text(output, text)


def _severities(videos: Tally) -> list[int]:
    """The severities of complete clips, sorted."""
    return sorted({severity for (_, severity), scenario in videos.scenarios.items() if scenario.complete})


def _links(path: Path, quarantine: Path, output: Path, about: Mapping[str, object]) -> list[tuple[str, str]]:
    """The page of all pages, and the files beside the manifest, which the same run makes."""
    there = {
        "all corpora and results": locations.root_of(path, about) / layout.at("index"),
        "card (Markdown)": path.with_name(layout.name("card")),
        "contact sheet": path.with_name(layout.name("preview")),
        "rows (Parquet)": path,
        "quarantined rows (Parquet)": quarantine,
    }
    return [(name, pages.href(target, output)) for name, target in there.items()]


def _in_order(videos: Tally) -> list[str]:
    """The perturbations of the rows, in their suite's order; then those of somebody else's shelf, by name."""
    present = videos.perturbations
    suites = sorted({row.suite for row in videos.distinct.values()} & registry.suites().keys())
    order = [entry.name for suite in suites for entry in registry.perturbations(suite, "video")]
    known = [name for name in dict.fromkeys(order) if name in present]
    return known + sorted(present.difference(known))


def _title(videos: Tally, about: Mapping[str, object]) -> str:
    suite = str(about.get("suite") or (videos.first.suite if videos.first else ""))
    title = registry.suite(suite).title if suite in registry.suites() else suite
    return f"{title} on {about.get('dataset') or (videos.first.dataset if videos.first else 'no dataset')}"


def _facts(path: Path, videos: Tally, about: Mapping[str, object]) -> list[str]:
    listed = sets.read_listed(path)
    suite = str(about.get("suite") or (videos.first.suite if videos.first else ""))
    facts = [f"After {registry.suite(suite).reference}."] if suite in registry.suites() else []
    facts += [f"{listed.sentence(videos.in_words('clips'))}."] if listed else []
    if videos.first is not None:
        rows = videos.distinct.values()
        variants = ", ".join(sorted({str(row.variant) for row in rows}))
        severities = ", ".join(map(str, videos.severities))
        stored = ", ".join(sorted({row.storage for row in rows}))
        # As the card counts: a clip that failed before it was perturbed has no row here.
        wanted = listed.listed * listed.scenarios if listed else videos.rows
        facts.append(
            f"{videos.number_complete:,} of {wanted:,} {videos.in_words('videos')} complete, "
            f"{shown.size(videos.bytes)} in all; severities {severities}."
        )
        facts.append(f"Variant {variants}; seed {videos.first.seed}; storage {stored}{_loss(videos)}.")
    else:
        facts.append("No clip could be perturbed.")
    if lost := sets.losses_sentence(about):
        facts.append(f"{lost[0].upper()}{videos.in_words(lost[1:])}.")
    if comparability := about.get("comparability"):
        facts.append(f"Results are {comparability}.")
    facts.append(
        f"Made by perturbations {about.get('package_version', 'of an unknown version')}, "
        f"configuration {about.get('config_digest', 'unknown')}."
    )
    return facts


def _loss(videos: Tally) -> str:
    values = [value for losses in videos.losses.values() for value in (min(losses), max(losses))]
    return f", at {min(values):.1f} to {max(values):.1f} dB from the intended frames" if values else ""


def _line(name: str, scenarios: Mapping[int, ScenarioTally]) -> dict[str, object]:
    """A perturbation's line: its clips at all severities together."""
    members = scenarios.values()
    return {
        "name": name,
        "level": next(iter(members)).level,
        "complete": sum(scenario.complete for scenario in members),
        "quarantined": sum(scenario.others for scenario in members),
        "size": shown.size(sum(scenario.bytes for scenario in members)),
        "stand_ins": ", ".join(stand_ins(members)),
    }


# --- what was measured ------------------------------------------------------------------------------------------------


class _Measure(NamedTuple):
    """A number of clips, and its table; `share`, from 0 to 1, is how strongly a clip is perturbed."""

    title: str
    note: str
    value: Value
    text: Callable[[float], str]
    share: Callable[[float], float] | None = None


def _length(row: ClipRow) -> float | None:
    return 100 * row.frame_count / row.source_frame_count if row.source_frame_count else None


_MEASURES = {
    "psnr": _Measure(
        "PSNR against the clean clip, dB",
        "Higher is closer to the clean clip. Means over the clips that changed. ∞: no clip did; -: frames of "
        "another size, which cannot be compared.",
        lambda row: row.psnr_db,
        lambda value: "∞" if value == math.inf else f"{value:.1f}",
        lambda value: (40 - value) / 32,
    ),
    "ssim": _Measure(
        "SSIM against the clean clip",
        "Higher is closer to the clean clip; 1 is the same. Means over clips.",
        lambda row: row.ssim,
        lambda value: f"{value:.3f}",
        lambda value: 1 - value,
    ),
    "kB": _Measure(
        "Size of the stored file, kB",
        "Means over clips.",
        lambda row: None if row.bytes is None else row.bytes / 1000,
        lambda value: f"{value:,.0f}" if value >= 10 else f"{value:.1f}",
    ),
    "length": _Measure(
        "Length, % of the clean clip",
        "Frames, in percent of the source's; means over clips.",
        _length,
        lambda value: f"{value:.0f}",
    ),
}


def _has_other_length(scenarios: Mapping[int, ScenarioTally]) -> bool:
    """Whether a clip has another number of frames than its source."""
    return any(length != 100 for scenario in scenarios.values() for length in scenario.values["length"])


def _table(videos: Tally, names: Sequence[str], value: str) -> dict[str, object]:
    """A table of one of `_MEASURES` by perturbation and severity; it has no rows where nothing was measured."""
    measure, severities = _MEASURES[value], _severities(videos)
    mean = mean_psnr if value == "psnr" else _mean
    lines = []
    for name in names:
        scenarios = videos.of(name)
        if value != "length" or _has_other_length(scenarios):
            cells = [scenarios[severity].values[value] if severity in scenarios else () for severity in severities]
            lines.append((name, [mean(values) for values in cells]))
    if all(number is None for _, means in lines for number in means):
        lines = []
    return {
        "title": videos.in_words(measure.title),
        "note": videos.in_words(measure.note),
        "severities": severities,
        "rows": [(name, [_cell(number, measure) for number in means]) for name, means in lines],
    }


def _cell(number: float | None, measure: _Measure) -> tuple[str, float | None]:
    if number is None:
        return "-", None
    return measure.text(number), None if measure.share is None else min(1.0, max(0.0, measure.share(number)))


def _mean(values: Sequence[float | None]) -> float | None:
    measured = [value for value in values if value is not None and not math.isnan(value)]
    return math.fsum(measured) / len(measured) if measured else None


# --- clips that play --------------------------------------------------------------------------------------------------


def _previews(
    items: Sequence[str], rows: Sequence[VideoRow], names: Sequence[str], root: Path
) -> dict[str, list[previews.Strip]]:
    """The previews of each shown clip, by its id; `rows` are the complete ones of these."""
    of_item = {item: [_located(row, root) for row in rows if row.item_id == item] for item in items}
    return previews.of_items(of_item, names, root)


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
                "href": pages.href(root / row.path, output) if row.path and _plays(row) else "",
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


def _plays(row: VideoRow) -> bool:
    """Whether a browser can play what is stored: a video in a file of its own."""
    return row.storage.startswith("video/") and tars.named(row.path or "") is None


def _numbers(row: VideoRow) -> list[str]:
    """What was measured of a clip, in words."""
    known = []
    if row.psnr_db is not None and not math.isnan(row.psnr_db):
        known.append("unchanged" if row.psnr_db == math.inf else f"PSNR {row.psnr_db:.1f} dB")
    if row.ssim is not None and not math.isnan(row.ssim):
        known.append(f"SSIM {row.ssim:.2f}")
    return known


def _categories(videos: Tally, names: Sequence[str]) -> dict[str, list[str]]:
    """The perturbations by category, in their suite's order."""
    categories: dict[str, list[str]] = {}
    for name in names:
        level = next(iter(videos.of(name).values())).level
        categories.setdefault(str(level), []).append(name)
    return categories


def _sample(strips: Mapping[str, object], videos: Tally) -> str:
    counted = f"Shown: {len(strips)} of {len(+videos.complete):,} {videos.in_words('clips')}, by small previews"
    if videos.has_pictures:
        return f"{counted}. A click on a perturbed one opens the stored file."
    return (
        f"{counted} of two seconds: the clip's beginning, or frames of all of it where time is perturbed or frames are "
        "stored. Enlarge opens the stored file."
    )


def _totals(path: Path, videos: Tally) -> list[tuple[str, str]]:
    """The numbers that the page opens on."""
    listed = sets.read_listed(path)
    clips = listed.listed if listed else len(videos.items)
    # As the card counts: a clip that failed before it was perturbed has no row here.
    wanted = listed.listed * listed.scenarios if listed else videos.rows
    return [
        (videos.in_words("clip" if clips == 1 else "clips"), f"{clips:,}"),
        ("perturbations", f"{len(videos.perturbations):,}"),
        ("severities", f"{len(videos.severities):,}"),
        (videos.in_words("videos complete"), f"{videos.number_complete:,} of {wanted:,}"),
        *([("size", shown.size(videos.bytes))] if videos.bytes else []),
    ]


def _located(row: VideoRow, root: Path) -> VideoRow:
    try:
        return locations.located(row, root)
    except ManifestError as error:
        raise ManifestError(f"the row of {row.item_id!r} under {row.perturbation}: {error}") from error
