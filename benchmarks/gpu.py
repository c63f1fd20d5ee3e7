"""Every adaptation method on a GPU: milliseconds per query, peak memory, and the distance from the CPU's float64.

    python benchmarks/gpu.py [--device cuda] [--batch-sizes 8 32 128] [--minutes 8] [--size vit-b-32|tiny]

One Markdown table, for the documentation as it is. The model is CLIP with random weights, 12 frames per video, videos
as queries, 1,000 captions; a method that needs a bank takes 500 random videos. Of each method and precision, `ms` is
the median over batches of the time per query, memory the device's peak. `difference` is the largest one of any
similarity from float64 on the CPU, as a share of the largest similarity, of two queries of two frames; the bounds are
in `BOUNDS`. `busy` is the share of the wall time in which the device computes while another thread reads the next clips
of files, as evaluations do. What does not fit into the minutes is left out, and said. Without a GPU:
`--device cpu --size tiny`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import CLIPConfig, CLIPModel

from perturbations.base import storage
from perturbations.evaluation.encoding import ahead
from perturbations.media import decoding, encoding
from perturbations.media.clip import Frame, MediaClip, Timing, uniform_indices
from perturbations.tta import ByteFrames, Gallery, Timings, adapt, clip4clip
from perturbations.tta.methods import registry

BOUNDS = {"float32": 1e-3, "tf32": 5e-2, "bfloat16": 2e-1}
"""The largest difference that is expected, as a share of the largest similarity."""
SIZES = {
    "vit-b-32": {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12},
    "tiny": {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2},
}
FRAMES, ITEMS, BANK, BATCHES = 12, 1000, 500, 4


def clip_model(size: str) -> CLIPModel:
    """CLIP with the same random weights at each call."""
    torch.manual_seed(0)
    image = {"image_size": 224, "patch_size": 32} if size == "vit-b-32" else {"image_size": 32, "patch_size": 16}
    return CLIPModel(CLIPConfig(vision_config={**SIZES[size], **image}, projection_dim=512)).eval()


def pixels(count: int, frames: int, size: str, seed: int) -> torch.Tensor:
    """Videos, uint8 count x frames x 3 x S x S."""
    side = 224 if size == "vit-b-32" else 32
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (count, frames, 3, side, side), dtype=torch.uint8, generator=generator)


def features(direction: str, shape: tuple[int, ...], seed: int, dtype: torch.dtype) -> Gallery:
    """Random features, which need no encoding: captions N x D for v2t, videos N x T x D for t2v."""
    return Gallery(direction, torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype))


def run(model: Any, method: str, batches: Any, precision: str, dtype: torch.dtype, timings: Timings) -> torch.Tensor:
    """The similarities of all batches."""
    needs = registry.method(method).needs_bank
    banks = {"bank": features("t2v", (BANK, FRAMES, 512), 2, dtype)} if needs else {}
    gallery = features("v2t", (ITEMS, 512), 1, dtype)
    similarities = adapt(
        model, method, batches, gallery, direction="v2t", precision=precision, timings=timings, **banks
    )
    return torch.cat([part.cpu() for part in similarities])


def difference(method: str, precision: str, size: str, device: str) -> float:
    """The largest difference from float64 on the CPU, as a share of the largest similarity."""
    few = [ByteFrames(pixels(2, 2, size, seed)) for seed in (0, 1)]
    exact = run(clip4clip(clip_model(size).double()), method, few, "float32", torch.float64, Timings())
    model = clip4clip(clip_model(size).to(device))
    given = run(model, method, few, precision, torch.float32, Timings()).double()
    return float((given - exact).abs().max() / exact.abs().max())


def figures(method: str, precision: str, size: str, device: str, batch: int) -> tuple[float, float]:
    """Milliseconds per query and peak MiB; the first batch, which loads the kernels, is left out."""
    model, timings = clip4clip(clip_model(size).to(device)), Timings()
    given = ByteFrames(pixels(batch, FRAMES, size, 0))
    given = given.pinned() if device.startswith("cuda") else given
    run(model, method, [given] * (BATCHES + 1), precision, torch.float32, timings)
    total = torch.tensor([timings.ms[name][1:] for name in ("encode", "adapt", "rerank")]).sum(0)
    return float(total.median()), timings.summary()["peak_memory_mib"]


def busy(method: str, size: str, device: str, batch: int, folder: Path) -> float:
    """The share of the wall time in which the device computes while clips are read from files."""
    side = 224 if size == "vit-b-32" else 32
    path = folder / "clip.mp4"
    if not path.exists():
        rate = Fraction(25)
        shown = np.random.default_rng(0).integers(0, 256, (side, side, 3), np.uint8)
        pictures = (Frame(np.roll(shown, index, 1), index, index) for index in range(250))
        encoding.encode(pictures, path, storage.PROFILES["compatible"], Timing(1 / rate, rate))

    def read() -> np.ndarray:
        wanted = decoding.decode(MediaClip(path), only=set(uniform_indices(FRAMES, 250)))
        return np.stack([frame.image for frame in wanted]).transpose(0, 3, 1, 2)

    def batches() -> Iterator[ByteFrames]:
        for _ in range(BATCHES + 1):
            clips = ByteFrames(torch.from_numpy(np.stack([read() for _ in range(batch)])))
            yield clips.pinned() if device.startswith("cuda") else clips

    model, timings = clip4clip(clip_model(size).to(device)), Timings()
    started = time.perf_counter()
    run(model, method, ahead(batches()), "float32", torch.float32, timings)
    wall = time.perf_counter() - started
    return sum(map(sum, timings.ms.values())) * batch / 1000 / wall


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
    columns = ["method", "precision", "difference"]
    columns += [f"{what}, batch {batch}" for batch in options.batch_sizes for what in ("ms", "MiB")]
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    started, left_out = time.monotonic(), []
    for precision in ("float32", "bfloat16", "tf32") if on_gpu else ("float32", "bfloat16"):
        for method in registry.methods():
            if time.monotonic() - started > 60 * options.minutes:
                left_out.append(f"{method} in {precision}")
                continue
            apart = difference(method, precision, options.size, options.device)
            cells = [f"{apart:.1e}" + ("" if apart <= BOUNDS[precision] else f", over {BOUNDS[precision]:g}")]
            for batch in options.batch_sizes:
                ms, memory = figures(method, precision, options.size, options.device, batch)
                cells += [f"{ms:.2f}", f"{memory:.0f}"]
            print(f"| {method} | {precision} | {' | '.join(cells)} |", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        share = busy("hatvtr", options.size, options.device, options.batch_sizes[0], Path(folder))
    print(f"\nbusy while clips are read, hatvtr, batch {options.batch_sizes[0]}: {100 * share:.0f} %")
    if left_out:
        print(f"left out for want of time: {', '.join(left_out)}")


if __name__ == "__main__":
    main()
