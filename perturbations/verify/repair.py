"""What a repair may write: a manifest is only written again when its parents are sound and its content is proven.

A manifest that a repair leaves as it is stays a finding, with the command that makes it again.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from perturbations.base import storage, sums
from perturbations.base.errors import ManifestError, UnknownPerturbationError
from perturbations.engine.comparability import comparability
from perturbations.manifest import files, sets
from perturbations.manifest.kinds import (
    SOURCES,
    TEXTS,
    VIDEOS,
    SourceRow,
    TextRow,
    VideoRow,
)
from perturbations.verify.tree import Manifest, Tree, from_root

_OWN = ("kind", "schema_version", *files.COUNTS, "keys_sha256", "content_sha256", files.METADATA_HASH)


def metadata(tree: Tree, manifest: Manifest[object], rows: Sequence[object]) -> dict[str, object]:
    """What a manifest should say of itself, as far as it follows from rows; the rest as it is stored.

    Where it was changed, the rest is that of the manifest which the same rule wrote.
    """
    about = {name: value for name, value in manifest.about.items() if name not in files.COUNTS}
    twin = tree.at(manifest.beside(manifest.declared.twin)) if manifest.declared.twin else None
    if twin is not None and files.METADATA_HASH in about and about[files.METADATA_HASH] != _hashed(manifest):
        own = {name: manifest.about.get(name) for name in _OWN}
        about = {**{name: value for name, value in twin.about.items() if name not in _OWN}, **own}
    datasets = {getattr(row, "dataset", None) for row in rows} - {None}
    if "dataset" in about and len(datasets) == 1:
        about["dataset"] = datasets.pop()
    if manifest.kind.name == SOURCES.name:
        about["set"] = sets.of_sources([row for row in rows if isinstance(row, SourceRow)]).columns()
    if manifest.kind.name == VIDEOS.name and (sources := tree.near(manifest, SOURCES)) is not None:
        videos = [row for row in rows if isinstance(row, VideoRow)]
        scenarios = len({(row.perturbation, row.severity) for row in videos})
        about["set"] = sets.of_corpus(sources.rows, videos, scenarios).columns()
    # Words of an earlier version may be others.
    if files.METADATA_HASH in about and about.get("package_version") == tree.version and "comparability" in about:
        verdict = _comparability(tree, manifest, rows)
        about["comparability"] = about["comparability"] if verdict is None else verdict
    return about


def _hashed(manifest: Manifest[object]) -> str:
    return files.metadata_sha256(manifest.about)


def _comparability(tree: Tree, manifest: Manifest[object], rows: Sequence[object]) -> str | None:
    """The verdict on the videos and captions that a manifest is made from, or holds; None where they are not there."""
    made_from = manifest.declared.made_from
    if not {VIDEOS.name, TEXTS.name} & {manifest.kind.name, *made_from}:
        return None
    videos = tree.near(manifest, VIDEOS) if VIDEOS.name in made_from else None
    texts = tree.near(manifest, TEXTS) if TEXTS.name in made_from else None
    clips = videos.rows if videos else [row for row in rows if type(row) is VideoRow]
    captions = texts.rows if texts else [row for row in rows if isinstance(row, TextRow)]
    if (VIDEOS.name in made_from) > bool(videos) or (TEXTS.name in made_from) > bool(texts):
        return None
    described = manifest if "adapter" in manifest.about or videos is None else videos
    try:
        return comparability(clips, captions, adapter=str(described.about.get("adapter", "")))
    except (ManifestError, UnknownPerturbationError, LookupError, ValueError, TypeError, AttributeError):
        return None  # a row's recipe is wrong, which is a finding of that row


def write(
    manifest: Manifest[object],
    rows: Sequence[object],
    about: dict[str, object],
    *,
    derived: bool,
    unsound: Callable[[], Path | None],
) -> tuple[bool, str]:
    """Write a manifest with its expected rows and metadata, where that is safe.

    `derived` is False where the rows are only a guess, or as they are stored. `unsound` gives a parent that has a
    finding of its own. Returns whether the file was written, and why not where it is still wrong.
    """
    stored = manifest.path.read_bytes()
    data = files.as_written(manifest.path, manifest.kind, rows, about)
    if data == stored:
        of_clips = manifest.kind.name in (SOURCES.name, VIDEOS.name)  # their files are wrong, and reported each
        return False, "" if of_clips else f"it is not repaired: {way(manifest.path)}"
    if (parent := unsound()) is not None:
        return False, f"it is not repaired, because {parent} has a problem itself: {way(parent)}"
    if not _is_proven(manifest, rows, about, data, derived=derived):
        return False, f"it is not repaired, because what it was is not known: {way(manifest.path)}"
    with storage.atomic_path(manifest.path) as temporary:
        temporary.write_bytes(data)
    return True, ""


def _is_proven(
    manifest: Manifest[object], rows: Sequence[object], about: dict[str, object], data: bytes, *, derived: bool
) -> bool:
    """Whether a manifest's expected content is what it was, or follows from sound parents.

    Two records tell what it was: the list of the dataset's files, and the hashes within the manifest. Whoever changed
    a manifest may have changed either. Where both fit what is stored, only what follows from elsewhere is written.
    """
    listed, stored = sums.recorded(manifest.path), storage.sha256(manifest.path)
    if listed == storage.sha256_of(data):
        return True
    if listed not in (None, stored) and files.is_reproducible(about):
        return False
    said = {name: manifest.about.get(name) for name in (files.METADATA_HASH, "content_sha256")}
    if not files.changed_parts(manifest.path, manifest.kind, manifest.rows):
        return derived
    table = files.table_as_in(manifest.path, manifest.kind, rows)
    now = {**about, **files.describe(manifest.kind, table)}
    return now["content_sha256"] == said["content_sha256"] and said[files.METADATA_HASH] in (
        None,
        files.metadata_sha256(now),
    )


def way(path: Path) -> str:
    """The commands that make a manifest again."""
    name = shlex.quote(from_root(path))
    return f"run `perturb verify --repair` without --fast; or delete it and run `snakemake --cores 1 {name}`"
