"""Exact nearest neighbours by cosine similarity or dot product, and the subset of a corpus that is searched."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

_Vectors = npt.NDArray[np.float64]

_DECIMALS = 12  # of a similarity: vectors of the same direction but different lengths differ in the 16th decimal
_ROWS = 1024  # vectors per sum


def nearest(query: npt.ArrayLike, vectors: npt.ArrayLike, excluded: npt.NDArray[np.bool_]) -> tuple[int, float] | None:
    """The position of the vector most like the query, and the cosine, to 12 decimals.

    None where all are excluded, or `vectors` is empty.
    Among equals, the smallest position wins: with an index sorted by id, the result does not depend on the order in
    which the index was collected. The similarity of two vectors depends on these two alone, to the last bit. A vector
    of length 0 has no direction, so its similarity to any other is 0.

    Args:
        query: D finite numbers; its length does not matter.
        vectors: N x D, finite; their lengths do not matter.
        excluded: N, true where a vector may not be chosen.
    """
    return largest_product(_direction(query), _direction(vectors), excluded)


def largest_product(
    query: npt.ArrayLike, vectors: npt.ArrayLike, excluded: npt.NDArray[np.bool_]
) -> tuple[int, float] | None:
    """The position of the vector with the largest dot product with the query, and that product.

    Arguments and result are otherwise as in `nearest`. The lengths of the vectors count: of two vectors in the same
    direction the longer wins. Among equals, the smallest position wins.
    """
    # C order, and sums row by row: the last bits of others depend on an array's layout, its size and the machine.
    index = np.array(vectors, np.float64, order="C")
    allowed = np.flatnonzero(~excluded)
    if not len(allowed):
        return None
    parts = [allowed[start : start + _ROWS] for start in range(0, len(allowed), _ROWS)]
    products = np.concatenate([(index[part] * np.asarray(query, np.float64)).sum(axis=1) for part in parts])
    similarities = products.round(_DECIMALS) + 0.0  # makes a negative zero positive
    first = int(similarities.argmax())
    return int(allowed[first]), float(similarities[first])


def _direction(vectors: npt.ArrayLike) -> _Vectors:
    """Each vector divided by its length; vectors of length 0 stay."""
    # Scaled first, so that no square overflows or underflows.
    values = np.array(vectors, np.float64, order="C")
    largest = np.abs(values).max(axis=-1, keepdims=True, initial=0)
    scaled = values / np.where(largest > 0, largest, 1)
    lengths = np.sqrt(np.square(scaled).sum(axis=-1, keepdims=True))
    return np.asarray(scaled / np.where(lengths > 0, lengths, 1))


def subset(item_ids: Iterable[str], size: int, keyed_hash: Callable[[str], str]) -> list[str]:
    """The `size` items with the smallest hashes, or all where there are fewer, sorted by id.

    An item added to or removed from the corpus changes at most one other item of the subset. The order of the ids does
    not matter.

    Args:
        item_ids: the corpus, each id once.
        size: how many items, at least 1; MLVP takes its donors from 2,000 (released) or 3,000 (paper) clips.
        keyed_hash: an id's hash under a key such as (seed, dataset): hex digits, all of one length.
    """
    # Sorting is stable, so of equal hashes the smaller id comes first.
    return sorted(sorted(sorted(item_ids), key=keyed_hash)[:size])
