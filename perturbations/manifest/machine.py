"""What a result's last bits depend on, recorded in manifests: features of the processor, compared where frames differ,
and the versions of libraries.

`tests/test_bit_exactness.py` renders again without vector instructions. On x86-64 processors with AVX2 all results are
the same; on others, OpenCV's filters of floats round differently.
"""

from __future__ import annotations

import platform
import re

import av
import cv2
import numpy as np
import pyarrow as pa

WITHOUT_AVX2 = frozenset(
    {
        "mlvp/elastic_distortion",
        "mlvp/main_object_occlusion",
        "mlvp/motion_blur",
        "mlvp/style_transfer",
        "mlvp/video_defocus",
        "mm_robustness/defocus_blur",
        "mm_robustness/elastic_transform",
        "mm_robustness/glass_blur",
        "mm_robustness/motion_blur",
        "mm_robustness/stylize",
        "mm_robustness/zoom_blur",
        "msrvtt_p/defocus_blur",
        "msrvtt_p/motion_blur",
        "msrvtt_p/rotate",
        "msrvtt_p/static_rotate",
        "msrvtt_p/zoom_blur",
    }
)
"""Perturbations whose frames differ where OpenCV has no AVX2.

With AVX2, OpenCV multiplies and adds in one step with one rounding (FMA), without it in two. Sums of floats then differ
by 1e-5 of a grey level, and up to 2 in 1,000 values are rounded or truncated to the next level; in turned frames, 1 in
100,000 pixels is its neighbour. Optical flow differs more, and so do motion blurs and the occlusion of the main object.
"""

WITHOUT_IPP = frozenset(
    {
        "mlvp/main_object_occlusion",
        "mlvp/motion_blur",
        "mlvp/video_defocus",
        "mm_robustness/frost",
        "transmission/resolution",
    }
)
"""Perturbations whose frames differ where OpenCV's IPP has no AVX2, or where there is no IPP.

IPP smooths and resizes the inputs of optical flow, of the main object and of synthetic ice, and enlarges frames.
"""

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

    Empty where nothing was recorded or this machine has the same features. For messages about frames that differ.
    """
    here = cpu_features()
    if not recorded or recorded == here:
        return ""
    return f"made on {recorded}; this machine has {here}: {_consequence(recorded, here)}"


def _consequence(recorded: str, here: str) -> str:
    there, now = _parts(recorded), _parts(here)
    if there.get("architecture") != now["architecture"]:
        return "between architectures the frames of every perturbation may differ, because decoded colours do"
    known: frozenset[str] = frozenset()
    if _fused(there) != _fused(now):
        known |= WITHOUT_AVX2
    if _ipp(there) != _ipp(now):
        known |= WITHOUT_IPP
    if not known:
        return "no perturbation is known to differ between the two"
    names = ", ".join(sorted(known))
    return f"{len(known)} known perturbations may differ between the two, most of them by one grey level: {names}"


def _parts(features: str) -> dict[str, str]:
    architecture, *others = features.split("; ")
    return {
        "architecture": architecture,
        **{name: names for name, _, names in (part.partition(" ") for part in others)},
    }


def _fused(parts: dict[str, str]) -> bool:
    return "AVX2" in parts.get("opencv", "").split()


def _ipp(parts: dict[str, str]) -> str:
    return "AVX2" if parts.get("ipp") in _IPP_WITH_AVX2 else parts.get("ipp", "")


def tool_versions() -> dict[str, str]:
    """The versions of the libraries that results depend on, by library."""
    return {
        "numpy": np.__version__,
        "opencv": cv2.__version__,
        "pyav": av.__version__,
        "libavcodec": ".".join(map(str, av.library_versions["libavcodec"])),
        "pyarrow": pa.__version__,
    }
