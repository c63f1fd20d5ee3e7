"""Features that a program computed, in files: read, matched by name, and written.

An `.npz` holds `ids` (texts) and `features` (N x D, or N x frames x D), a `.pt` a dictionary with both keys, a
`.safetensors` the tensor `features` with the ids as JSON in its metadata. A table, `.csv` or `.parquet`, has an id and
a list per row. A tensor without ids has them in a CSV beside it, which has no features. EgoCVR's layout is such a pair,
or a CSV `clip_name,clip_embeddings` or `text,text_embeddings`. Code in a file is never run.
"""

from __future__ import annotations

import json
import pickle
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from perturbations.base import storage
from perturbations.base.errors import AnnotationError, ConfigError, cut, first_line, short
from perturbations.datasets import parsing
from perturbations.datasets.listing import at
from perturbations.models.checkpoints import library
from perturbations.retrieval.matrices import as_array

Floats = NDArray[np.float32]

PooledAs = Literal["mean", "middle"]
"""The feature of a clip of several frames: their mean, or the middle one (EgoCVR's `--query_frames 1`)."""

_COLUMNS = {"id": "features", "clip_name": "clip_embeddings", "text": "text_embeddings"}
"""The columns of a table: an id, and its features."""

_MOST_NUMBERS = 65_536  # of a feature
_CLOSE = 1e-3  # of the largest value: rounding, such as of another batch


@dataclass(frozen=True)
class StoredFeatures:
    """Features, float32, ids x D, or similarities. Ids name items, clips or captions, or are the texts themselves.

    `path` is the file that holds them, `.` for computed features.
    """

    path: Path
    ids: tuple[str, ...]
    rows: NDArray[Any]

    def unique(self) -> StoredFeatures:
        """These features; raises `AnnotationError` where an id repeats."""
        repeated = [name for name, rows in _places(self.ids).items() if len(rows) > 1]
        if repeated:
            raise AnnotationError(f"{self.path} has ids in two rows: {', '.join(map(short, repeated[:3]))}")
        return self

    def place(self, row: int) -> str:
        """The place of a row in its file, for a message."""
        return f"{self.path}, row {row:,} ({short(self.ids[row])})"


def read(path: Path, *, frames: PooledAs = "mean") -> StoredFeatures:
    """The features in a file: a table with lists, or a tensor whose ids are in the same file or in a CSV beside it.

    A CSV of ids alone is read with the tensor beside it, as EgoCVR's code does. `frames` says how several features of
    an item become one. Raises `AnnotationError` that names the file and the row.
    """
    if not path.is_file():
        raise AnnotationError(f"{path}: no such file of features")
    beside = tensors_beside(path) if lists_ids(path) else []
    if len(beside) > 1:
        raise AnnotationError(f"{path}: name one of the tensors beside it: {', '.join(map(str, beside))}")
    if path.suffix.lower() in TENSORS or beside:
        held = _from_tensor(beside[0] if beside else path, path)
    elif path.suffix.lower() in SUFFIXES:
        held = _from_lists(path)
    else:
        raise AnnotationError(f"{path}: features are read from {', '.join(SUFFIXES)}")
    finite = np.isfinite(held.rows).reshape(len(held.rows), -1).all(axis=1)
    if not finite.all():
        raise AnnotationError(f"{held.place(int(finite.argmin()))}: NaN, infinity, or numbers that float32 cannot hold")
    rows = held.rows
    if rows.ndim == 3:
        rows = rows[:, rows.shape[1] // 2] if frames == "middle" else rows.mean(axis=1)
    return StoredFeatures(held.path, held.ids, np.ascontiguousarray(rows))


def lists_ids(path: Path) -> bool:
    """Whether a file is a CSV of ids without features: they may belong to a tensor beside it.

    Such a CSV has no column of features, or its first row leaves this column empty.
    """
    if path.suffix.lower() != ".csv":
        return False
    first: Any = next((row for _, row in parsing.table(path, (), way_out="")), {})
    return not any(key in first and first.get(features) for key, features in _COLUMNS.items())


def tensors_beside(path: Path) -> list[Path]:
    """The tensors of the same name in the folder of a CSV."""
    files = sorted(path.parent.iterdir())
    return [file for file in files if file.stem == path.stem and file.suffix.lower() in TENSORS]


def write(path: Path, ids: Sequence[str], rows: Floats, encoder: str = "") -> None:
    """Write ids, their features (ids x D) and the name of their encoder as an `.npz`, atomically."""
    with storage.atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez(file, ids=np.asarray(ids, np.str_), features=np.asarray(rows, np.float32), encoder=np.str_(encoder))


def encoder_of(path: Path) -> str:
    """The encoder of the features in an `.npz`; "" where it is not known."""
    try:
        with np.load(path, allow_pickle=False) as held:
            return str(held["encoder"])
    except Exception:  # as `read`, which names what is wrong
        return ""


def read_similarities(path: Path) -> tuple[StoredFeatures, tuple[str, ...]]:
    """Similarities in an `.npz` of `queries` and `gallery`, their ids, and `similarities`, N x M real numbers.

    Returns the queries, whose rows are as stored, and the ids of the gallery. Minus infinity marks pairs that were
    not compared. Raises `AnnotationError` for anything else.
    """
    if path.suffix.lower() != ".npz" or not path.is_file():
        raise AnnotationError(f"{path} is no .npz of `queries` and `gallery`, the ids, and `similarities`")
    try:
        held = _arrays(path, "queries", "gallery", "similarities")
        queries, gallery = (_texts(held[side], side) or () for side in ("queries", "gallery"))
    except Exception as error:  # as of features
        raise _unsound(path, "similarities", error) from error
    for side, own in (("queries", queries), ("gallery", gallery)):
        if len({*own}) != len(own):
            raise AnnotationError(f"{path}: `{side}` has an id in two places")
    rows, expected = held["similarities"], (len(queries), len(gallery))
    if rows.shape != expected or not rows.size or rows.dtype.kind not in "fiu":
        turned = ": transpose them" if rows.shape == expected[::-1] else ""
        given = f"{rows.dtype} {_sizes(rows.shape)}"
        raise AnnotationError(f"{path}: `similarities` are {given}; expected {_sizes(expected)} numbers{turned}")
    if np.isnan(rows).any() or (rows == np.inf).any():
        raise AnnotationError(f"{path}: `similarities` hold NaN or infinity")
    return StoredFeatures(path, queries, rows), gallery


def rows_of_ids(features: StoredFeatures, ids: Sequence[str], what: str = "items") -> Floats:
    """The features of each id, such as a clip's name or a text: float32, ids x D.

    Where an id occurs as often in the file as in `ids`, its features are taken in their order; otherwise all features
    of the id must be equal. Raises `AnnotationError`, which names ids without features, or with several.
    """
    held, wanted = _places(features.ids), _places(ids)
    if missing := [name for name in wanted if name not in held]:
        shown = ", ".join(map(short, missing[:3]))
        others = f"; it has {', '.join(map(short, [*held][:3]))}" if len(missing) == len(wanted) else ""
        raise AnnotationError(
            f"{features.path} does not have {len(missing):,} of {len(wanted):,} {what}: {shown}{others}"
        )
    chosen = np.empty(len(ids), np.int64)
    for name, places in wanted.items():
        rows = held[name]
        if len(rows) != len(places):
            first = features.rows[rows[0]]
            if (np.abs(features.rows[rows] - first).max(axis=1) > _CLOSE * np.abs(first).max()).any():
                raise AnnotationError(
                    f"{features.path} has {len(rows)} rows of {short(name)} with different features; which one is "
                    "meant cannot be told"
                )
            rows = rows[:1] * len(places)
        chosen[places] = rows
    return features.rows[chosen]


def _places(names: Sequence[str]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        places.setdefault(name, []).append(place)
    return places


# --- tables -----------------------------------------------------------------------------------------------------------


_FORM = '. A row is an id and a list of numbers, such as one,"[0.1, 0.2]"'


def _listed(path: Path, *, lists: bool) -> Iterator[tuple[str, str, Any]]:
    """The place, the id and the list of features of each row (text in a CSV); without `lists` the list is empty."""
    header = parsing.header(path)
    keys = [name for name in _COLUMNS if name in header]
    key = next((name for name in keys if _COLUMNS[name] in header), keys[0] if keys else None)
    if key is None:
        raise AnnotationError(f"{path} has no column {' or '.join(map(repr, _COLUMNS))}; its header is {short(header)}")
    needed: tuple[str, ...] = (key, _COLUMNS[key]) if lists else (key,)
    for place, row in parsing.rows_of(path, needed, way_out=_FORM):
        where = at(place)
        if not isinstance(row, dict) or None in row or any(name not in row for name in needed):
            raise AnnotationError(f"{path}, {where}: fields do not fit the header; is the file cut short?")
        if not isinstance(row[key], str):
            raise AnnotationError(f"{path}, {where}: the {key} is {short(row[key])}, not a text")
        yield where, row[key].strip(), row[needed[1]] if lists else ""


def _from_lists(path: Path) -> StoredFeatures:
    names: list[str] = []
    rows: list[Floats] = []
    for where, name, values in _listed(path, lists=True):
        place = f"{path}, {where} ({short(name)})"
        try:
            row = np.asarray(json.loads(values) if isinstance(values, str) else values)
        except (ValueError, TypeError, RecursionError):
            form = 'no list of numbers such as "[0.1, 0.2]", or one that is cut short'
            raise AnnotationError(f"{place}: {form}: {short(values)}") from None
        _check_shape(place, (1, *row.shape))
        if rows and row.shape != rows[0].shape:
            raise AnnotationError(f"{place}: {_sizes(row.shape)} values, the rows before have {_sizes(rows[0].shape)}")
        names.append(name)
        rows.append(_numbers(place, row))
    if not rows:
        raise AnnotationError(f"{path} lists nothing")
    return StoredFeatures(path, tuple(names), np.stack(rows))


def _numbers(place: object, values: NDArray[Any]) -> Floats:
    """Values as float32; values out of its range become infinite. Raises `AnnotationError` for other types."""
    if values.dtype.kind not in "fiu":
        raise AnnotationError(f"{place}: values of type {values.dtype}, not numbers")
    with np.errstate(over="ignore"):
        return np.asarray(values, np.float32)


def _sizes(shape: Sequence[int]) -> str:
    return " x ".join(f"{size:,}" for size in shape)


# --- tensors ----------------------------------------------------------------------------------------------------------


def _check_shape(place: object, shape: tuple[int, ...]) -> None:
    fits = len(shape) in (2, 3) and all(size >= 1 for size in shape) and shape[-1] <= _MOST_NUMBERS
    if not fits:
        raise AnnotationError(
            f"{place}: {_sizes(shape) or 'no'} values; expected N x D or N x frames x D, D up to {_MOST_NUMBERS:,}"
        )


def _from_tensor(path: Path, named: Path) -> StoredFeatures:
    """The features of a tensor. `named` is the file that the user named: the tensor, or the CSV of its ids."""
    try:
        listed, tensor = TENSORS[path.suffix.lower()](path)
        ids = _texts(listed, "ids")
    except ConfigError:  # a library is not installed
        raise
    except Exception as error:  # a damaged or forged file can make the readers raise anything
        raise _unsound(path, "features", error) from error
    shape = tuple(tensor.shape)
    _check_shape(path, shape)
    if ids is not None and named != path:
        raise AnnotationError(f"{named} has no features, and {path} beside it has ids of its own: name the latter")
    if ids is None:
        beside = named.with_suffix(".csv") if named == path else named
        if not beside.is_file():
            saved = f", or save both in one file: numpy.savez({path.name!r}, ids=ids, features=features)"
            hint = saved if path.suffix == ".npz" else ""
            raise AnnotationError(f"{path} has no ids: {beside} must list them, in the column id{hint}")
        if not lists_ids(beside):
            raise AnnotationError(f"{path} has no ids, and {beside} has features of its own: give one another name")
        ids = tuple(key for _, key, _ in _listed(beside, lists=False))
    if len(ids) != shape[0]:
        turned = "transpose its features" if shape[1:] == (len(ids),) else "one of them is cut short"
        raise AnnotationError(f"{path} has {shape[0]:,} rows, and there are {len(ids):,} ids: {turned}")
    return StoredFeatures(path, ids, _numbers(path, as_array(tensor)))


def _unsound(path: Path, what: str, error: Exception) -> AnnotationError:
    reason = cut(first_line(error))
    if "allow_pickle" in str(error) or isinstance(error, pickle.UnpicklingError):
        reason = f"it holds Python objects, which can be code, or is cut short: save ids as {_TEXTS}"
    return AnnotationError(f"{path} cannot be read as {what}: {reason}")


_TEXTS = "np.array(ids, str), in a .pt as [str(name) for name in ids]"
"""How ids are saved without code."""


def _texts(listed: Any, name: str) -> tuple[str, ...] | None:
    """The ids of a file: a list or an array of texts; None where it has no ids. Raises ValueError for other values."""
    if listed is None:
        return None
    texts = listed.tolist() if isinstance(listed, np.ndarray) else listed
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"`{name}` is no list of texts; save {_TEXTS}")
    return tuple(text.strip() for text in texts)


def _arrays(path: Path, *needed: str) -> dict[str, NDArray[Any]]:
    """The arrays of an `.npz`: the `needed` ones, and `ids` where it exists. Raises ValueError."""
    with np.load(path, allow_pickle=False) as held:
        if missing := [name for name in needed if name not in held]:
            raise ValueError(f"no array `{missing[0]}`, but {short(list(held))}")
        return {name: held[name] for name in (*needed, "ids") if name in held}


def _npy(path: Path) -> tuple[Any, Any]:
    return None, np.load(path, allow_pickle=False)


def _npz(path: Path) -> tuple[Any, Any]:
    held = _arrays(path, "features")
    return held.get("ids"), held["features"]


def _torch_file(path: Path) -> tuple[Any, Any]:
    torch = library("torch")
    with warnings.catch_warnings(action="ignore"):  # torch's advice on a pickle, which is refused
        held = torch.load(path, map_location="cpu", weights_only=True)
    ids, tensor = (held.get("ids"), held.get("features")) if isinstance(held, dict) else (None, held)
    if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided or tensor.is_quantized:
        kind = f"a {type(held).__name__}" + (f" of {short(list(held))}" if isinstance(held, dict) else "")
        kind = "a sparse or quantized tensor" if isinstance(tensor, torch.Tensor) else kind
        raise ValueError(f"it holds {kind}; save a plain tensor, or a dictionary of `ids` and `features`")
    return ids, tensor


def _safetensors(path: Path) -> tuple[Any, Any]:
    opened = library("safetensors").safe_open
    file = opened(path, framework="np")
    names = list(file.keys())
    if len(names) != 1 and "features" not in names:
        raise ValueError(f"several tensors and none called `features`: {short(names)}")
    chosen = "features" if "features" in names else names[0]
    if file.get_slice(chosen).get_dtype() == "BF16":  # which NumPy has not
        library("torch")
        file = opened(path, framework="pt")
    return json.loads((file.metadata() or {}).get("ids", "null")), file.get_tensor(chosen)


TENSORS = {".pt": _torch_file, ".npy": _npy, ".npz": _npz, ".safetensors": _safetensors}
"""The reader of each kind of tensor file, by its ending in any case. A CSV of ids may lie beside such a file."""

SUFFIXES = (".csv", ".parquet", *TENSORS)
"""The endings of files that features are read from."""
