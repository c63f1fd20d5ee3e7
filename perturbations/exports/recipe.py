"""A corpus without its pixels: its manifests with names instead of paths, from which the same frames can be made.

Nothing of the source dataset is in it but ids, captions and hashes. `regenerating` is the way back.
"""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from functools import cache
from pathlib import Path, PurePosixPath

from perturbations.base import project
from perturbations.base.errors import ManifestError
from perturbations.exports import card, corpus, croissant, folder, recipe_tables
from perturbations.exports.registry import Exported, Request
from perturbations.manifest import files, layout, locations
from perturbations.manifest.kinds import CAPTIONS, SOURCES, VIDEOS, ClipRow
from perturbations.plan.recipe import parse

_log = logging.getLogger("perturbations")

_COMMAND = "perturb regenerate THIS_FOLDER --clips FOLDER_OF_CLIPS -o NEW_FOLDER"
_ABOUT = (
    "The recipe and the hashes of every clip of a perturbed corpus, and no pixels. Whoever has the clips of the source "
    "dataset makes the same corpus, with `pip install '{release}'` and\n\n```\n{command}\n```\n\nwhich compares each "
    "clip's frames with `frames_sha256` and ends with an error where one differs. `source_path` is a clip's path below "
    "`FOLDER_OF_CLIPS`; only a file with the hash `source_sha256` is used. `--root {root}` proves that no table was "
    "exchanged."
)


def write_videos(request: Request) -> Exported:
    """Write the manifests of a suite's videos and of its dataset, with names of clips instead of paths.

    A clip's name is its path below the folder that holds all of them. Raises `ManifestError` for another manifest than
    of videos and for one that was changed after it was written, and as `corpus.read` and `folder.claim` do.
    """
    kind = files.kind_of(request.manifest)
    if kind != VIDEOS:
        raise ManifestError(f"{request.manifest} is a manifest of {kind.name}; recipes are exported from videos")
    if "/" in str(files.read_metadata(request.manifest).get("dataset")):
        raise ManifestError(f"{request.manifest} is of whole videos: export the manifest of the clips cut from them")
    exported = corpus.read(replace(request, clean=False), kinds=(VIDEOS,), any_tier=True)
    root = locations.root_of(request.manifest, files.read_metadata(request.manifest))
    texts = {row.recipe for row in exported.rows if isinstance(row, ClipRow) and row.recipe}
    recipes = [parse(text) for text in texts]
    donors = sorted({recipe.donors for recipe in recipes if recipe.donors is not None})
    tables = recipe_tables.near(locations.lying(request.manifest).absolute(), root, donors)
    folder.claim(request.output, recipe_tables.FORMAT, exported)
    every = {path for table in tables.values() for row in table.rows for path in recipe_tables.sources(row)}
    top = os.path.commonpath([os.path.dirname(os.path.normpath(root / path)) for path in every]) if every else root

    @cache
    def named(path: str) -> str:
        return PurePosixPath(os.path.relpath(os.path.normpath(root / path), top)).as_posix()

    records: dict[str, list[Path]] = {}
    for name, table in tables.items():
        path = request.output / folder.DATA / name
        table.write(path, (recipe_tables.renamed(row, named) for row in table.rows), ".")
        records[PurePosixPath(name).with_suffix("").as_posix().replace("/", "_")] = [path]
    for lacking in {layout.name(SOURCES.name), layout.name(CAPTIONS.name)} - {*tables}:
        _log.warning("%s will lack %s: there is none near %s", request.output, lacking, request.manifest)
    written = [path for paths in records.values() for path in paths]
    folder.finish(request.output, written, exported.left_out)
    digest = folder.write_sums(request.output, only=written)
    count = sum(exported.counts.values())
    lost = len(exported.left_out)
    described = card.Publication(exported, request, "clips", count, lost, clips=count, has_videos=False)
    configs = [
        card.Config(
            name, (path.relative_to(request.output).as_posix(),), is_default=path.name == layout.name(VIDEOS.name)
        )
        for name, (path,) in records.items()
    ]
    card.write(described, configs, [_ABOUT.format(release=project.release(), command=_COMMAND, root=digest)])
    croissant.write(described, records)
    _log.info("%s: its root is %s", request.output, digest)
    return Exported(0, 0, (), exported.left_out, recipes=count)
