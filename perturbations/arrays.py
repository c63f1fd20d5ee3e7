"""The types of arrays, once for all rooms."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]
"""RGB, H x W x 3; several are T x H x W x 3."""
