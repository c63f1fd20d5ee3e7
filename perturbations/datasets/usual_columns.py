"""What the columns of a table of captions mean, by how such tables usually call them: for `perturb init`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice
from pathlib import Path

from perturbations.base.errors import AnnotationError, cut
from perturbations.base.storage import nfc
from perturbations.datasets.fields import text_of
from perturbations.datasets.parsing import columns_of, json_splits, of_separator, rows_of

USUAL_NAMES = {
    "item_id": ("item_id", "video_id", "clip_id", "image_id", "videoid", "id", "key", "name"),
    "video": ("video", "file", "filename", "file_name", "path", "video_path", "video_name", "clip", "image"),
    "caption": ("caption", "text", "sentence", "description", "captions", "query", "encap"),
    "start_s": ("start_s", "start", "start_time", "start_sec", "start_seconds"),
    "end_s": ("end_s", "end", "end_time", "end_sec", "end_seconds"),
}
"""How files of captions call the columns, in lower case, with `_` for spaces."""
_LOOKED_AT = 10_000


def splits(captions: Path) -> list[str]:
    """The names of the splits, where a file in JSON has its entries by them."""
    if captions.suffix.lower() != ".json":
        return []
    return [name for name in json_splits(captions, "item_id", USUAL_NAMES["caption"]) if name]


def choose_columns(captions: Path, files: Collection[str]) -> tuple[dict[str, str], list[str]]:
    """Choose the columns or members of a file of captions, by their names and by `files`, the files that there are.

    Returns them by what they mean, as `ColumnsSection` calls it, and the names of the further ones.
    `files` has their names with and without endings. Of several columns that could name the items or their files, the
    values decide: a column of row numbers names no file, or another row's. Raises `AnnotationError` where a table has
    no column with a usual name.
    """
    names = columns_of(captions)
    of_files = {own for role, known in USUAL_NAMES.items() for own in known if role != "caption"}
    required = dict.fromkeys(name for name in names if usual_form(name) in of_files)
    entries = rows_of(captions, required, item_id="item_id", captions=USUAL_NAMES["caption"])
    rows = [row for _, row in islice(entries, _LOOKED_AT) if isinstance(row, dict)]  # of JSON, others are damaged
    names = names or list(dict.fromkeys(str(name) for row in rows for name in row))
    if not names:
        raise AnnotationError(f'{captions} lists no clip: it needs an entry per clip, such as {{"item_id": "a"}}')
    usual = {usual_form(name): name for name in names}
    could = {role: [usual[own] for own in known if own in usual] for role, known in USUAL_NAMES.items()}
    # In the form in which names are compared.
    values = {name: [nfc(text_of(row.get(name))) for row in rows] for name in (*could["item_id"], *could["video"])}
    number = {name: sum(value in files for value in texts) for name, texts in values.items()}
    item_id, video, caption, start_s, end_s = (
        max(could[role], key=lambda name: number.get(name, 0), default=None) for role in USUAL_NAMES
    )
    if caption is None and (mark := of_separator(names)):
        raise AnnotationError(f"{captions}: its columns are {cut(', '.join(names), 1_000)}{mark}")
    has_spans = start_s or end_s
    if item_id and video and not has_spans:
        ids, videos = (len({*values[name]}) for name in (item_id, video))
        is_of_class = ids < videos and usual_form(item_id) in ("id", "key", "name")
        if is_of_class or (_counts_rows(values[item_id]) and videos < len(rows)):
            item_id = None  # rows of one video are captions of one item
    if item_id is None:  # the files' names are the ids, with their endings or without
        item_id, video = video, None
    elif video is None and has_spans:  # the parts of a video have ids of their own
        own = [name for name in could["item_id"] if name != item_id and len({*values[name]}) == len(rows)]
        item_id, video = (own[0], item_id) if own else (item_id, None)
        if len({(row.get(item_id), row.get(start_s), row.get(end_s)) for row in rows}) > len({*values[item_id]}):
            what = f"the rows of one {item_id!r} are several parts of a video, which need ids of their own"
            raise AnnotationError(f"{captions}: {what}. Add a column item_id, and call {item_id!r} video")
    chosen = {"item_id": item_id, "video": video, "caption": caption, "start_s": start_s, "end_s": end_s}
    if item_id is None:
        usual_names = " or ".join((*USUAL_NAMES["item_id"][:3], *USUAL_NAMES["video"][:3]))
        columns = f"its columns are {cut(', '.join(names), 1_000)}{of_separator(names)}"
        raise AnnotationError(
            f"{captions}: no column is called {usual_names}; {columns}. Call the one that names the files item_id"
        )
    by_role = {role: name for role, name in chosen.items() if name is not None}
    return by_role, [name for name in names if name not in by_role.values()]


def usual_form(name: str) -> str:
    """A column's name as `USUAL_NAMES` writes it."""
    return name.strip().lower().replace(" ", "_")


def _counts_rows(values: Sequence[str]) -> bool:
    """Whether values are the numbers of their rows, from 0 or 1."""
    return any(values == [str(number) for number in range(first, first + len(values))] for first in (0, 1))
