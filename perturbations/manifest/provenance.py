"""What a result's last bits depend on, recorded in manifests: features of the processor, compared where frames differ,
and the versions of libraries.

On x86-64 processors with AVX2 all results are the same; on others, OpenCV's filters of floats round differently, and
other architectures decode other colours. `tests/base/test_bit_exactness.py` renders again without vector instructions.
"""

from __future__ import annotations

import platform
import re

import av
import cv2
import numpy as np
import pyarrow as pa

_IPP_WITH_AVX2 = {"l9", "k0", "k1"}


def cpu_features() -> str:
    """This machine's architecture and the instructions that NumPy, OpenCV and OpenCV's IPP use, in one line.

    As in `x86_64; numpy X86_V2 X86_V3; opencv SSE SSE2 SSE3 SSE4.1 SSE4.2 AVX FP16 AVX2; ipp l9`. Instructions that
    environment variables switch off are left out. `ipp` is IPP's code for the processor, or `none`.
    """
    simd = np.show_config(mode="dicts")["SIMD Extensions"]
    numpy = " ".join([*simd.get("baseline", ()), *simd.get("found", ())])
    # A star: chosen when OpenCV starts; a question mark: the processor does not have it.
    opencv = " ".join(name.lstrip("*") for name in cv2.getCPUFeaturesLine().split() if not name.endswith("?"))
    code = re.search(r"\((\w\d)\)", cv2.ipp.getIppVersion()) if cv2.ipp.useIPP() else None
    ipp = code[1] if code else "none"
    return f"{platform.machine()}; numpy {numpy}; opencv {opencv}; ipp {ipp}"


def note(recorded: str) -> str:
    """A sentence on how frames of a machine with the `cpu_features` `recorded` may differ from this machine's.

    Empty where nothing was recorded, or where frames are the same: on x86-64 processors with AVX2. For messages about
    frames that differ.
    """
    here = cpu_features()
    if not recorded or _rounding(recorded) == _rounding(here):
        return ""
    return f"made on {recorded}; this machine has {here}: frames may differ, most of them by one grey level"


def _rounding(features: str) -> tuple[str, bool, bool]:
    """The architecture, and whether OpenCV and its IPP use AVX2: with it they round once per product and sum (FMA)."""
    opencv, _, ipp = features.partition("; opencv ")[2].partition("; ipp ")
    return features.partition(";")[0], "AVX2" in opencv.split(), ipp in _IPP_WITH_AVX2


def tool_versions() -> dict[str, str]:
    """The versions of the libraries that results depend on, by library."""
    return {
        "numpy": np.__version__,
        "opencv": cv2.__version__,
        "pyav": av.__version__,
        "libavcodec": ".".join(map(str, av.library_versions["libavcodec"])),
        "pyarrow": pa.__version__,
    }
