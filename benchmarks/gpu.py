"""Every adaptation method on a GPU: milliseconds per query, peak memory, and the distance from the CPU's float64.

    python benchmarks/gpu.py [--device cuda] [--batch-sizes 8 32 128] [--minutes 8] [--size vit-b-32|tiny]

One Markdown table, for the documentation as it is. The model is CLIP with random weights, 12 frames per video, videos
as queries, 1,000 captions; a method that needs a bank takes 500 random videos. Of each method and precision, `ms` is
the median over batches of the time per query, memory the device's peak. `difference` is the largest one of any
similarity from float64 on the CPU, as a share of the largest similarity, of a few queries of two frames; the bounds
are in `BOUNDS`. `busy` is the share of the wall time in which the device computes while threads read the next clips
from files of 250 frames. What does not fit into the minutes is left out, and said. Without a GPU:
`--device cpu --size tiny`.
"""

from __future__ import annotations

import argparse
import functools
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from transformers import CLIPConfig, CLIPModel

from perturbations.evaluation.run.query_encoding import ahead
from perturbations.media import decoding, encoding, profiles
from perturbations.media.clip import Frame, MediaClip, Timing, uniform_indices
from perturbations.tta import ByteFrames, Gallery, Recording, adapt, clip4clip
from perturbations.tta.methods import method_registry

BOUNDS = {"float32": 1e-3, "tf32": 5e-2, "bfloat16": 2e-1}
"""The largest difference that is expected, as a share of the largest similarity."""
SIZES = {
    "vit-b-32": {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12},
    "tiny": {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2},
}
FRAMES, ITEMS, BANK, BATCHES = 12, 1000, 500, 4
THREADS = 8
"""That read clips: as many as an evaluation on a GPU has."""


@functools.cache
def clip_model(size: str, device: str, dtype: torch.dtype) -> CLIPModel:
    """CLIP with the same random weights for each device and type."""
    torch.manual_seed(0)
    image = {"image_size": 224, "patch_size": 32} if size == "vit-b-32" else {"image_size": 32, "patch_size": 16}
    model = CLIPModel(CLIPConfig(vision_config={**SIZES[size], **image}, projection_dim=512))
    return model.eval().to(device, dtype)


@functools.cache
def pixels(count: int, frames: int, size: str, seed: int) -> torch.Tensor:
    """Videos, uint8 count x frames x 3 x S x S."""
    side = 224 if size == "vit-b-32" else 32
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (count, frames, 3, side, side), dtype=torch.uint8, generator=generator)


def features(direction: str, shape: tuple[int, ...], seed: int, dtype: torch.dtype) -> Gallery:
    """Random features, which need no encoding: captions N x D for v2t, videos N x T x D for t2v."""
    return Gallery(direction, torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype))


def similarities(
    model: Any, method: str, batches: Any, precision: str, dtype: torch.dtype, recording: Recording
) -> Iterator[torch.Tensor]:
    """The similarities of each batch with the captions."""
    needs = method_registry.method(method).needs_bank
    banks = {"bank": features("t2v", (BANK, FRAMES, 512), 2, dtype)} if needs else {}
    gallery = features("v2t", (ITEMS, 512), 1, dtype)
    parts = adapt(model, method, batches, gallery, direction="v2t", precision=precision, recording=recording, **banks)
    return (part.cpu() for part in parts)


def batch_ms(recording: Recording) -> torch.Tensor:
    """Milliseconds per query of each batch but the first, which loads the kernels."""
    return torch.tensor([recording.ms[name][1:] for name in ("encode", "adapt", "rerank")]).sum(0)


def few(size: str) -> list[ByteFrames]:
    """Two batches of three queries of two frames, for the comparison with float64.

    Of two queries, both are as far from their mean, and rounding would decide which of them hatvtr keeps.
    """
    return [ByteFrames(pixels(3, 2, size, seed)) for seed in (0, 1)]


@functools.cache
def exact(method: str, size: str) -> torch.Tensor:
    """The similarities in float64 on the CPU."""
    model = clip4clip(clip_model(size, "cpu", torch.float64))
    return torch.cat([*similarities(model, method, few(size), "float32", torch.float64, Recording())])


def difference(method: str, precision: str, size: str, device: str) -> float:
    """The largest difference from float64 on the CPU, as a share of the largest similarity."""
    model, expected = clip4clip(clip_model(size, device, torch.float32)), exact(method, size)
    given = torch.cat([*similarities(model, method, few(size), precision, torch.float32, Recording())])
    return float((given.double() - expected).abs().max() / expected.abs().max())


def figures(method: str, precision: str, size: str, device: str, batch: int) -> tuple[float, float]:
    """Milliseconds per query, and peak GiB."""
    model, recording = clip4clip(clip_model(size, device, torch.float32)), Recording()
    given = ByteFrames(pixels(batch, FRAMES, size, 0))
    given = given.pinned() if device.startswith("cuda") else given
    deque(similarities(model, method, [given] * (BATCHES + 1), precision, torch.float32, recording), maxlen=0)
    return float(batch_ms(recording).median()), recording.summary()["peak_memory_mib"] / 1024


def busy(method: str, precision: str, size: str, device: str, batch: int, folder: Path) -> float:
    """The share of the wall time in which the device computes while threads read the next clips from files."""
    side = 224 if size == "vit-b-32" else 32
    path = folder / "clip.mp4"
    if not path.exists():
        rate = Fraction(25)
        noise = np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)
        shown = cv2.resize(noise, (side, side), interpolation=cv2.INTER_CUBIC)
        pictures = (Frame(np.roll(shown, index, 1), index, index) for index in range(250))
        encoding.encode(pictures, path, profiles.PROFILES["compatible"], Timing(1 / rate, rate))

    def read(_: int) -> np.ndarray:
        wanted = decoding.decode(MediaClip(path), only=set(uniform_indices(FRAMES, 250)))
        return np.stack([frame.image for frame in wanted]).transpose(0, 3, 1, 2)

    def batches(pool: ThreadPoolExecutor) -> Iterator[ByteFrames]:
        for _ in range(BATCHES + 1):
            clips = ByteFrames(torch.from_numpy(np.stack(list(pool.map(read, range(batch))))))
            yield clips.pinned() if device.startswith("cuda") else clips

    model, recording = clip4clip(clip_model(size, device, torch.float32)), Recording()
    with ThreadPoolExecutor(THREADS) as pool:
        stream = similarities(model, method, ahead(batches(pool)), precision, torch.float32, recording)
        next(stream)  # it loads the kernels, and waits for the first clips
        started = time.perf_counter()
        deque(stream, maxlen=0)
        wall = time.perf_counter() - started
    return float(batch_ms(recording).sum()) * batch / 1000 / wall


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--size", choices=SIZES, default="vit-b-32")
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[8, 32, 128])
    parser.add_argument("--minutes", type=float, default=8)
    options = parser.parse_args()
    on_gpu = options.device.startswith("cuda")
    name = torch.cuda.get_device_name(options.device) if on_gpu else options.device
    print(f"{name}, torch {torch.__version__}, CLIP {options.size} with random weights\n")
    precisions = ("float32", "tf32", "bfloat16") if on_gpu else ("float32", "bfloat16")
    sizes = "/".join(map(str, options.batch_sizes))
    columns = ["method", *(f"{precision}: difference; ms; GiB" for precision in precisions)]
    print(f"Batches of {sizes} videos.\n\n| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    started, left_out = time.monotonic(), []
    for method in method_registry.methods():
        if time.monotonic() - started > 60 * options.minutes:
            left_out.append(method)
            continue
        cells = [method]
        for precision in precisions:
            apart = difference(method, precision, options.size, options.device)
            over = "" if apart <= BOUNDS[precision] else f" (over {BOUNDS[precision]:g})"
            measured = [figures(method, precision, options.size, options.device, each) for each in options.batch_sizes]
            ms = "/".join(f"{value:.2f}" for value, _ in measured)
            memory = "/".join(f"{value:.1f}" for _, value in measured)
            cells.append(f"{apart:.0e}{over}; {ms}; {memory}")
        print(f"| {' | '.join(cells)} |", flush=True)
    batch = options.batch_sizes[len(options.batch_sizes) // 2]
    print(f"\nbusy while {THREADS} threads read clips, hatvtr, batch {batch}:", end="")
    with tempfile.TemporaryDirectory() as folder:
        for precision in precisions:
            share = busy("hatvtr", precision, options.size, options.device, batch, Path(folder))
            print(f" {100 * share:.0f} % in {precision}", end="")
    print()
    if left_out:
        print(f"left out for want of time: {', '.join(left_out)}")


if __name__ == "__main__":
    main()
