"""The versions of the libraries that results depend on, for manifests."""

from __future__ import annotations


def tool_versions() -> dict[str, str]:
    """Library -> version."""
    import av
    import cv2
    import numpy as np
    import pyarrow as pa

    return {
        "numpy": np.__version__,
        "opencv": cv2.__version__,
        "pyav": av.__version__,
        "libavcodec": ".".join(map(str, av.library_versions["libavcodec"])),
        "pyarrow": pa.__version__,
    }
