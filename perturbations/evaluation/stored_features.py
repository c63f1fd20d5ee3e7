"""Features that a program computed, in files: read, matched by name, and written.

An `.npz` holds `ids` (texts) and `features` (N x D, or N x frames x D), a `.safetensors` the tensor `features` with the
ids as JSON in its metadata. EgoCVR's layout is a CSV `clip_name,clip_embeddings` or `text,text_embeddings`, whose
second column is a list as text, or a `.pt` tensor beside it. A tensor without ids has them in a CSV beside it. No code
of a file runs.
"""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from perturbations.base import storage
from perturbations.base.checkpoints import library
from perturbations.base.errors import AnnotationError, ConfigError, cut, first_line, short
from perturbations.datasets import parsing

Floats = NDArray[np.float32]

PooledAs = Literal["mean", "middle"]
"""What stands for a clip of several frames: their mean, or the middle one (EgoCVR's `--query_frames 1`)."""

_COLUMNS = {"id": "features", "clip_name": "clip_embeddings", "text": "text_embeddings"}
"""The columns of a CSV: what a row is of, and its features."""

_OF_NUMPY = ("F16", "F32", "F64", "I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64", "BOOL")
"""The numbers of a .safetensors that NumPy has; for others torch reads them."""

SUFFIXES = (".pt", ".npy", ".npz", ".safetensors")
_MOST_NUMBERS = 65_536  # of a feature
_BLOCK = 64 * 1024**2  # values held at once
_CLOSE = 1e-3  # of the largest value: rounding, such as of another batch


@dataclass(frozen=True)
class StoredFeatures:
    """Features, float32, ids x D; ids are of items, clips or captions, or the texts themselves. Or similarities.

    `path` is the file that they were read from; of computed ones it is `.`.
    """

    path: Path
    ids: tuple[str, ...]
    rows: NDArray[Any]

    def unique(self) -> StoredFeatures:
        """Itself; raises `AnnotationError` where an id repeats."""
        repeated = [name for name, rows in _places(self.ids).items() if len(rows) > 1]
        if repeated:
            raise AnnotationError(f"{self.path} has {len(repeated):,} ids twice: {', '.join(map(short, repeated[:3]))}")
        return self


_Opened = tuple[tuple[str, ...] | None, tuple[int, ...], Any]
"""The names, where a file has them, the shape of its tensor, and what gives the tensor's rows by a slice."""


def read(path: Path, *, frames: PooledAs = "mean") -> StoredFeatures:
    """The features of a file: a CSV of lists, or a tensor with its ids in it or in a CSV beside it.

    `x.csv` is read with `x.pt` (or `.npy`, `.npz`, `.safetensors`) where that is there, as EgoCVR's code does. `frames`
    says what stands for an item of several features. Raises `AnnotationError` that names the file and the row.
    """
    if path.suffix == ".csv":
        beside = [path.with_suffix(suffix) for suffix in SUFFIXES if path.with_suffix(suffix).is_file()]
        if len(beside) > 1:
            raise AnnotationError(f"{path}: several tensors lie beside it, name one: {', '.join(map(str, beside))}")
        if not beside:
            return _from_lists(path, frames)
        tensor_path = beside[0]
    else:
        tensor_path = path
    ids, shape, tensor = _opened(tensor_path)
    if ids is None:
        listed = tensor_path.with_suffix(".csv")
        if not listed.is_file():
            raise AnnotationError(f"{tensor_path} has no ids: {listed} must list them, in the column id")
        ids = tuple(key for _, key, _ in _listed(listed, lists=False))
    if len(ids) != shape[0]:
        raise AnnotationError(
            f"{tensor_path} has {shape[0]:,} rows, and there are {len(ids):,} ids: one of them is cut short"
        )
    names = ids

    def place_of(row: int) -> str:
        return f"{tensor_path}, row {row:,} ({short(names[row])})"

    return StoredFeatures(tensor_path, ids, _reduced(tensor_path, place_of, shape, tensor, frames))


def write(path: Path, ids: Sequence[str], rows: Floats) -> None:
    """Write an `.npz` of ids and their features, ids x D, whole or not at all."""
    with storage.atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez(file, ids=np.asarray(ids, np.str_), features=np.asarray(rows, np.float32))


def read_similarities(path: Path) -> tuple[StoredFeatures, tuple[str, ...]]:
    """Similarities in an `.npz` of `queries` and `gallery`, their ids, and `similarities`, N x M real numbers.

    Returns the queries, whose rows are as stored, and the ids of the gallery. Minus infinity stands for pairs that were
    not compared. Raises `AnnotationError` for anything else.
    """
    parts = "queries", "gallery", "similarities"
    try:
        with _unpacked(path, *parts) as archive:
            held = {name: archive[name] for name in parts}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise AnnotationError(f"{path} is no sound file of similarities: {cut(first_line(error))}") from error
    rows = held["similarities"]
    queries, gallery = (tuple(map(str, held[side].tolist())) for side in parts[:2])
    for side, own in (("queries", queries), ("gallery", gallery)):
        if held[side].ndim != 1 or held[side].dtype.kind != "U" or len({*own}) != len(own):
            raise AnnotationError(f"{path}: `{side}` must be a row of different texts, the ids")
    expected = len(queries), len(gallery)
    if rows.shape != expected or not rows.size or rows.dtype.kind not in "fiu":
        given = f"{rows.dtype} {_sizes(rows.shape)}"
        raise AnnotationError(f"{path}: `similarities` are {given}; expected {_sizes(expected)} numbers")
    if np.isnan(rows).any() or (rows == np.inf).any():
        raise AnnotationError(f"{path}: `similarities` hold NaN or infinity")
    return StoredFeatures(path, queries, rows), gallery


@contextmanager
def _unpacked(path: Path, *needed: str) -> Iterator[Mapping[str, NDArray[np.generic]]]:
    """The arrays of an `.npz`, each read where it is taken. Raises ValueError where a needed one is not there."""
    with np.load(path, allow_pickle=False) as held:
        for name in needed:
            if name not in held:
                raise ValueError(f"no array `{name}`, but {short(list(held))}")
        yield held


def rows_of_ids(features: StoredFeatures, ids: Sequence[str], what: str = "items") -> Floats:
    """The features of each id, such as a clip's name or a text: float32, ids x D.

    Where an id stands as often in the file as in `ids`, they belong to each other in their order; else its features
    must be equal. Raises `AnnotationError` naming what is missing, or what has several features.
    """
    held, wanted = _places(features.ids), _places(ids)
    if missing := [name for name in wanted if name not in held]:
        shown = ", ".join(map(short, missing[:3]))
        raise AnnotationError(f"{features.path} lacks {len(missing):,} of {len(wanted):,} {what}: {shown}")
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


# --- lists as text ----------------------------------------------------------------------------------------------------


def _listed(path: Path, *, lists: bool) -> Iterator[tuple[str, str, str]]:
    """The place, the id and the list of each row; without `lists` the list is empty."""
    needed: tuple[str, ...] = ()
    for place, row in parsing.table(path, ()):
        where = f"line {place}" if isinstance(place, int) else str(place)
        if not needed and isinstance(row, dict):
            key = next((name for name in _COLUMNS if name in row), None)
            if key is None:
                raise AnnotationError(f"{path} has no column {' or '.join(map(repr, _COLUMNS))}")
            needed = (key, _COLUMNS[key]) if lists else (key,)
            parsing.check_header(path, needed, [*row])
        if not isinstance(row, dict) or None in row or any(name not in row for name in needed):
            raise AnnotationError(f"{path}, {where}: fields do not fit the header; is the file cut short?")
        yield where, row[needed[0]].strip(), row[needed[1]] if lists else ""


def _from_lists(path: Path, frames: PooledAs) -> StoredFeatures:
    names: list[str] = []
    places: list[str] = []
    rows: list[NDArray[Any]] = []
    for where, name, text in _listed(path, lists=True):
        place = f"{path}, {where} ({short(name)})"
        try:
            values = np.asarray(json.loads(text))
        except (ValueError, TypeError, RecursionError):
            raise AnnotationError(f"{place}: no list of numbers, or one that is cut short: {short(text)}") from None
        _check_shape(place, (1, *values.shape))
        if rows and values.shape != rows[0].shape:
            raise AnnotationError(
                f"{place}: {_sizes(values.shape)} values, the rows before have {_sizes(rows[0].shape)}"
            )
        names.append(name)
        places.append(place)
        rows.append(_numbers(place, values))
    if not rows:
        raise AnnotationError(f"{path} lists nothing")
    tensor = np.stack(rows)
    return StoredFeatures(path, tuple(names), _reduced(path, places.__getitem__, tensor.shape, tensor, frames))


def _numbers(place: str, values: NDArray[Any]) -> Floats:
    """Values as float32, of which those that it cannot hold are infinite. Raises `AnnotationError` for other types."""
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


def _reduced(
    path: Path, place_of: Callable[[int], str], shape: tuple[int, ...], tensor: Any, frames: PooledAs
) -> Floats:
    """All rows of a tensor, N x D or N x frames x D, as N x D, with a block of them in memory at a time."""
    result = np.empty((shape[0], shape[-1]), np.float32)
    step = max(1, _BLOCK // math.prod(shape[1:]))
    for start in range(0, len(result), step):
        try:
            block = tensor[start : min(start + step, len(result))]
            if not isinstance(block, np.ndarray):  # of torch; NumPy has no bfloat16
                block = (block.float() if block.is_floating_point() else block).numpy()
        except (OSError, RuntimeError, ValueError, TypeError) as error:
            raise AnnotationError(f"{path} cannot be read: {cut(str(error))}") from error
        rows = _numbers(place_of(start), block)
        finite = np.isfinite(rows).reshape(len(rows), -1).all(axis=1)
        if not finite.all():
            place = place_of(start + int(finite.argmin()))
            raise AnnotationError(f"{place}: NaN, infinity, or numbers that float32 cannot hold")
        if rows.ndim == 3:
            rows = rows[:, rows.shape[1] // 2] if frames == "middle" else rows.mean(axis=1)
        result[start : start + step] = rows
    return result


def _opened(path: Path) -> _Opened:
    opener = {".npy": _npy, ".npz": _npz, ".pt": _torch_file, ".safetensors": _safetensors}.get(path.suffix)
    if opener is None:
        raise AnnotationError(f"{path}: features are read from .csv, {', '.join(SUFFIXES)}")
    try:
        names, shape, tensor = opener(path)
    except (AnnotationError, ConfigError):
        raise
    except Exception as error:  # a damaged or forged file can make the readers raise anything
        raise AnnotationError(f"{path} is no sound file of features: {cut(first_line(error))}") from error
    _check_shape(path, shape)
    return names, shape, tensor


def _npy(path: Path) -> _Opened:
    values = np.load(path, mmap_mode="r", allow_pickle=False)
    return None, values.shape, values


def _npz(path: Path) -> _Opened:
    with _unpacked(path, "features") as held:
        ids = None
        if "ids" in held:
            listed = held["ids"]
            if listed.ndim != 1 or listed.dtype.kind != "U":
                raise ValueError("`ids` is no row of texts")
            ids = tuple(str(name).strip() for name in listed)
        values = held["features"]
        return ids, values.shape, values


def _torch_file(path: Path) -> _Opened:
    torch = library("torch")
    held = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    if not isinstance(held, torch.Tensor) or held.layout != torch.strided or held.is_quantized:
        raise ValueError(f"it holds a {type(held).__name__}, not a plain tensor")
    return None, tuple(held.shape), held.detach()


def _safetensors(path: Path) -> _Opened:
    opened = library("safetensors").safe_open
    file = opened(path, framework="np")
    names = list(file.keys())
    if len(names) != 1 and "features" not in names:
        raise ValueError(f"several tensors and none called `features`: {short(names)}")
    chosen = "features" if "features" in names else names[0]
    part = file.get_slice(chosen)
    if part.get_dtype() not in _OF_NUMPY:
        library("torch")
        part = opened(path, framework="pt").get_slice(chosen)
    listed = json.loads((file.metadata() or {}).get("ids", "null"))
    if listed is not None and not (isinstance(listed, list) and all(isinstance(name, str) for name in listed)):
        raise ValueError("`ids` in its metadata is no list of texts")
    ids = None if listed is None else tuple(name.strip() for name in listed)
    return ids, tuple(part.get_shape()), part
