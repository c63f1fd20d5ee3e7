"""The root of a corpus: one digest of the hashes of all of its files, by which a copy is held against the original.

Files are named from `manifests/`, and `SHA256SUMS` has the hash of each. The files of a corpus are those of its suite's
folder, and those of its dataset that belong to no suite. A root is the SHA-256 of these files' list; that of all of
`manifests/` covers evaluations and their pages too. Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePath, PurePosixPath

from perturbations.base import sums
from perturbations.manifest import layout
from perturbations.manifest.kinds import FILES

ALL = ""
"""In `roots`: the name of all that lies below `manifests/`."""


def lines(manifests: Path) -> dict[str, str]:
    """The hashes of all listed files below a folder `manifests`, by their paths from there."""
    lists = (manifests / sums.NAME, *sorted(manifests.glob(f"*/{sums.NAME}")))
    return {
        (path.parent.relative_to(manifests) / name).as_posix(): digest
        for path in lists
        for name, digest in sums.read(path).items()
    }


def of_corpus(manifest: Path) -> dict[str, str]:
    """The listed files of the corpus that a manifest belongs to, with their hashes; none where it lies in no tree.

    The root of the corpus is `sums.root` of them, and their list `sums.text`.
    """
    tree = layout.in_tree(manifest)
    if tree is None or len(tree[1].parts) < 3:
        return {}
    return _in_folder(lines(tree[0] / layout.MANIFESTS), _folder_of(tree[1].relative_to(layout.MANIFESTS)))


def roots(manifests: Path) -> dict[str, str]:
    """The root of every corpus below a folder `manifests`, by its folder there, `DATASET/SUITE`, and that of `ALL`."""
    every = lines(manifests)
    places = {name: layout.place_of(f"{layout.MANIFESTS}/{name}") for name in every}
    folders = {
        _folder_of(PurePosixPath(name))
        for name, place in places.items()
        if place is not None and place.kind in FILES and FILES[place.kind].exported and "suite" in place.fields
    }
    of_corpora = {str(folder): sums.root(_in_folder(every, folder)) for folder in sorted(folders)}
    return {**of_corpora, ALL: sums.root(every)} if every else {}


def sentences(manifests: Path) -> list[str]:
    """The roots below a folder `manifests`, for people."""
    return [f"root of {name or 'all'} in {manifests.name}: {digest}" for name, digest in roots(manifests).items()]


def _folder_of(path: PurePath) -> PurePosixPath:
    """The folder of a file's corpus: what is made of whole videos belongs to what is made of their clips."""
    return PurePosixPath(*(part for part in path.parent.parts if part != layout.WHOLE))


def _in_folder(every: Mapping[str, str], corpus: PurePosixPath) -> dict[str, str]:
    """Of all files those in a corpus's folder, and those directly in the folders above it."""
    above = {corpus, *corpus.parents[:-1]}
    return {name: digest for name, digest in every.items() if _folder_of(PurePosixPath(name)) in above}
