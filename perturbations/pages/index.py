"""The page that leads to all others: the corpora and results below `manifests/`, what failed, and what takes space.

It lists what lies there now, whichever runs made it, so it is no output of one job: the workflow writes it at the
end of each run, a failed one too.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from perturbations.base import shown, storage
from perturbations.base.errors import ManifestError
from perturbations.manifest import files, manifest_paths, sets
from perturbations.manifest.rows import QUARANTINE, TEXTS, VIDEOS
from perturbations.media import profiles
from perturbations.pages import common, templates

_MOST_REASONS = 50
_ENDINGS = (".parquet", ".html", ".md", ".svg", ".png")
_RESULTS = "results"
"""The kind of results that the page of results shows."""
_SECTIONS = {VIDEOS.name: "Perturbed videos", TEXTS.name: "Perturbed captions", _RESULTS: "Evaluations"}
_TARGETS = {"adaptation": "tta", "evaluation": "evaluate", "composed": "composed"}
"""The folder of a dataset's results -> what the name of their target begins with."""
_NAMES = {
    **{manifest_paths.name(kind): "page" for kind in ("corpus_page", "caption_pairs", "results_page")},
    manifest_paths.name("card"): "card (Markdown)",
    manifest_paths.name("preview"): "contact sheet",
    manifest_paths.name("quarantine"): "quarantined rows (Parquet)",
}
_OF_CAPTIONS = {manifest_paths.name(kind) for kind in ("texts", "text_statistics", "caption_pairs")}


def index(root: Path = Path()) -> Path:
    """Write the page of the project in `root`. A manifest that cannot be read is listed with the reason.

    Raises `OutputError` where the page cannot be written.
    """
    output = root / manifest_paths.at("index")
    lying = sorted(path for path in _files(output.parent) if path != output)
    sections: dict[str, list[dict[str, Any]]] = {name: [] for name in _SECTIONS.values()}
    lacking: list[dict[str, object]] = []
    unreadable: list[tuple[str, str, str]] = []
    linked: set[Path] = set()
    for path in filter(manifest_paths.is_manifest, lying):
        try:
            known = files.kind_of(path)
            with files.open_manifest(path, known):  # which has the columns of its kind
                kind = known.name
            reasons = common.reasons(files.read_rows(path, QUARANTINE)) if kind == QUARANTINE.name else []
            if reasons:
                more = max(0, len(reasons) - _MOST_REASONS)
                name, href = _link(path, output)
                lacking.append({"name": name, "href": href, "reasons": reasons[:_MOST_REASONS], "more": more})
            if section := _SECTIONS.get(kind):
                page = [own for own in lying if kind == _RESULTS and own == root / manifest_paths.at("results_page")]
                beside = page + _beside(path, kind, lying)
                sections[section].append(_entry(path, kind, beside, output))
                linked |= {path, *beside}
        except (ManifestError, OSError) as error:
            reason = " ".join(str(error).replace(f"{root}/", "").split())
            unreadable.append((*_link(path, output), reason))
            linked.add(path)
    videos, captions, evaluations = sections.values()
    words = partial(shown.in_words_of, pictures=bool(videos) and all(own["is_still"] for own in videos))
    size = sum(own["bytes"] for own in videos)
    corpora = len(videos) + len(captions)
    totals = {
        "perturbed corpus" if corpora == 1 else "perturbed corpora": f"{corpora:,}",
        "evaluation" if len(evaluations) == 1 else "evaluations": f"{len(evaluations):,}",
        words("size of the videos"): shown.size(size),
    }
    rest = [path for path in lying if path not in linked]
    text = templates.rendered(
        "perturbations.pages",
        "index.html.j2",
        totals=[(name, value) for name, value in totals.items() if value not in ("0", "0 B")],
        facts=[f"Space: {shown.size(shutil.disk_usage(root).free)} are free.", *roots(output.parent)],
        sections={words(name): entries for name, entries in sections.items()},
        lacking=lacking,
        unreadable=unreadable,
        pages=[_link(path, output) for path in rest if path.suffix == ".html"],
        rest=[_link(path, output) for path in rest if path.suffix != ".html"],
    )
    storage.write_text(output, text)
    return output


def roots(manifests: Path) -> list[str]:
    """The root of every corpus: the SHA-256 of its `videos.parquet`, which has the hash of every file."""
    videos = sorted(manifests.rglob(manifest_paths.name(VIDEOS.name)))
    return [
        f"checksum of the corpus {path.parent.relative_to(manifests).as_posix()}, for perturb verify --root: "
        f"{storage.sha256(path)}"
        for path in videos
    ]


def _files(folder: Path) -> Iterator[Path]:
    """Manifests and pages below a folder; links to other folders are not followed, nor are the files of a page."""
    for place, folders, names in os.walk(folder):
        below = Path(manifest_paths.MANIFESTS) / Path(place).relative_to(folder)
        folders[:] = [name for name in folders if manifest_paths.place_of((below / name).as_posix()) is None]
        paths = (Path(place, name) for name in names)
        yield from (path for path in paths if path.suffix in _ENDINGS and not storage.is_leftover(path))


def _link(path: Path, output: Path) -> tuple[str, str]:
    """A file's path below `manifests/`, and its link."""
    return path.relative_to(output.parent).as_posix(), common.href(path, output)


def _beside(path: Path, kind: str, lying: Sequence[Path]) -> list[Path]:
    """The files that belong to a manifest, a page first: of a suite's folder, those of videos or those of captions."""
    others = [other for other in lying if other.parent == path.parent and other != path]
    if kind != _RESULTS:
        others = [other for other in others if (other.name in _OF_CAPTIONS) == (kind == TEXTS.name)]
    return sorted(others, key=lambda other: _NAMES.get(other.name, "") != "page")


def _entry(path: Path, kind: str, beside: Sequence[Path], output: Path) -> dict[str, Any]:
    """A manifest and what belongs to it: names and links, the manifest's rows last."""
    below = path.relative_to(output.parent).parts
    links = [(_NAMES.get(other.name, other.name), other) for other in beside] + [("rows (Parquet)", path)]
    paths = files.read_columns(path, "source_path")["source_path"] if kind == VIDEOS.name else []
    is_still = len(paths) > 0 and profiles.is_picture(paths[0].as_py())
    size = files.stored_bytes(path) if kind == VIDEOS.name else 0
    if kind == _RESULTS:
        name, count = " / ".join(below[:-1]), _headline(path)
        target = f"{_TARGETS[below[1]]}_{below[0]}" if len(below) > 2 and below[1] in _TARGETS else ""
    else:
        # A manifest that was put elsewhere is called by its folders; no target makes it there.
        place = manifest_paths.place_of(f"{manifest_paths.MANIFESTS}/{'/'.join(below)}")
        dataset, suite = (place[1]["dataset"], place[1]["suite"]) if place else ("", "")
        name = f"{suite} on {dataset}" if place else "/".join(below)
        target = f"{'text_' if kind == TEXTS.name else ''}{suite}_{dataset.partition('/')[0]}" if place else ""
        clips = output.parents[1] / manifest_paths.clips_below(Path(manifest_paths.MANIFESTS, *below[:-1]))
        words = partial(shown.in_words_of, pictures=is_still)
        links += [(words("videos"), clips)] if kind == VIDEOS.name and clips.is_dir() else []
        count, noun = shown.plural(files.stored_rows(path), "row"), "captions" if kind == TEXTS.name else words("clips")
        if listed := sets.read_listed(path):
            scenarios = shown.plural(listed.scenarios, "scenario")
            count = f"{listed.complete:,} of {listed.listed:,} {noun}, {scenarios}"
    pictures = [common.href(other, output) for other in beside if other.name == manifest_paths.name("preview")]
    return {
        "name": name,
        "picture": next(iter(pictures), ""),
        "count": count,
        "size": shown.size(size) if size else "",
        "made": f"{datetime.fromtimestamp(path.stat().st_mtime, UTC):%Y-%m-%d %H:%M}",
        "command": f"snakemake {target}" if target else "",
        "links": [(label, common.href(other, output)) for label, other in links],
        "bytes": size,
        "is_still": is_still,
    }


def _headline(path: Path) -> str:
    """The number of an evaluation: the mean R@1 of its best method on perturbed queries, beside that on clean ones.

    Where nothing is perturbed, the best on clean queries.
    """
    rows = files.read_columns(path, "label", "direction", "suite", "recall_at_1").to_pandas()
    rows["side"] = np.where(rows["suite"] == "clean", "clean", "perturbed")
    means = rows.pivot_table("recall_at_1", ["label", "direction"], "side").reindex(columns=["perturbed", "clean"])
    means = means.dropna(axis="columns", how="all")
    if means.empty:
        return shown.plural(len(rows), "row")
    label, direction = means.iloc[:, 0].idxmax()
    numbers = ", ".join(f"{value:.1f} {side}" for side, value in means.loc[(label, direction)].dropna().items())
    methods = rows["label"].nunique()
    return f"R@1 {numbers}: " + (f"{label}, {direction}, the best of {methods} methods" if methods > 1 else direction)
