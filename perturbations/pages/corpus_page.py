"""The page of a corpus: one HTML file of clips that play, counts, failures, sizes and measured distortion.

It is identical for identical manifests and files, and loads nothing: a sample of the clips plays from small previews
inside the page. It links to what lies beside it, and to the stored videos.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from perturbations.base import shown, storage, tars
from perturbations.corpus.corpus_card import mean_psnr
from perturbations.corpus.store.clip_rows import offline_roles
from perturbations.manifest import files, locations, manifest_paths, sets
from perturbations.manifest.companions import companion, texts_of
from perturbations.manifest.rows import CAPTIONS, COMPLETE, QUARANTINE, VIDEOS, VideoRow
from perturbations.media import profiles
from perturbations.models.guides.backend_settings import STAND_IN
from perturbations.pages import clip_previews, common, templates
from perturbations.pages.preview_sheet import moves_frames
from perturbations.suites import suite_registry

_MOST_REASONS = 100
_MOST_CAPTIONS = 5
_COLUMNS = (
    *("dataset", "item_id", "suite", "perturbation", "severity", "level", "status", "variant", "seed", "storage"),
    *("backend", "bytes", "psnr_db", "ssim", "storage_psnr_db", "source_path"),
)


def corpus_page(videos: Path, page: Path) -> None:
    """Write the page of a manifest of `videos`, with the quarantine beside it and the dataset's captions above it.

    A clip whose file is missing or damaged has no preview, but the reason. Raises `ManifestError`.
    """
    about, rows = files.read_metadata(videos), files.read_rows(videos, VIDEOS)
    frame = files.read_columns(videos, *_COLUMNS).to_pandas()
    complete = frame[frame["status"] == COMPLETE]
    names = common.in_order(frame["suite"], set(frame["perturbation"]))
    root = locations.root_of(videos, about)
    quarantine = videos.with_name(manifest_paths.name(QUARANTINE.name))
    reasons = common.reasons(files.read_rows(quarantine, QUARANTINE) if quarantine.is_file() else [])
    is_still = len(frame) > 0 and profiles.is_picture(frame["source_path"].iloc[0])
    words = partial(shown.in_words_of, pictures=is_still)
    chosen = {
        item: [locations.located(rows[at], root) for at in complete.index[complete["item_id"] == item].tolist()]
        for item in clip_previews.chosen(complete["item_id"].value_counts().to_dict())
    }
    items = {item: clip_previews.of_item(members, names, root) for item, members in chosen.items()}
    captions = texts_of(row for row in companion(videos, CAPTIONS) if row.item_id in items)
    sizes = [(row.width, row.height) for members in chosen.values() for row in members]
    links = {
        "all corpora and results": root / manifest_paths.at("index"),
        "card (Markdown)": videos.with_name(manifest_paths.name("card")),
        "contact sheet": videos.with_name(manifest_paths.name("preview")),
        "rows (Parquet)": videos,
        "quarantined rows (Parquet)": quarantine,
    }
    text = templates.rendered(
        "perturbations.pages",
        "corpus.html.j2",
        title=_title(about, frame),
        totals=[(words(name), value) for name, value in _totals(videos, frame)],
        items=[
            (item, clean, captions.get(item, ())[:_MOST_CAPTIONS], list(_cards(perturbed, root, page)))
            for item, (clean, perturbed) in items.items()
        ],
        categories=common.categories((name, _of(frame, name)["level"].iloc[0]) for name in names),
        severities=sorted(set(complete["severity"].tolist())),
        shape=sizes[0] if sizes else (4, 3),
        number_of_items=complete["item_id"].nunique(),
        is_still=is_still,
        words=words,
        has_stand_ins=any(offline_roles(row.backend) for members in chosen.values() for row in members),
        loading=_loading(videos, root, complete),
        facts=[words(fact) for fact in _facts(videos, frame, about)],
        perturbed=[_line(name, _of(frame, name)) for name in names],
        tables=[table for measure in _MEASURES if (table := _table(complete, names, measure))["rows"]],
        reasons=reasons[:_MOST_REASONS],
        number_of_reasons=len(reasons),
        links=[(name, common.href(target, page)) for name, target in links.items()],
    )
    storage.write_text(page, text)


def _of(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """The rows of a perturbation."""
    return frame[frame["perturbation"] == name]


def _named(about: Mapping[str, object], frame: pd.DataFrame, name: str) -> str:
    """The suite or the dataset of a corpus."""
    return str(about.get(name) or (frame[name].iloc[0] if len(frame) else ""))


def _title(about: Mapping[str, object], frame: pd.DataFrame) -> str:
    suite = _named(about, frame, "suite")
    title = suite_registry.suite(suite).title if suite in suite_registry.suites() else suite
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


def _totals(path: Path, frame: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """The numbers that the page opens on; a clip that no rows are of failed before it was perturbed."""
    listed = sets.read_listed(path)
    clips, videos = frame["item_id"].nunique(), len(frame)
    if listed is not None:
        clips, videos = listed.listed, listed.listed * listed.scenarios
    yield ("clip" if clips == 1 else "clips"), f"{clips:,}"
    yield "perturbations", f"{frame['perturbation'].nunique():,}"
    yield "severities", f"{frame['severity'].nunique():,}"
    yield "videos complete", f"{(frame['status'] == COMPLETE).sum():,} of {videos:,}"
    if size := frame["bytes"].sum():
        yield "size", shown.size(int(size))


def _facts(path: Path, frame: pd.DataFrame, about: Mapping[str, object]) -> Iterator[str]:
    listed, suite = sets.read_listed(path), _named(about, frame, "suite")
    if suite in suite_registry.suites():
        yield f"After {suite_registry.suite(suite).reference}."
    if listed:
        yield f"{listed.sentence('clips')}."
    if len(frame):
        variants, stored, seeds = (
            ", ".join(sorted(map(str, set(frame[name].dropna())))) for name in ("variant", "storage", "seed")
        )
        losses = frame["storage_psnr_db"].astype(float)
        finite = losses[np.isfinite(losses)]
        loss = f", at {finite.min():.1f} to {finite.max():.1f} dB from the intended frames" if len(finite) else ""
        yield f"Variant {variants}; seed {seeds}; storage {stored}{loss}."
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


def _line(name: str, rows: pd.DataFrame) -> dict[str, object]:
    """A perturbation's line: its clips at all severities together."""
    complete = rows[rows["status"] == COMPLETE]
    return {
        "name": name,
        "category": rows["level"].iloc[0],
        "complete": len(complete),
        "quarantined": len(rows) - len(complete),
        "size": shown.size(size) if (size := int(complete["bytes"].sum())) else "",
        "stand_ins": ", ".join(
            sorted({role for own in set(complete["backend"].dropna()) for role in offline_roles(own)})
        ),
    }


# --- what was measured ------------------------------------------------------------------------------------------------

_MEASURES = {
    "psnr_db": (
        "PSNR against the clean clip, dB",
        "Higher is closer to the clean clip. Mean of all changed clips. ∞: no clip changed. -: not measured, because "
        "the size changed.",
    ),
    "ssim": ("SSIM against the clean clip", "Higher is closer to the clean clip; 1 is the same. Mean of all clips."),
}
"""The title of each table, and how to read it."""


def _table(complete: pd.DataFrame, names: Sequence[str], measure: str) -> dict[str, Any]:
    """A measure by perturbation and severity; no rows where nothing was measured."""
    title, note = _MEASURES[measure]
    cells = complete.groupby(["perturbation", "severity"])[measure]
    means = (cells.agg(_mean_psnr) if measure == "psnr_db" else cells.mean()).unstack()
    means = means.reindex([name for name in names if name in means.index]).astype(float)
    rows = [(name, [_cell(measure, value) for value in row]) for name, *row in means.itertuples(name=None)]
    is_measured = bool(means.notna().any(axis=None))
    return {"title": title, "note": note, "severities": [*means.columns], "rows": rows if is_measured else []}


def _mean_psnr(values: pd.Series) -> float:
    mean = mean_psnr(values.tolist())
    return math.nan if mean is None else mean


def _cell(measure: str, value: float) -> tuple[str, int | None]:
    """The text of a cell, and how strongly it is coloured, in percent."""
    if math.isnan(value):
        return "-", None
    if measure == "psnr_db":
        return "∞" if value == math.inf else f"{value:.1f}", _shade((40 - value) / 32)
    return f"{value:.3f}", _shade(1 - value)


def _shade(share: float) -> int:
    return round(60 * min(1.0, max(0.0, share)))


# --- clips that play --------------------------------------------------------------------------------------------------


def _cards(
    perturbed: Mapping[str, Sequence[tuple[VideoRow, clip_previews.Preview]]], root: Path, output: Path
) -> Iterator[dict[str, Any]]:
    """What the grid shows of each perturbation of an item."""
    for name, pairs in perturbed.items():
        of_severities = []
        for row, preview in pairs:
            plays = row.path and row.storage.startswith("video/") and tars.named(row.path) is None
            href = common.href(root / row.path, output) if row.path and plays else ""
            own = {"severity": row.severity, "preview": preview, "measured": _numbers(row), "href": href}
            of_severities.append(own)
        whole = any(moves_frames(row) for row, _ in pairs)
        stand_in = STAND_IN if any(offline_roles(row.backend) for row, _ in pairs) else ""
        category = " · ".join(filter(None, (pairs[0][0].level, stand_in)))
        yield {
            "name": name,
            "level": pairs[0][0].level,
            "category": category,
            "whole": whole,
            "severities": of_severities,
        }


def _numbers(row: VideoRow) -> list[str]:
    """What was measured of a clip, in words."""
    psnr, ssim = (math.nan if value is None else value for value in (row.psnr_db, row.ssim))
    of_psnr = "unchanged" if psnr == math.inf else f"PSNR\N{NO-BREAK SPACE}{psnr:.1f}\N{NO-BREAK SPACE}dB"
    return [
        text for text, value in ((of_psnr, psnr), (f"SSIM\N{NO-BREAK SPACE}{ssim:.2f}", ssim)) if not math.isnan(value)
    ]
