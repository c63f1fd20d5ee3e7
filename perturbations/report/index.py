"""The page that leads to all others: the corpora and results below `manifests/`, what failed, and what takes space.

It lists what lies there now, whichever runs made it, so it is no output of one job: the workflow writes it at the
end of each run, a failed one too.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from perturbations.base import shown, storage, templates
from perturbations.base.errors import ManifestError
from perturbations.manifest import files, layout, sets
from perturbations.manifest.kinds import QUARANTINE, TEXTS, VIDEOS
from perturbations.report import pages
from perturbations.report.feature import FEATURE

_MOST_REASONS = 50
_ENDINGS = (".parquet", ".html", ".md", ".svg", ".png")
_SECTIONS = {VIDEOS.name: "Perturbed videos", TEXTS.name: "Perturbed captions"}
_RESULTS = "Evaluations"
_TARGETS = {"adaptation": "tta", "evaluation": "evaluate", "composed": "composed"}
"""The folder of a dataset's results -> what the name of their target begins with."""
_NAMES = {
    layout.name("corpus_page"): "page",
    layout.name("caption_pairs"): "page",
    layout.name("results_page"): "page",
    layout.name("card"): "card (Markdown)",
    layout.name("preview"): "contact sheet",
    layout.name("quarantine"): "quarantined rows",
}
_HEADLINED = ("results",)
"""The kinds of results that the page of results shows."""
_OF_CAPTIONS = {layout.name(kind) for kind in ("texts", "text_statistics", *FEATURE.caption_files)}


def index(root: Path = Path()) -> Path:
    """Write the page of the project in `root`. A manifest that cannot be read is listed with the reason.

    Raises `OutputError` where the page cannot be written.
    """
    output = root / layout.at("index")
    results_page = root / layout.at("results_page")
    lying = sorted(path for path in _files(output.parent) if path != output)
    sections: dict[str, list[dict[str, object]]] = {name: [] for name in (*_SECTIONS.values(), _RESULTS)}
    lacking: list[dict[str, object]] = []
    unreadable: list[tuple[str, str, str]] = []
    linked: set[Path] = set()
    total = 0
    of_pictures: list[bool] = []
    for path in (path for path in lying if layout.is_manifest(path)):
        try:
            about = files.read_metadata(path)
            kind = str(about.get("kind"))
            if kind == QUARANTINE.name:
                lacking += _lacking(path, output)
            if section := _SECTIONS.get(kind, _RESULTS if kind.endswith("results") else None):
                size = files.stored_bytes(path) if kind == VIDEOS.name else 0
                of_pictures += [_has_pictures(path)] if kind == VIDEOS.name else []
                own_words = partial(shown.in_words_of, pictures=kind == VIDEOS.name and of_pictures[-1])
                beside = _beside(path, kind, lying)
                if section == _RESULTS and kind in _HEADLINED and results_page.is_file():
                    beside = [results_page, *beside]
                sections[section].append(_entry(path, about, size, beside, output, own_words))
                linked |= {path, *beside}
                total += size
        except (ManifestError, OSError) as error:
            reason = " ".join(str(error).replace(f"{root}/", "").split())
            unreadable.append((*_link(path, output), reason))
            linked.add(path)
    rest = [path for path in lying if path not in linked]
    words = partial(shown.in_words_of, pictures=bool(of_pictures) and all(of_pictures))
    text = templates.rendered(
        "perturbations.report",
        "index.html.j2",
        totals=[(words(name), value) for name, value in _totals(sections, total)],
        facts=[*map(words, _facts(root, total)), *roots(output.parent)],
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
    videos = sorted(manifests.rglob(layout.name(VIDEOS.name)))
    return [f"root of {path.parent.relative_to(manifests).as_posix()}: {storage.sha256(path)}" for path in videos]


def _files(folder: Path) -> Iterator[Path]:
    """Manifests and pages below a folder; links to other folders are not followed, nor are the files of a page."""
    for place, folders, names in os.walk(folder):
        below = Path(layout.MANIFESTS) / Path(place).relative_to(folder)
        folders[:] = [name for name in folders if layout.place_of((below / name).as_posix()) is None]
        paths = (Path(place, name) for name in names)
        yield from (path for path in paths if path.suffix in _ENDINGS and not storage.is_leftover(path))


def _has_pictures(path: Path) -> bool:
    """Whether the first row of a manifest of videos is of a picture."""
    paths = files.read_columns(path, "source_path")["source_path"]
    return len(paths) > 0 and storage.is_picture(paths[0].as_py())


def _link(path: Path, output: Path) -> tuple[str, str]:
    """A file's path below `manifests/`, and its link."""
    return path.relative_to(output.parent).as_posix(), pages.href(path, output)


def _beside(path: Path, kind: str, lying: list[Path]) -> list[Path]:
    """The files that belong to a manifest, a page first: of a suite's folder, those of videos or those of captions."""
    others = [other for other in lying if other.parent == path.parent and other != path]
    if kind in _SECTIONS:
        others = [other for other in others if (other.name in _OF_CAPTIONS) == (kind == TEXTS.name)]
    return sorted(others, key=lambda other: _NAMES.get(other.name, "") != "page")


def _entry(
    path: Path,
    about: Mapping[str, object],
    size: int,
    beside: list[Path],
    output: Path,
    words: Callable[[str], str],
) -> dict[str, object]:
    """A manifest and what belongs to it: names and links, the manifest's rows last."""
    kind = about.get("kind")
    below = path.relative_to(output.parent).parts
    links = [(_NAMES.get(other.name, other.name), other) for other in beside] + [("rows", path)]
    if kind in _SECTIONS:
        # A manifest that was put elsewhere is called by its folders; no target makes it there.
        place = layout.place_of(f"{layout.MANIFESTS}/{'/'.join(below)}")
        dataset, suite = (place[1]["dataset"], place[1]["suite"]) if place else ("", "")
        name = f"{suite} on {dataset}" if place else "/".join(below)
        command = f"{'text_' if kind == TEXTS.name else ''}{suite}_{dataset.partition('/')[0]}" if place else ""
        clips = output.parents[1] / layout.clips_below(Path(layout.MANIFESTS, *below[:-1]))
        links += [(words("videos"), clips)] if kind == VIDEOS.name and clips.is_dir() else []
    else:
        name = " / ".join(below[:-1])
        command = f"{_TARGETS[below[1]]}_{below[0]}" if len(below) > 2 and below[1] in _TARGETS else ""
    rows = about.get("rows", 0)
    count = _headline(path) if kind in _HEADLINED else shown.plural(rows if isinstance(rows, int) else 0, "row")
    if kind in _SECTIONS and (listed := sets.read_listed(path)) is not None:
        noun = "captions" if kind == TEXTS.name else words("clips")
        count = f"{listed.complete:,} of {listed.listed:,} {noun}, {listed.scenarios:,} scenarios"
    pictures = [pages.href(other, output) for other in beside if other.name == layout.name("preview")]
    return {
        "name": name,
        "picture": next(iter(pictures), ""),
        "count": count,
        "size": shown.size(size) if size else "",
        "made": f"{datetime.fromtimestamp(path.stat().st_mtime, UTC):%Y-%m-%d %H:%M}",
        "command": f"snakemake {command}" if command else "",
        "links": [(label, pages.href(other, output)) for label, other in links],
    }


def _headline(path: Path) -> str:
    """The number of an evaluation: the mean R@1 of its best method on perturbed queries, beside that on clean ones."""
    names = ("label", "direction", "perturbation", "text_perturbation", "mix", "recall_at_1")
    rows = files.read_columns(path, *names).to_pandas()
    is_clean = rows[["text_perturbation", "mix"]].isna().all(axis=1) & rows["perturbation"].isin(["clean"])
    rows["side"] = is_clean.map({True: "clean", False: "perturbed"})
    means = rows.pivot_table("recall_at_1", ["label", "direction"], "side")
    if "perturbed" not in means or means["perturbed"].isna().all():
        return shown.plural(len(rows), "row")
    label, direction = means["perturbed"].idxmax()
    best = means.loc[(label, direction)]
    clean = f", {best['clean']:.1f} clean" if "clean" in best and not math.isnan(best["clean"]) else ""
    methods = shown.plural(rows["label"].nunique(), "method")
    return f"R@1 {best['perturbed']:.1f} perturbed{clean}: {label}, {direction}, the best of {methods}"


def _lacking(path: Path, output: Path) -> list[dict[str, object]]:
    """What a manifest of quarantined rows lists; nothing where it has no rows. Raises `ManifestError`."""
    reasons = pages.reasons(files.read_rows(path, QUARANTINE))
    name, href = _link(path, output)
    more = max(0, len(reasons) - _MOST_REASONS)
    return [{"name": name, "href": href, "reasons": reasons[:_MOST_REASONS], "more": more}] if reasons else []


def _totals(sections: Mapping[str, Sequence[object]], size: int) -> list[tuple[str, str]]:
    """The numbers that the page opens on."""
    corpora = sum(len(sections[title]) for title in _SECTIONS.values())
    totals = {"perturbed corpora": corpora and f"{corpora:,}", "evaluations": len(sections[_RESULTS])}
    totals["size of the videos"] = size and shown.size(size)
    return [(name, str(value)) for name, value in totals.items() if value]


def _facts(root: Path, total: int) -> list[str]:
    """What takes space."""
    sizes = {top: _size(root / top) for top in (layout.MANIFESTS, layout.WORK)}
    taken = [f"{top}/ {shown.size(size)}" for top, size in sizes.items() if size]
    free = shutil.disk_usage(root).free
    videos = [f"perturbed videos {shown.size(total)}"] if total else []
    return [f"Space: {', '.join([*videos, *taken])}; {shown.size(free)} are free."]


def _size(folder: Path) -> int:
    """The bytes of the files below a folder, as far as they can be read."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_size
            except OSError:  # deleted meanwhile
                continue
    return total
