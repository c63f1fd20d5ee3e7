"""Where the main object of a drawn scene is."""

from __future__ import annotations

import numpy as np

from perturbations.demo import film


def boxes(index: int) -> list[tuple[int, int, int, int]]:
    """The object's box in each of the 72 frames: (left, top, right, bottom) in pixels, the last two exclusive.

    The pale rim around the object is part of it.
    """
    soft = film._PIXEL + film._RIM * film._PIXEL // 2  # antialiasing spreads an edge by about a pixel
    edges = []
    for t in range(film.NUM_FRAMES):
        points = np.concatenate(film._placed(index, t))
        left, top = (int(low - soft) // film._PIXEL for low in points.min(axis=0))
        right, bottom = (-(-int(high + soft) // film._PIXEL) + 1 for high in points.max(axis=0))
        edges.append((max(left, 0), max(top, 0), min(right, film.WIDTH), min(bottom, film.HEIGHT)))
    return edges
