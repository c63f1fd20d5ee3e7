"""What a repair may write: only what was recorded, to the byte. One judge decides for manifests and for clips.

A manifest is put back where its list has the hash of the expected content. A clip is put back where its row is that of
a manifest that is the listed one, made from listed ones, and the made file has the row's hash. Everything else stays as
it is and is a finding, with the command that makes it again.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perturbations.base import storage
from perturbations.base.errors import ManifestError, UnknownPerturbationError
from perturbations.engine.comparability import comparability
from perturbations.engine.tally import counted
from perturbations.manifest import files, sets
from perturbations.manifest.kinds import (
    SOURCES,
    TEXTS,
    VIDEOS,
    SourceRow,
    TextRow,
    VideoRow,
)
from perturbations.verify import remedies, undoing
from perturbations.verify.tree import Manifest, Tree

_OWN = ("kind", "schema_version", *files.COUNTS, "keys_sha256", "content_sha256", files.METADATA_HASH)


@dataclass(frozen=True)
class Permission:
    """What may be done below `corpora` by the rows of a manifest.

    Attributes:
        refusal: why nothing; "" where at least missing files may be made.
        replaces: whether files that are there may be replaced too.
    """

    refusal: str = ""
    replaces: bool = False


def permission(tree: Tree, manifest: Manifest[object]) -> Permission:
    """What may be done below `corpora` by the rows of a manifest: it and all that it is made from must be recorded.

    Without any list, as in corpora of earlier versions, what is missing is made, and nothing is replaced.
    """
    is_recorded = True
    for path in (manifest.path, *manifest.parents()):
        each = tree.at(path)
        if each is None or each.misplaced:
            return Permission(f"{path} is not a manifest of its folder")
        if not each.is_whole:
            return Permission(f"{path} is not the file that its list names: {remedies.way(path)}")
        is_recorded &= each.is_recorded
    return Permission(replaces=is_recorded)


def restored(
    tree: Tree, manifest: Manifest[object], rows: Sequence[object] | None, *, dry_run: bool
) -> tuple[Manifest[object] | None, str]:
    """A manifest that is not the recorded one, as it was, where its expected rows prove it; and otherwise why not.

    Unless `dry_run`, its file is put back. `rows` are the expected ones, as far as they are known.
    Raises `OutputError`.
    """
    if manifest.misplaced:
        return None, f"it is not repaired, because it is a manifest of another folder: {remedies.way(manifest.path)}"
    rows = manifest.rows if rows is None else rows
    with storage.scratch_directory() as folder:
        rewritten = Path(folder) / manifest.path.name
        about = files.as_written(manifest.path, manifest.kind, rows, metadata(tree, manifest, rows), rewritten)
        digest = storage.sha256(rewritten)
        if not _is_recorded(manifest, digest, about):
            return None, f"it is not repaired, because what it was is not known: {remedies.way(manifest.path)}"
        if not dry_run:
            with storage.output_errors(manifest.path):
                temporary = storage.temporary_path(manifest.path)
                try:
                    shutil.copyfile(rewritten, temporary)
                    undoing.put(manifest.root, manifest.path, temporary, digest)
                finally:
                    temporary.unlink(missing_ok=True)
    return manifest.restored(rows, about), ""


def _is_recorded(manifest: Manifest[object], digest: str, about: Mapping[str, object]) -> bool:
    """Whether a manifest's expected content is what it was: its list says so, or without a list its own hashes do."""
    if not manifest.precedes_lists:
        return manifest.listed == digest
    return all(manifest.about.get(name) == about.get(name) for name in ("content_sha256", files.METADATA_HASH))


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
        about[sets.SET] = sets.of_sources([row for row in rows if isinstance(row, SourceRow)]).columns()
    if manifest.kind.name == VIDEOS.name and (sources := tree.near(manifest, SOURCES)) is not None:
        videos = counted(row for row in rows if isinstance(row, VideoRow))
        about[sets.SET] = sets.of_counts(sources.rows, videos.complete, len(videos.scenarios)).columns()
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
    clips = videos.rows if videos else (row for row in rows if type(row) is VideoRow)
    captions = texts.rows if texts else (row for row in rows if isinstance(row, TextRow))
    if (VIDEOS.name in made_from) > bool(videos) or (TEXTS.name in made_from) > bool(texts):
        return None
    described = manifest if "adapter" in manifest.about or videos is None else videos
    try:
        return comparability(clips, captions, adapter=str(described.about.get("adapter", "")))
    except (ManifestError, UnknownPerturbationError, LookupError, ValueError, TypeError, AttributeError):
        return None  # a row's recipe is wrong, which is a finding of that row
