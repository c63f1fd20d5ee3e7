"""Files of containers that tests damage."""

from __future__ import annotations

from pathlib import Path

import pytest
from clips import (
    decoded,
)

from perturbations.base.errors import MediaError

MJPEG = ("-c:v", "mjpeg", "-pix_fmt", "yuvj420p")


MPEG1, MPEG2 = ("-c:v", "mpeg1video", "-bf", "2"), ("-c:v", "mpeg2video", "-bf", "2", "-q:v", "3")


def refused(path: Path) -> str:
    with pytest.raises(MediaError) as caught:
        decoded(path)
    return str(caught.value)


HEVC = ("-c:v", "libx265", "-x265-params", "open-gop=1:keyint=14:bframes=3:log-level=none")
