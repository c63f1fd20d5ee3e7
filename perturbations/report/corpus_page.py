"""The page of a corpus: one HTML file of clips that play, counts, failures, sizes and measured distortion.

It is identical for identical manifests and files, and loads nothing: a sample of the clips plays from small previews
inside the page. It links to what lies beside it, and to the stored videos.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from perturbations.base import shown, storage, tars, templates
from perturbations.base.errors import ManifestError
from perturbations.engine.clip_rows import offline_roles
from perturbations.engine.corpus_card import mean_psnr
from perturbations.manifest import files, layout, locations, sets
from perturbations.manifest.companions import companion, texts_of
from perturbations.manifest.kinds import CAPTIONS, COMPLETE, QUARANTINE, VIDEOS, VideoRow
from perturbations.report import pages, previews
from perturbations.suites import registry

_MOST_REASONS = 100
_MOST_CAPTIONS = 5
_COLUMNS = (
    *("dataset", "item_id", "suite", "perturbation", "severity", "level", "status", "variant", "seed", "storage"),
    *("backend", "bytes", "frame_count", "source_frame_count", "psnr_db", "ssim", "storage_psnr_db", "source_path"),
)


def corpus_page(videos: Path, page: Path) -> None:
    """Write the page of a manifest of `videos`, with the quarantine beside it and the dataset's captions above it.

    A clip whose file is missing or damaged has no preview, but the reason. Raises `ManifestError`.
    """
    about, rows = files.read_metadata(videos), files.read_rows(videos, VIDEOS)
    frame = files.read_columns(videos, *_COLUMNS).to_pandas()
    complete = frame[frame["status"] == COMPLETE]
    root = locations.root_of(videos, about)
    quarantine = videos.with_name(layout.name(QUARANTINE.name))
    reasons = pages.reasons(files.read_rows(quarantine, QUARANTINE) if quarantine.is_file() else [])
    is_still = len(frame) > 0 and storage.is_picture(frame["source_path"].iloc[0])
    names = _in_order(frame)
    shown_items = {
        item: [_located(rows[int(place)], root) for place in np.flatnonzero(complete_of(frame, item))]
        for item in previews.chosen(complete["item_id"].value_counts().to_dict())
    }
    items = previews.of_items(shown_items, names, root)
    captions = texts_of(row for row in companion(videos, CAPTIONS) if row.item_id in items)
    first = next((row for members in shown_items.values() for row in members), None)
    text = templates.rendered(
        "perturbations.report",
        "corpus.html.j2",
        title=_title(about, frame),
        totals=[(shown.in_words_of(name, pictures=is_still), value) for name, value in _totals(videos, frame)],
        items=[
            (item, own.clean, captions.get(item, ())[:_MOST_CAPTIONS], list(_cards(own, root, page)))
            for item, own in items.items()
        ],
        categories=_categories(frame, names),
        severities=sorted(set(complete["severity"].tolist())),
        shape=(4, 3) if first is None else (first.width, first.height),
        number_of_items=complete["item_id"].nunique(),
        is_still=is_still,
        words=lambda text: shown.in_words_of(text, pictures=is_still),
        loading=_loading(videos, root, complete),
        facts=[shown.in_words_of(fact, pictures=is_still) for fact in _facts(videos, frame, about)],
        perturbed=[_line(name, frame[frame["perturbation"] == name]) for name in names],
        tables=[table for measure in _MEASURES if (table := _table(complete, names, measure))["rows"]],
        reasons=reasons[:_MOST_REASONS],
        number_of_reasons=len(reasons),
        links=_links(videos, quarantine, page, root),
    )
    storage.write_text(page, text)


def complete_of(frame: pd.DataFrame, item: str) -> pd.Series:
    """Which rows are the complete ones of an item."""
    return (frame["item_id"] == item) & (frame["status"] == COMPLETE)


def _links(path: Path, quarantine: Path, output: Path, root: Path) -> list[tuple[str, str]]:
    """The page of all pages, and the files beside the manifest, which the same run makes."""
    there = {
        "all corpora and results": root / layout.at("index"),
        "card (Markdown)": path.with_name(layout.name("card")),
        "contact sheet": path.with_name(layout.name("preview")),
        "rows (Parquet)": path,
        "quarantined rows (Parquet)": quarantine,
    }
    return [(name, pages.href(target, output)) for name, target in there.items()]


def _in_order(frame: pd.DataFrame) -> list[str]:
    """The perturbations of the rows, in their suite's order; then those that are not installed here, by name."""
    present = set(frame["perturbation"])
    suites = sorted(set(frame["suite"]) & registry.suites().keys())
    order = [entry.name for suite in suites for entry in registry.perturbations(suite, "video")]
    known = [name for name in dict.fromkeys(order) if name in present]
    return known + sorted(present.difference(known))


def _named(about: Mapping[str, object], frame: pd.DataFrame, name: str) -> str:
    """The suite or the dataset of a corpus."""
    return str(about.get(name) or (frame[name].iloc[0] if len(frame) else ""))


def _title(about: Mapping[str, object], frame: pd.DataFrame) -> str:
    suite = _named(about, frame, "suite")
    title = registry.suite(suite).title if suite in registry.suites() else suite
    return f"{title} on {_named(about, frame, 'dataset') or 'no dataset'}"


def _loading(path: Path, root: Path, complete: pd.DataFrame) -> list[str]:
    """How a program reads the corpus, from the folder that its paths start from."""
    if complete.empty:
        return []
    place = Path(os.path.relpath(os.path.abspath(path), os.path.abspath(root)))
    first = complete.iloc[-1]
    return [
        "from perturbations import Corpus",
        f"clips = Corpus({str(place)!r}).where(perturbation={first['perturbation']!r}, severity={first['severity']})",
        "frames = clips[0].frames()  # frames x height x width x 3, RGB, uint8; clips[0].captions: its captions",
    ]


def _totals(path: Path, frame: pd.DataFrame) -> list[tuple[str, str]]:
    """The numbers that the page opens on."""
    clips, videos = _listed_numbers(path, frame)
    size = frame["bytes"].sum()
    return [
        ("clip" if clips == 1 else "clips", f"{clips:,}"),
        ("perturbations", f"{frame['perturbation'].nunique():,}"),
        ("severities", f"{frame['severity'].nunique():,}"),
        ("videos complete", f"{(frame['status'] == COMPLETE).sum():,} of {videos:,}"),
        *([("size", shown.size(int(size)))] if size else []),
    ]


def _listed_numbers(path: Path, frame: pd.DataFrame) -> tuple[int, int]:
    """The numbers of clips and of videos that were asked for; a clip that no rows are of failed before."""
    listed = sets.read_listed(path)
    if listed is None:
        return frame["item_id"].nunique(), len(frame)
    return listed.listed, listed.listed * listed.scenarios


def _facts(path: Path, frame: pd.DataFrame, about: Mapping[str, object]) -> Iterator[str]:
    listed, suite = sets.read_listed(path), _named(about, frame, "suite")
    if suite in registry.suites():
        yield f"After {registry.suite(suite).reference}."
    if listed:
        yield f"{listed.sentence('clips')}."
    if len(frame):
        variants, stored, seeds = (
            ", ".join(sorted(map(str, set(frame[name].dropna())))) for name in ("variant", "storage", "seed")
        )
        yield f"Variant {variants}; seed {seeds}; storage {stored}{_loss(frame['storage_psnr_db'])}."
    else:
        yield "No clip could be perturbed."
    if lost := sets.losses_sentence(about):
        yield f"{lost[0].upper()}{lost[1:]}."
    if comparability := about.get("comparability"):
        yield f"Results are {comparability}."
    yield (
        f"Made by perturbations {about.get('package_version', 'of an unknown version')}, "
        f"configuration {about.get('config_digest', 'unknown')}."
    )
    yield "The licence of the clips is that of the dataset that they were made from."
    yield f"Root, the SHA-256 of the manifest, which has the hash of every file: {storage.sha256(path)}."


def _loss(losses: pd.Series) -> str:
    finite = losses[np.isfinite(losses.astype(float))]
    return f", at {finite.min():.1f} to {finite.max():.1f} dB from the intended frames" if len(finite) else ""


def _line(name: str, rows: pd.DataFrame) -> dict[str, object]:
    """A perturbation's line: its clips at all severities together."""
    complete = rows[rows["status"] == COMPLETE]
    return {
        "name": name,
        "category": rows["level"].iloc[0],
        "complete": len(complete),
        "quarantined": len(rows) - len(complete),
        "size": shown.size(int(complete["bytes"].sum())),
        "stand_ins": ", ".join(
            sorted({role for own in set(complete["backend"].dropna()) for role in offline_roles(own)})
        ),
    }


def _categories(frame: pd.DataFrame, names: Sequence[str]) -> dict[str, list[str]]:
    """The perturbations by category, in their suite's order."""
    of_name = frame.drop_duplicates("perturbation").set_index("perturbation")["level"]
    categories: dict[str, list[str]] = {}
    for name in names:
        categories.setdefault(str(of_name[name]), []).append(name)
    return categories


# --- what was measured ------------------------------------------------------------------------------------------------

_MEASURES = {
    "psnr_db": (
        "PSNR against the clean clip, dB",
        "Higher is closer to the clean clip. Means over the clips that changed. ∞: no clip did; -: frames of "
        "another size, which cannot be compared.",
    ),
    "ssim": ("SSIM against the clean clip", "Higher is closer to the clean clip; 1 is the same. Means over clips."),
    "kB": ("Size of the stored file, kB", "Means over clips."),
    "length": ("Length, % of the clean clip", "Frames, in percent of the source's; means over clips."),
}
"""The title of each table, and how to read it."""


def _table(complete: pd.DataFrame, names: Sequence[str], measure: str) -> dict[str, object]:
    """A measure by perturbation and severity; no rows where nothing was measured."""
    title, note = _MEASURES[measure]
    length = 100 * complete["frame_count"] / complete["source_frame_count"]
    frame = complete.assign(kB=complete["bytes"] / 1000, length=length)
    if measure == "length":
        frame = frame[frame["perturbation"].isin(frame["perturbation"][length != 100])]
    cells = frame.groupby(["perturbation", "severity"])[measure]
    means = (cells.agg(lambda own: _mean_psnr(own.tolist())) if measure == "psnr_db" else cells.mean()).unstack()
    rows = [
        (name, [_cell(measure, float(value)) for value in means.loc[[name]].to_numpy(float)[0]])
        for name in names
        if name in means.index
    ]
    if means.isna().all(axis=None):
        rows = []
    return {"title": title, "note": note, "severities": [*means.columns], "rows": rows}


def _mean_psnr(values: Sequence[float]) -> float:
    mean = mean_psnr(values)
    return math.nan if mean is None else mean


def _cell(measure: str, value: float) -> tuple[str, int | None]:
    """The text of a cell, and how strongly it is coloured, in percent."""
    if math.isnan(value):
        return "-", None
    if measure == "psnr_db":
        return "∞" if value == math.inf else f"{value:.1f}", _shade((40 - value) / 32)
    if measure == "ssim":
        return f"{value:.3f}", _shade(1 - value)
    return (f"{value:.0f}" if measure == "length" else f"{value:,.0f}" if value >= 10 else f"{value:.1f}"), None


def _shade(share: float) -> int:
    return round(60 * min(1.0, max(0.0, share)))


# --- clips that play --------------------------------------------------------------------------------------------------


def _cards(own: previews.ItemPreviews, root: Path, output: Path) -> Iterator[dict[str, Any]]:
    """What the grid shows of each perturbation of an item."""
    for name, pairs in own.perturbed.items():
        of_severities = [
            {
                "severity": row.severity,
                "preview": preview,
                "measured": _numbers(row),
                "href": pages.href(root / row.path, output) if row.path and _plays(row) else "",
            }
            for row, preview in pairs
        ]
        whole = any(previews.moves_frames(row) for row, _ in pairs)
        yield {"name": name, "category": pairs[0][0].level, "whole": whole, "severities": of_severities}


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


def _located(row: VideoRow, root: Path) -> VideoRow:
    try:
        return locations.located(row, root)
    except ManifestError as error:
        raise ManifestError(f"the row of {row.item_id!r} under {row.perturbation}: {error}") from error
