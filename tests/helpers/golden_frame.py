"""The drawn frame on which imagecorruptions was recorded; NumPy only, whole numbers only."""

from __future__ import annotations

import numpy as np


def frame() -> np.ndarray:
    """48 x 64 RGB uint8: curved slopes, a disk, a chequered corner, a black and a white bar."""
    rows, columns = np.mgrid[:48, :64]
    image = np.stack(
        [columns**2 // 16, (rows * columns) // 12, 250 - (rows**2 + 3 * rows * columns % 37) // 11], axis=2
    )
    image[(rows - 20) ** 2 + (columns - 24) ** 2 < 130] = (220, 60, 30)
    checks = (rows // 5 + columns // 5) % 2 == 0
    image[checks & (rows >= 28) & (columns >= 40)] = (20, 90, 200)
    image[4:7, 8:56], image[40:42, 4:32] = 0, 255
    return image.astype(np.uint8)
