"""Exact nearest neighbours by cosine similarity or dot product, and the subset of a corpus that is searched."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

_Mask = npt.NDArray[np.bool_]
_Vectors = npt.NDArray[np.float64]

_DECIMALS = 12  # of a similarity: vectors of the same direction but different lengths differ in the 16th decimal
_AT_ONCE = 1 << 21  # similarities per matrix product: 16 MiB
_ROWS = 1024  # vectors per exact comparison


class _Neighbour(NamedTuple):
    """A vector's position in the index, and its similarity to the query: the cosine to 12 decimals, or the product."""

    position: int
    similarity: float


def nearest(query: npt.ArrayLike, vectors: npt.ArrayLike, excluded: npt.ArrayLike | None = None) -> _Neighbour | None:
    """The vector most like the query; None where all are excluded, or `vectors` is empty.

    Among equals, the smallest position wins: with an index sorted by id, the result does not depend on the order in
    which the index was collected. The similarity of two vectors depends on these two alone, to the last bit. A vector
    of length 0 has no direction, so its similarity to any other is 0.

    Args:
        query: D numbers; its length does not matter.
        vectors: N x D; their lengths do not matter.
        excluded: boolean N, true where a vector may not be chosen.

    Raises:
        ValueError: shapes do not fit each other, `excluded` is not boolean, or a number is not finite.
    """
    masks = None if excluded is None else np.asarray(excluded)[None]
    return nearest_of_each(np.asarray(query)[None], vectors, masks)[0]


def nearest_of_each(
    queries: npt.ArrayLike, vectors: npt.ArrayLike, excluded: npt.ArrayLike | None = None
) -> list[_Neighbour | None]:
    """The result of `nearest` for each query, to the last bit.

    Beside its arguments it takes 8 bytes for each of their numbers, and about 40 MiB. A result does not depend on the
    other queries, so a caller with little memory for `excluded` may split the queries.

    Args:
        queries: Q x D.
        vectors: N x D.
        excluded: boolean Q x N.

    Raises:
        ValueError: as `nearest` does.
    """
    units, index = _directions(queries, "queries"), _directions(vectors, "vectors")
    if units.shape[1] != index.shape[1]:
        raise ValueError(f"queries are of {units.shape[1]} dimensions, vectors of {index.shape[1]}")
    masks = None if excluded is None else np.asarray(excluded)
    if masks is not None and (masks.dtype != np.bool_ or masks.shape != (len(units), len(index))):
        raise ValueError(f"excluded is {masks.dtype} {masks.shape}, not bool {(len(units), len(index))}")
    if not len(index):
        return [None] * len(units)
    neighbours: list[_Neighbour | None] = []
    step = max(1, _AT_ONCE // len(index))
    for start in range(0, len(units), step):
        part = slice(start, start + step)
        neighbours += _search(units[part], index, None if masks is None else masks[part])
    return neighbours


def largest_product(
    query: npt.ArrayLike, vectors: npt.ArrayLike, excluded: npt.ArrayLike | None = None
) -> _Neighbour | None:
    """The vector with the largest dot product with the query; None where all are excluded, or `vectors` is empty.

    The lengths of the vectors count: of two of the same direction the longer wins. Among equals, the smallest position
    does.

    Args:
        query: D numbers.
        vectors: N x D.
        excluded: boolean N, true where a vector may not be chosen.

    Raises:
        ValueError: shapes do not fit each other, `excluded` is not boolean, or a number is not finite.
    """
    units, index = np.array(query, np.float64), np.array(vectors, np.float64, order="C")
    if index.ndim != 2 or units.shape != index.shape[1:]:
        raise ValueError(f"the query is of shape {units.shape}, vectors are of shape {index.shape}")
    if not (np.isfinite(units).all() and np.isfinite(index).all()):
        raise ValueError("a vector holds a value that is not finite")
    masks = np.zeros(len(index), bool) if excluded is None else np.asarray(excluded)
    if masks.dtype != np.bool_ or masks.shape != (len(index),):
        raise ValueError(f"excluded is {masks.dtype} {masks.shape}, not bool {(len(index),)}")
    allowed = np.flatnonzero(~masks)
    if not len(allowed):
        return None
    products = _similarities(units, index, allowed)
    first = int(products.argmax())
    return _Neighbour(int(allowed[first]), float(products[first]))


def subset(item_ids: Iterable[str], size: int, keyed_hash: Callable[[str], str]) -> list[str]:
    """The `size` items with the smallest hashes, or all where there are fewer, sorted by id.

    An item added to or removed from the corpus changes at most one other item of the subset. The order of the ids does
    not matter.

    Args:
        item_ids: the corpus, each id once.
        size: how many items, at least 1; MLVP takes its donors from 2,000 (released) or 3,000 (paper) clips.
        keyed_hash: an id's hash under a key such as (seed, dataset): hex digits, all of one length.

    Raises:
        ValueError: an id occurs twice, or `size` is below 1.
    """
    ids = sorted(item_ids)
    if size < 1:
        raise ValueError(f"size is {size}, it must be at least 1")
    for item_id, following in pairwise(ids):
        if item_id == following:
            raise ValueError(f"item {item_id!r} is given twice")
    # Sorting is stable, so of equal hashes the smaller id comes first.
    return sorted(sorted(ids, key=keyed_hash)[:size])


def _directions(vectors: npt.ArrayLike, name: str) -> _Vectors:
    """Vectors n x D as float64 of length 1; vectors of length 0 stay."""
    array = np.asarray(vectors)
    if array.ndim != 2:
        raise ValueError(f"{name} are of shape {array.shape}, not n x D")
    # C order: NumPy adds up other layouts in another order.
    unit = np.array(array, np.float64, order="C")
    if not unit.size:
        return unit
    # Scaled first, so that no square overflows or underflows.
    largest = np.abs(unit).max(axis=1, keepdims=True)
    unfit = np.flatnonzero(~np.isfinite(largest[:, 0]))
    if len(unfit):
        raise ValueError(f"{name}: number {unfit[0]} of {len(unit)} holds a value that is not finite")
    unit /= np.where(largest > 0, largest, 1)
    lengths = np.sqrt(np.square(unit).sum(axis=1, keepdims=True))
    unit /= np.where(lengths > 0, lengths, 1)
    return unit


def _search(units: _Vectors, index: _Vectors, excluded: _Mask | None) -> list[_Neighbour | None]:
    """A matrix product finds the vectors that can be nearest, and only those are compared exactly.

    The last bits of a product depend on its size and on the machine, so it must not decide between near equals.
    """
    product = units @ index.T
    if excluded is not None:
        product[excluded] = -np.inf
    # Twice the largest error of D roundings in a sum of absolute value 1, plus that of rounding to decimals.
    margin = 4 * index.shape[1] * np.finfo(np.float64).eps + 2 * 10.0**-_DECIMALS
    neighbours: list[_Neighbour | None] = []
    for query, similarities in zip(units, product, strict=True):
        best = similarities.max()
        if best == -np.inf:
            neighbours.append(None)
            continue
        positions = np.flatnonzero(similarities >= best - margin)
        exact = _similarities(query, index, positions)
        first = int(exact.argmax())
        neighbours.append(_Neighbour(int(positions[first]), float(exact[first])))
    return neighbours


def _similarities(query: _Vectors, index: _Vectors, positions: npt.NDArray[np.intp]) -> _Vectors:
    """Sums row by row, so that no result depends on the number of rows; `+ 0.0` makes a negative zero positive."""
    parts = [positions[start : start + _ROWS] for start in range(0, len(positions), _ROWS)]
    sums = np.concatenate([(index[part] * query).sum(axis=1) for part in parts])
    return np.asarray(sums.round(_DECIMALS) + 0.0)
