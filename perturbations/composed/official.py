"""EgoCVR's own files (ExplainableML/EgoCVR): annotations, the pool of clips, and galleries."""

from __future__ import annotations

import ast
import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from pathlib import Path

from perturbations.base import shown, storage
from perturbations.base.errors import AnnotationError, ConfigError, ManifestError, short
from perturbations.composed import gallery_sets
from perturbations.composed.split import ComposedQuery, PoolClip, Rows, Split, as_text, same_action, stored
from perturbations.datasets import parsing
from perturbations.datasets.fields import checked_all
from perturbations.exports.export_registry import Exported, Request

ANNOTATIONS, POOL, GALLERIES = "egocvr_annotations.csv", "egocvr_data.csv", "egocvr_annotations_gallery.csv"
_BLOCK = 6  # distractors of a target, where there are so many
_MOST_IDS = 100_000
TEXTS = (
    "video_clip_id",
    "target_clip_ids",
    "video_clip_narration",
    "target_clip_narration",
    "instruction",
    "modified_captions",
)
_OF_POOL = ("clip_name", "narration_text", "video_uid")


def read(annotations: Path, pool: Path | None = None) -> Split:
    """The split of the official annotations, with or without galleries, and of the pool beside them.

    `pool` is `egocvr_data.csv`; default: beside the annotations. Galleries that the annotations bring are kept under
    the names `global_official` and `local_official`.
    Raises `AnnotationError` that names the file and the row for anything that does not fit.
    """
    pool_path = pool or annotations.parent / POOL
    clips = tuple(_clips(pool_path))
    if not clips:
        raise AnnotationError(f"{pool_path} lists no clip")
    queries: list[ComposedQuery] = []
    official: dict[str, list[Sequence[int]]] = {"global_official": [], "local_official": []}
    for place, row in _rows(annotations, TEXTS):
        queries.append(_query(annotations, place, row, len(queries)))
        for name, column in (("global_official", "global_idx"), ("local_official", "local_idx")):
            if row.get(column):
                official[name].append(_positions(annotations, place, column, row[column], len(clips)))
    if not queries:
        raise AnnotationError(f"{annotations} lists no query")
    known = {clip.clip_id for clip in clips}
    for number, query in enumerate(queries, start=1):
        missing = [name for name in (query.clip_id, *query.target_ids) if name not in known]
        if missing:
            raise AnnotationError(
                f"{annotations}: query {number} names a clip that is not in {pool_path.name}: {short(missing[0])}"
            )
    split = Split(clips, tuple(queries), {})
    rows, certain = blocks(split)
    complete = {name: members for name, members in official.items() if len(members) == len(queries)}
    return Split(clips, tuple(queries), rows, certain, complete)


def _rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    return checked_all(path, parsing.table(path, columns), columns)


def _clips(path: Path) -> Iterator[PoolClip]:
    for place, row in _rows(path, _OF_POOL):
        if not row["clip_name"] or not row["video_uid"]:
            raise AnnotationError(f"{path}, {place}: a clip without a name or a long video")
        start_s, end_s = span(row["clip_name"])
        yield PoolClip(
            clip_id=row["clip_name"],
            video_id=row["video_uid"],
            narration=row["narration_text"],
            start_s=start_s,
            end_s=end_s,
        )


def span(name: str) -> tuple[float | None, float | None]:
    """The seconds that a clip's name ends with: `uid_971_980`, or `uid_12-988_20-988` with `-` for the point."""
    parts = name.rsplit("_", 2)
    try:
        start_s, end_s = (float(part.replace("-", ".")) for part in parts[1:])
    except ValueError:
        return None, None
    return (start_s, end_s) if 0 <= start_s < end_s else (None, None)


def _query(path: Path, place: str, row: dict[str, str], number: int) -> ComposedQuery:
    targets = _names(path, place, row["target_clip_ids"])
    return ComposedQuery(
        query_id=f"{number:06d}",
        clip_id=row["video_clip_id"],
        targets=as_text(targets),
        instruction=row["instruction"].strip(),
        narration=row["video_clip_narration"].strip(),
        target_narration=row["target_clip_narration"].strip(),
        modified_caption=row["modified_captions"].strip(),
        instruction_source="official",
        caption_source="official" if row["modified_captions"].strip() else "",
    )


def _names(path: Path, place: str, text: str) -> tuple[str, ...]:
    value = _literal(path, place, "target_clip_ids", text)
    if not isinstance(value, list) or not value or not all(isinstance(name, str) and name for name in value):
        raise AnnotationError(f"{path}, {place}: target_clip_ids is not a list of names: {short(text)}")
    return tuple(value)


def _positions(path: Path, place: str, column: str, text: str, clips: int) -> Sequence[int]:
    value = _literal(path, place, column, text)
    if not isinstance(value, list) or not all(type(row) is int and 0 <= row < clips for row in value):
        raise AnnotationError(f"{path}, {place}: {column} is not a list of rows of {POOL}, 0 to {clips - 1}")
    return stored(value)


def _literal(path: Path, place: str, column: str, text: str) -> object:
    try:
        # Numbers are read far faster as JSON.
        value: object = json.loads(text) if _NUMBERS.fullmatch(text) else ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise AnnotationError(f"{path}, {place}: {column} is not a list: {short(text)}") from None
    if isinstance(value, list) and len(value) > _MOST_IDS:
        raise AnnotationError(f"{path}, {place}: {column} has more than {_MOST_IDS:,} members")
    return value


_NUMBERS = re.compile(r"\[[0-9 ,]*\]")


def blocks(split: Split) -> tuple[dict[str, Rows], frozenset[str]]:
    """The distractors of each target, recovered from the order of the pool, and the targets where that is certain.

    After the annotated clips, the pool holds for each long video, by its id, the blocks of its targets, which are
    sorted by their names. Six rows per target are the rule; fewer are all candidates in time order. Where the sizes are
    not that plain, a block holds no name twice and none of the target's own action; where that leaves several ways, or
    none, the first way or an even division is taken, and its targets are not certain.
    """
    of_video: dict[str, list[PoolClip]] = {}
    for target in split.targets():
        of_video.setdefault(target.video_id, []).append(target)
    result: dict[str, Rows] = {}
    certain: set[str] = set()
    for video, members in of_video.items():
        targets = sorted(members, key=lambda clip: clip.clip_id)
        rows = [row for row in split.of_video[video] if split.pool[row].clip_id not in split.annotated]
        ways = (
            [[_BLOCK] * len(targets)]
            if len(rows) == _BLOCK * len(targets)
            else list(islice(_ways(split, targets, rows), 2))
        )
        if len(ways) == 1:
            certain.update(target.clip_id for target in targets)
        edges = [round(number * len(rows) / len(targets)) for number in range(len(targets) + 1)]
        sizes = ways[0] if ways else [end - start for start, end in pairwise(edges)]
        first = 0
        for target, size in zip(targets, sizes, strict=True):
            result[target.clip_id] = tuple(rows[first : first + size])
            first += size
    return result, frozenset(certain)


def _ways(split: Split, targets: Sequence[PoolClip], rows: Sequence[int]) -> Iterator[list[int]]:
    """The sizes that the blocks may have, smallest first."""

    def divided(number: int, first: int) -> Iterator[list[int]]:
        if number == len(targets):
            if first == len(rows):
                yield []
            return
        for size in range(min(_BLOCK, len(rows) - first) + 1):
            if _is_block(split, targets[number], rows[first : first + size]):
                for rest in divided(number + 1, first + size):
                    yield [size, *rest]

    return divided(0, 0)


def _is_block(split: Split, target: PoolClip, rows: Sequence[int]) -> bool:
    clips = [split.pool[row] for row in rows]
    starts = [clip.start_s or 0.0 for clip in clips]
    return (
        len({clip.clip_id for clip in clips}) == len(clips)
        and all(same_action(clip.narration) != same_action(target.narration) for clip in clips)
        and (len(clips) == _BLOCK or starts == sorted(starts))
    )


def write(split: Split, folder: Path, *, galleries: Mapping[str, Iterable[Sequence[int]]] | None = None) -> list[Path]:
    """Write the official files: `egocvr_annotations.csv`, `egocvr_data.csv`, and with galleries the annotations' third.

    `galleries` gives `local_idx` and, at a few hundred MB, `global_idx`; a column that is absent is left out, and the
    official script cannot evaluate it. Returns the paths.
    """
    texts = [
        (
            *(query.clip_id, str(list(query.target_ids)), query.narration, query.target_narration),
            *(query.instruction, query.modified_caption),
        )
        for query in split.queries
    ]
    _write_table(folder / ANNOTATIONS, TEXTS, texts)
    _write_table(folder / POOL, _OF_POOL, ([clip.clip_id, clip.narration, clip.video_id] for clip in split.pool))
    if galleries:
        members = zip(*galleries.values(), strict=True)
        rows = ([*own, *(str([*some]) for some in of_query)] for own, of_query in zip(texts, members, strict=True))
        _write_table(folder / GALLERIES, [*TEXTS, *galleries], rows)
    return [folder / name for name in (ANNOTATIONS, POOL, *([GALLERIES] if galleries else []))]


def _write_table(path: Path, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    with storage.atomic_path(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(heads)
        table.writerows(rows)


def write_splits(request: Request) -> Exported:
    """Write `egocvr_annotations.csv`, `egocvr_data.csv` and `egocvr_annotations_gallery.csv`.

    Raises `ManifestError` where the released
    code would take a name or an instruction for a missing value, and `ConfigError` for an unknown gallery.
    """
    from perturbations.composed import manifests

    split = manifests.read(request.manifest.parent)
    _check_missing(split)
    local = request.gallery or ("local_official" if "local_official" in split.galleries else gallery_sets.DEFAULT_LOCAL)
    known = [name for name in (*gallery_sets.NAMES, *split.galleries) if not gallery_sets.is_global(name)]
    if local not in known:
        raise ConfigError(f"--gallery: no local gallery {local!r}; choose one of {', '.join(known)}")
    columns = {"local_idx": gallery_sets.gallery(split, local)}
    if request.global_gallery:
        everywhere = "global_official" if "global_official" in split.galleries else "global_rows"
        columns["global_idx"] = gallery_sets.gallery(split, everywhere)
    write(split, request.output, galleries=columns)
    return Exported(others=shown.plural(len(split.queries), "query"))


def _check_missing(split: Split) -> None:
    """Raise `ManifestError` for a text that pandas, with which the released code reads, takes for a missing value."""
    import pandas as pd

    texts = [(query, text) for query in split.queries for text in (query.instruction, query.clip_id, *query.target_ids)]
    with io.StringIO(newline="") as file:
        csv.writer(file).writerows([text.strip()] for _, text in texts)
        file.seek(0)
        missing = pd.read_csv(file, header=None, dtype=str)[0].isna()
    for (query, text), is_missing in zip(texts, missing, strict=True):
        if is_missing:
            raise ManifestError(
                f"query {short(query.query_id)} has the text {short(text)}, which EgoCVR's code reads as a missing "
                "value"
            )
