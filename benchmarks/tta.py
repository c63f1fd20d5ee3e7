"""Time per query and peak memory of test-time adaptation, compared with a plain form of the same passes.

    python benchmarks/tta.py [--device cpu|cuda] [--methods none tcr hatvtr] [--forms ours plain] [--batches 1]
                             [--batch-size 16] [--frames 12] [--gallery 1000] [--direction v2t|t2v]
                             [--steps 3] [--pooling clip4clip|xpool] [--patch 32]

ViT-B/32 with random weights, on a CPU one thread. Videos as queries (v2t), or captions of 77 tokens (t2v). Every row
has a process of its own. `ms` is the median over batches of wall time per query; on a GPU the first batch, which loads
its kernels, is left out. `cpu` counts the process's time and is the figure to read on a shared machine. Memory is the
GPU's peak, or the process's, with torch and transformers (about 0.6 GB) and the model (0.6 GB) in it.

Forms: `ours`; `tf32` and `bfloat16`, ours in that precision; `plain`, transformers' own passes with eager attention
over the whole batch of frames normalized before, gradients for LayerNorms only, which is what the reference code does.
The gallery's features are random: it is encoded once before and not measured.

Requests of memory follow from what was not there before the first batch (libraries, model, gallery), in units: batch x
frames x tokens x width x layers numbers of 4 bytes, what one activation of every layer takes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

FORMS = ("ours", "tf32", "bfloat16", "plain")


def measured(method: str, form: str, options: argparse.Namespace) -> dict[str, float]:
    """One run in this process: seconds per query, milliseconds of each part, and memory."""
    import torch
    from transformers import CLIPConfig, CLIPModel

    from perturbations.tta import Gallery, Recording, adapt, clip4clip, towers, xpool
    from perturbations.tta.encoders import XPool

    device = torch.device(options.device)
    on_gpu = device.type == "cuda"
    if not on_gpu:
        torch.set_num_threads(1)
    torch.manual_seed(0)
    vision = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12}
    config = CLIPConfig(vision_config={**vision, "image_size": 224, "patch_size": options.patch})
    clip = CLIPModel(config).eval().to(device)
    if form == "plain":
        clip.set_attn_implementation("eager")
        towers.is_plain_clip = lambda model: False
        towers.CHUNK = 10**9
    frames = [] if options.direction == "v2t" else [options.frames]
    gallery = Gallery(options.direction, torch.randn(options.gallery, *frames, config.projection_dim).to(device))
    pooled = (
        clip4clip(clip) if options.pooling == "clip4clip" else xpool(clip, XPool(config.projection_dim).state_dict())
    )
    recording = Recording()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    wall, cpu = time.perf_counter(), time.process_time()
    adapted = adapt(
        pooled,
        method,
        _queries(options, floats=form == "plain", pinned=on_gpu),
        gallery,
        direction=options.direction,
        steps=options.steps,
        precision=form if form in ("tf32", "bfloat16") else "float32",
        recording=recording,
    )
    for _ in adapted:
        pass
    queries = options.batch_size * options.batches
    first = 1 if on_gpu and options.batches > 1 else 0
    parts = {name: torch.tensor(values[first:], dtype=torch.float64) for name, values in recording.ms.items()}
    total = parts["encode"] + parts["adapt"] + parts["rerank"]
    return {
        "cpu_s": (time.process_time() - cpu) / queries,
        "wall_s": (time.perf_counter() - wall) / queries,
        "ms": float(total.median()),
        "before_gib": before,
        "gib": recording.summary()["peak_memory_mib"] / 2**10,
        **{name: float(values.median()) for name, values in parts.items()},
    }


def _queries(options: argparse.Namespace, *, floats: bool, pinned: bool) -> Iterator[Any]:
    """Batches of random queries, drawn before they are measured: bytes, or, for the plain forms, normalized floats."""
    import torch

    from perturbations.tta import ByteFrames
    from perturbations.tta.frames import normalize

    for _ in range(options.batches):
        if options.direction == "t2v":
            yield torch.randint(1, 49000, (options.batch_size, 77))
            continue
        shape = options.batch_size, options.frames, 3, 224, 224
        pixels = torch.randint(0, 256, shape, dtype=torch.uint8)
        given = ByteFrames(pixels)
        yield normalize(pixels) if floats else given.pinned() if pinned else given


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--methods", nargs="+", default=["none", "tcr", "hatvtr"])
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=["ours", "plain"])
    parser.add_argument("--batches", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--frames", type=int, default=12)
    parser.add_argument("--gallery", type=int, default=1000)
    parser.add_argument("--direction", choices=("v2t", "t2v"), default="v2t")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--pooling", choices=("clip4clip", "xpool"), default="clip4clip")
    parser.add_argument("--patch", type=int, choices=(16, 32), default=32)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)  # a row's own process
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measured(*options.one, options)))
    else:
        main_table(options)


def _row(method: str, form: str, arguments: list[str]) -> dict[str, float]:
    """The figures of a process of its own."""
    command = [sys.executable, __file__, *arguments, "--one", method, form]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main_table(options: argparse.Namespace) -> None:
    """A row per method and form."""
    columns = (
        "method",
        "form",
        "ms per query, p50",
        "encode / adapt / rerank ms",
        "cpu s/query",
        "before, GiB",
        "peak GiB",
    )
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    for method in options.methods:
        for form in options.forms:
            row = _row(method, form, sys.argv[1:])
            parts = " / ".join(f"{row[name]:.1f}" for name in ("encode", "adapt", "rerank"))
            figures = f"{row['ms']:.1f} | {parts} | {row['cpu_s']:.2f} | {row['before_gib']:.2f} | {row['gib']:.2f}"
            print(f"| {method} | {form} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
