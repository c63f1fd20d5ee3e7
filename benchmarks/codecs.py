"""What at least 40 dB at 4:4:4 costs with each encoder: bytes and CPU seconds, beside the profile `high`.

    python benchmarks/codecs.py VIDEO [--frames 48] [--perturbations mlvp/gaussian_noise ...] [--severity 3]

Per encoder, the largest quantizer counts at which each perturbed clip is stored with a mean PSNR of 40 dB (RGB). One
thread each; conversion to YUV is part of encoding and decoding.
"""

from __future__ import annotations

import argparse
import io
import time
from fractions import Fraction
from itertools import islice

import av
import numpy as np

import perturbations

LEAST_DB = 40.0
X265 = {"x265-params": "log-level=none:pools=none:frame-threads=1"}
VP9 = {"deadline": "realtime", "b": "0", "lag-in-frames": "0", "row-mt": "0"}
X264 = {"x264-params": "ipratio=1"}
ENCODERS: list[tuple[str, str, dict[str, str], str, range]] = [
    (encoder, pix_fmt, {**options, key: value}, name, values)
    for encoder, pix_fmts, key, settings, options, name, values in (
        ("libx264rgb", "rgb24", "preset", "ultrafast superfast veryfast medium", X264, "qp", range(10, 30)),
        ("libx264rgb", "rgb24", "tune", "grain fastdecode", {"preset": "veryfast"}, "qp", range(10, 30)),
        ("libx264", "yuv444p yuv444p10le", "preset", "superfast", {}, "qp", range(10, 40)),
        ("libx265", "gbrp", "preset", "ultrafast fast", X265, "qp", range(10, 30)),
        ("libx265", "yuv444p yuv444p10le", "preset", "ultrafast", X265, "qp", range(10, 40)),
        ("libvpx-vp9", "gbrp", "cpu-used", "8 5", VP9, "crf", range(0, 40)),
    )
    for pix_fmt in pix_fmts.split()
    for value in settings.split()
]
"""Encoder, pixel format, options, and the option and values of its quantizer. SVT-AV1 has no 4:4:4."""


def encode(frames: np.ndarray, encoder: str, pix_fmt: str, options: dict[str, str]) -> tuple[bytes, float]:
    """Frames as a Matroska file, and CPU seconds."""
    began, file = time.process_time(), io.BytesIO()
    with av.open(file, "w", format="matroska") as container:
        stream = container.add_stream(encoder, rate=Fraction(25), options=options)
        stream.height, stream.width = frames.shape[1:3]
        stream.pix_fmt, stream.codec_context.thread_count = pix_fmt, 1
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode(None))
    return file.getvalue(), time.process_time() - began


def decode(data: bytes) -> tuple[np.ndarray, float]:
    """The frames of a file, and CPU seconds."""
    began = time.process_time()
    with av.open(io.BytesIO(data)) as container:
        container.streams.video[0].codec_context.thread_count = 1
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    return np.stack(frames), time.process_time() - began


def psnr(frames: np.ndarray, stored: np.ndarray) -> float:
    errors = ((frames.astype(np.float32) - stored) ** 2).mean(axis=(1, 2, 3))
    return float(np.mean(10 * np.log10(255**2 / np.maximum(errors, 1e-3))))


def smallest(
    clips: list[np.ndarray], encoder: str, pix_fmt: str, options: dict[str, str], name: str, values: range
) -> tuple[int, list[tuple[int, float, float, float]]] | None:
    """The largest quantizer that keeps 40 dB in all; per clip bytes, seconds of encode and decode, and PSNR."""
    low, high, best = values.start, values.stop - 1, None
    while low <= high:
        middle, measured = (low + high) // 2, []
        for clip in clips:
            data, encode_s = encode(clip, encoder, pix_fmt, {**options, name: str(middle)})
            stored, decode_s = decode(data)
            measured.append((len(data), encode_s, decode_s, psnr(clip, stored)))
        if min(row[3] for row in measured) >= LEAST_DB:
            low, best = middle + 1, (middle, measured)
        else:
            high = middle - 1
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("video")
    parser.add_argument("--frames", type=int, default=48)
    parser.add_argument(
        "--perturbations", nargs="+", default=["mlvp/gaussian_noise", "mlvp/motion_blur", "mlvp/elastic_distortion"]
    )
    parser.add_argument("--severity", type=int, default=3)
    options = parser.parse_args()
    with av.open(options.video) as container:
        frames = islice(container.decode(video=0), options.frames)
        clean = np.stack([frame.to_ndarray(format="rgb24") for frame in frames])
    clips = [
        perturbations.perturb(clean, name, options.severity, seed=0, item_id="clip", fps=25)
        for name in options.perturbations
    ]
    print("| encoder | quantizer |", " | ".join(f"{name}: MB, s, s, dB" for name in options.perturbations), "|")
    for encoder, pix_fmt, settings, name, values in ENCODERS:
        best = smallest(clips, encoder, pix_fmt, settings, name, values)
        label = f"{encoder} {pix_fmt} " + " ".join(settings.get(key, "") for key in ("preset", "tune", "cpu-used"))
        cells = [f"{b / 1e6:.2f}, {e:.2f}, {d:.2f}, {p:.1f}" for b, e, d, p in best[1]] if best else ["-"]
        print(f"| {label.strip()} | {name} {best[0] if best else '-'} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
