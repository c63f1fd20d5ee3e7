"""The clips of a shard as Snakemake sees them: one marker beside them, an output of the job that makes the clips.

It holds the name and the size of each clip; of clips in a tar it is the tar's index, `TAR/OFFSET/MEMBER`. A folder that
was deleted is made again, because its markers lay in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from perturbations.base import storage, tars
from perturbations.manifest import layout


def write(path: Path, files: Iterable[tuple[str | None, int | None]]) -> None:
    """Write the marker of a shard, whose clips lie beside it; a clip that is not stored has neither path nor size."""
    sizes = {tars.from_folder(name): size for name, size in files if name is not None}
    storage.write_text(path, json.dumps(sizes, sort_keys=True, ensure_ascii=False) + "\n")


def write_texts(path: Path, parts: Iterable[Path]) -> None:
    """Write the marker of a shard of captions: the bytes of its parts by their paths from the marker's folder."""
    sizes = {part.relative_to(path.parent).as_posix(): part.stat().st_size for part in parts}
    storage.write_text(path, json.dumps(sizes, sort_keys=True) + "\n")


def drop_untrue_texts(folder: Path) -> None:
    """Delete the markers of captions in a folder of which a part is missing or has another size."""
    for marker in folder.glob("*.json"):
        sizes = json.loads(marker.read_text(encoding="utf-8"))
        parts = [(folder / name, size) for name, size in sizes.items()]
        if not all(part.is_file() and part.stat().st_size == size for part, size in parts):
            marker.unlink()


def is_marker(path: Path) -> bool:
    """Whether a file below `corpora/` is a marker of a shard."""
    tree = layout.in_tree(path, layout.CORPORA)
    place = None if tree is None else layout.place_of(tree[1].as_posix())
    return place is not None and place[0] == "clip_marker"
