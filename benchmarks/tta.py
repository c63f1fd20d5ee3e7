"""Time per query and peak memory of test-time adaptation, compared with a plain form of the same passes.

    python benchmarks/tta.py [--device cpu|cuda] [--methods none tcr hatvtr] [--forms ours plain] [--batches 1]
                             [--batch-size 16] [--frames 12] [--gallery 1000] [--direction v2t|t2v]

ViT-B/32 with random weights, 3 steps; on a CPU one thread. Videos of 12 frames as queries (v2t), or captions of 77
tokens, the most that CLIP takes (t2v). Every row has a process of its own, one after the other. `ms` is the median over
batches of wall time per query; on a GPU the first batch, which loads its kernels, is left out. `transfer` is the share
of it that brings queries to the device and normalizes frames there. `cpu` counts the process's time, system calls
included, and is the figure to read on a shared machine. Memory is the GPU's peak, or the process's, with torch and
transformers (about 0.6 GB) and the model (0.6 GB) in it.

Forms: `ours`; `tf32` and `bfloat16`, ours in that precision; `plain`, transformers' own passes with eager attention
over the whole batch of frames normalized before, gradients for LayerNorms only, which is what the reference code does;
`plain-all`, the same with gradients for every weight of the query's tower. The gallery's features are random: it is
encoded once before and not measured.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

FORMS = ("ours", "tf32", "bfloat16", "plain", "plain-all")
REFERENCE_S = {"none": 1.43, "tcr": 7.34, "hatvtr": 7.75}
"""CPU seconds per query of the papers' released code with the same sizes on the same kind of machine."""

PAPER_MS = {"none": 2.25, "tent": 26.26, "tcr": 26.37, "sar": 53.41, "hatvtr": 32.27}
"""Per query on an RTX 4090 (HAT-VTR, Tab. 8 and 9)."""


def measured(method: str, form: str, options: argparse.Namespace) -> dict[str, float]:
    """One run in this process: seconds per query, milliseconds of each part, and memory."""
    import torch
    from transformers import CLIPConfig, CLIPModel

    from perturbations.tta import Gallery, Timings, adapt, clip4clip, task, towers
    from perturbations.tta.recording import TRANSFER

    device = torch.device(options.device)
    on_gpu = device.type == "cuda"
    if not on_gpu:
        torch.set_num_threads(1)
    torch.manual_seed(0)
    vision = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12}
    config = CLIPConfig(vision_config={**vision, "image_size": 224, "patch_size": 32})
    clip = CLIPModel(config).eval().to(device)
    if form.startswith("plain"):
        clip.set_attn_implementation("eager")
        towers.is_plain_clip = lambda model: False
        towers.CHUNK = 10**9
    if form == "plain-all":
        task.layer_norms = lambda tower: list(tower.parameters())
    frames = [] if options.direction == "v2t" else [options.frames]
    gallery = Gallery(options.direction, torch.randn(options.gallery, *frames, config.projection_dim).to(device))
    timings = Timings()
    wall, cpu = time.perf_counter(), time.process_time()
    adapted = adapt(
        clip4clip(clip),
        method,
        _queries(options, floats=form.startswith("plain"), pinned=on_gpu),
        gallery,
        direction=options.direction,
        precision=form if form in ("tf32", "bfloat16") else "float32",
        timings=timings,
    )
    for _ in adapted:
        pass
    asked = options.batch_size * options.batches
    first = 1 if on_gpu and options.batches > 1 else 0
    parts = {name: torch.tensor(values[first:], dtype=torch.float64) for name, values in timings.ms.items()}
    total = parts["encode"] + parts["adapt"] + parts["rerank"]
    return {
        "cpu_s": (time.process_time() - cpu) / asked,
        "wall_s": (time.perf_counter() - wall) / asked,
        "ms": float(total.median()),
        "share": float(parts[TRANSFER].sum() / total.sum()),
        "gib": timings.summary()["peak_memory_mib"] / 2**10,
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
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)  # a row's own process
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measured(*options.one, options)))
        return
    print(
        "| method | form | ms per query, p50 | transfer | encode / adapt / rerank ms | cpu s/query | peak GiB "
        "| paper, RTX 4090, ms | published code, cpu s |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for method in options.methods:
        for form in options.forms:
            command = [sys.executable, __file__, *sys.argv[1:], "--one", method, form]
            environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
            row = json.loads(done.stdout.splitlines()[-1])
            parts = " / ".join(f"{row[name]:.1f}" for name in ("encode", "adapt", "rerank"))
            in_paper = PAPER_MS.get(method, "")
            published = REFERENCE_S.get(method, "") if options.direction == "v2t" else ""
            figures = f"{row['ms']:.1f} | {100 * row['share']:.2f} % | {parts} | {row['cpu_s']:.2f} | {row['gib']:.2f}"
            print(f"| {method} | {form} | {figures} | {in_paper} | {published} |", flush=True)


if __name__ == "__main__":
    main()
