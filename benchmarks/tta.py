"""Time per query and peak memory of test-time adaptation, compared with a plain form of the same passes.

    python benchmarks/tta.py [--device cpu|cuda] [--methods none tcr hatvtr] [--forms ours plain] [--batches 1]
                             [--batch-size 16] [--frames 12] [--gallery 1000] [--direction v2t|t2v]
                             [--steps 3] [--pooling clip4clip|xpool] [--patch 32]
    python benchmarks/tta.py --memory [--methods sar]
    python benchmarks/tta.py --rescoring [--items 1000 10000] [--methods sinkhorn]

ViT-B/32 with random weights, 3 steps; on a CPU one thread. Videos of 12 frames as queries (v2t), or captions of 77
tokens, the most that CLIP takes (t2v). Every row has a process of its own, one after the other. `ms` is the median over
batches of wall time per query; on a GPU the first batch, which loads its kernels, is left out. `cpu` counts the
process's time, system calls included, and is the figure to read on a shared machine. Memory is the GPU's peak, or the
process's, with torch and transformers (about 0.6 GB) and the model (0.6 GB) in it.

Forms: `ours`; `tf32` and `bfloat16`, ours in that precision; `plain`, transformers' own passes with eager attention
over the whole batch of frames normalized before, gradients for LayerNorms only, which is what the reference code does;
`plain-all`, the same with gradients for every weight of the query's tower. The gallery's features are random: it is
encoded once before and not measured.

`--memory` prints what plan/evaluation_sizes.py was made from: the peak of a process per size of its batches, and how
much of it was not there before the first batch (libraries, model, gallery), in units: batch x frames x tokens x width
x layers numbers of 4 bytes, what one activation of every layer takes.

`--rescoring` times the methods that change no weight: as many queries as gallery items, given as random features of 512
numbers, and banks of as many; wall and CPU seconds of a whole run, and the peak of its process.
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
from typing import Any, NamedTuple

FORMS = ("ours", "tf32", "bfloat16", "plain", "plain-all")
REFERENCE_S = {"none": 1.43, "tcr": 7.34, "hatvtr": 7.75}
"""CPU seconds per query of the papers' released code with the same sizes on the same kind of machine."""

PAPER_MS = {"none": 2.25, "tent": 26.26, "tcr": 26.37, "sar": 53.41, "hatvtr": 32.27}
"""Per query on an RTX 4090 (HAT-VTR, Tab. 8 and 9)."""


class Size(NamedTuple):
    """A row of the table of memory."""

    method: str
    direction: str
    batch_size: int
    steps: int
    frames: int = 12
    pooling: str = "clip4clip"
    patch: int = 32

    @property
    def unit_mib(self) -> float:
        """One activation of every layer of the tower that adapts, in MiB."""
        tokens, width = ((224 // self.patch) ** 2 + 1, 768) if self.direction == "v2t" else (77, 512)
        frames = self.frames if self.direction == "v2t" else 1
        return 4 * self.batch_size * frames * tokens * width * 12 / 2**20


SIZES = (
    Size("none", "v2t", 4, 3),
    Size("tcr", "v2t", 4, 2),
    Size("hatvtr", "v2t", 8, 1),
    Size("tcr", "v2t", 4, 1, pooling="xpool"),
    Size("tcr", "v2t", 2, 1, patch=16),
    Size("sar", "v2t", 4, 2),
    Size("tcr", "v2t", 16, 3),
    Size("hatvtr", "v2t", 16, 3),
    Size("tcr", "t2v", 16, 1),
    Size("tcr", "t2v", 16, 1, pooling="xpool"),
    Size("sar", "t2v", 16, 1),
)


def measured(method: str, form: str, options: argparse.Namespace) -> dict[str, float]:
    """One run in this process: seconds per query, milliseconds of each part, and memory."""
    import torch
    from transformers import CLIPConfig, CLIPModel

    from perturbations.tta import Gallery, Timings, adapt, clip4clip, task, towers, xpool
    from perturbations.tta.pooling import XPool

    device = torch.device(options.device)
    on_gpu = device.type == "cuda"
    if not on_gpu:
        torch.set_num_threads(1)
    torch.manual_seed(0)
    vision = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12}
    config = CLIPConfig(vision_config={**vision, "image_size": 224, "patch_size": options.patch})
    clip = CLIPModel(config).eval().to(device)
    if form.startswith("plain"):
        clip.set_attn_implementation("eager")
        towers.is_plain_clip = lambda model: False
        towers.CHUNK = 10**9
    if form == "plain-all":
        task.layer_norms = lambda tower: list(tower.parameters())
    frames = [] if options.direction == "v2t" else [options.frames]
    gallery = Gallery(options.direction, torch.randn(options.gallery, *frames, config.projection_dim).to(device))
    pooled = (
        clip4clip(clip) if options.pooling == "clip4clip" else xpool(clip, XPool(config.projection_dim).state_dict())
    )
    timings = Timings()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    wall, cpu = time.perf_counter(), time.process_time()
    adapted = adapt(
        pooled,
        method,
        _queries(options, floats=form.startswith("plain"), pinned=on_gpu),
        gallery,
        direction=options.direction,
        steps=options.steps,
        precision=form if form in ("tf32", "bfloat16") else "float32",
        timings=timings,
    )
    for _ in adapted:
        pass
    queries = options.batch_size * options.batches
    first = 1 if on_gpu and options.batches > 1 else 0
    parts = {name: torch.tensor(values[first:], dtype=torch.float64) for name, values in timings.ms.items()}
    total = parts["encode"] + parts["adapt"] + parts["rerank"]
    return {
        "cpu_s": (time.process_time() - cpu) / queries,
        "wall_s": (time.perf_counter() - wall) / queries,
        "ms": float(total.median()),
        "before_mib": before,
        "gib": timings.summary()["peak_memory_mib"] / 2**10,
        **{name: float(values.median()) for name, values in parts.items()},
    }


def rescored(method: str, items: int) -> dict[str, float]:
    """A run of a method on similarities in this process: seconds and memory."""
    import torch

    from perturbations.tta import DualEncoder, Gallery, adapt
    from perturbations.tta.methods import registry

    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    videos, texts, bank, gallery_bank = (torch.randn(items, 512, generator=generator) for _ in range(4))
    norm = torch.nn.LayerNorm(2)
    given = DualEncoder(
        norm, norm, lambda frames: frames[:, :, 0, 0], lambda ids, mask: texts[ids[:, 0]], None, (norm,)
    )
    entry, options = registry.method(method), dict[str, Any]()
    if entry.needs_bank:
        options["bank"] = Gallery("t2v", bank[:, None])
    if entry.takes_gallery_bank:
        options["gallery_bank"] = Gallery("v2t", gallery_bank)
    batches = videos[:, None, None, None].expand(-1, 1, 3, 1, -1).split(64)
    for _ in adapt(given, "none", batches[:1], Gallery("v2t", texts[:2]), direction="v2t"):
        pass  # torch imports its optimizer, which takes seconds
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in adapt(given, method, batches, Gallery("v2t", texts), direction="v2t", **options):
        pass
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {"wall_s": wall, "cpu_s": cpu, "gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}


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
    parser.add_argument("--methods", nargs="+", help="default: none tcr hatvtr; with --memory all of its rows")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=["ours", "plain"])
    parser.add_argument("--batches", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--frames", type=int, default=12)
    parser.add_argument("--gallery", type=int, default=1000)
    parser.add_argument("--direction", choices=("v2t", "t2v"), default="v2t")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--pooling", choices=("clip4clip", "xpool"), default="clip4clip")
    parser.add_argument("--patch", type=int, choices=(16, 32), default=32)
    parser.add_argument("--memory", action="store_true", help="print the table of memory")
    parser.add_argument("--rescoring", action="store_true", help="print the table of methods on similarities")
    parser.add_argument("--items", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)  # a row's own process
    options = parser.parse_args()
    if options.one and options.rescoring:
        print(json.dumps(rescored(options.one[0], int(options.one[1]))))
    elif options.one:
        print(json.dumps(measured(*options.one, options)))
    elif options.rescoring:
        _print_rescoring(options)
    elif options.memory:
        _print_memory(options.methods)
    else:
        _print_times(options)


def _row(method: str, form: str, arguments: list[str]) -> dict[str, float]:
    """The figures of a process of its own."""
    command = [sys.executable, __file__, *arguments, "--one", method, form]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _print_memory(methods: list[str] | None) -> None:
    print("| method, direction | batch | frames | steps | peak MiB | before the first batch, MiB | the rest in units |")
    print("|---|---|---|---|---|---|---|")
    for size in SIZES:
        if methods is not None and size.method not in methods:
            continue
        chosen = [f"--{name.replace('_', '-')}={value}" for name, value in size._asdict().items() if name != "method"]
        figures = _row(size.method, "ours", chosen)
        peak = figures["gib"] * 2**10
        what = [size.method, size.direction] + ["xpool"] * (size.pooling == "xpool")
        what += [f"patches of {size.patch}"] * (size.patch != 32)
        frames = size.frames if size.direction == "v2t" else ""
        units = (peak - figures["before_mib"]) / size.unit_mib
        known = f"{', '.join(what)} | {size.batch_size} | {frames} | {size.steps}"
        print(f"| {known} | {peak:,.0f} | {figures['before_mib']:,.0f} | {units:.1f} |", flush=True)


def _print_rescoring(options: argparse.Namespace) -> None:
    from perturbations.tta.methods import registry

    print("| method | queries = items | wall s | cpu s | peak GiB |")
    print("|---|---|---|---|---|")
    for items in options.items:
        for method in options.methods or [name for name, entry in registry.methods().items() if not entry.adapts]:
            row = _row(method, str(items), ["--rescoring"])
            figures = f"{row['wall_s']:.2f} | {row['cpu_s']:.2f} | {row['gib']:.2f}"
            print(f"| {method} | {items:,} | {figures} |", flush=True)


def _print_times(options: argparse.Namespace) -> None:
    print(
        "| method | form | ms per query, p50 | encode / adapt / rerank ms | cpu s/query | peak GiB "
        "| paper, RTX 4090, ms | published code, cpu s |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for method in options.methods or ["none", "tcr", "hatvtr"]:
        for form in options.forms:
            row = _row(method, form, sys.argv[1:])
            parts = " / ".join(f"{row[name]:.1f}" for name in ("encode", "adapt", "rerank"))
            in_paper = PAPER_MS.get(method, "")
            published = REFERENCE_S.get(method, "") if options.direction == "v2t" else ""
            figures = f"{row['ms']:.1f} | {parts} | {row['cpu_s']:.2f} | {row['gib']:.2f}"
            print(f"| {method} | {form} | {figures} | {in_paper} | {published} |", flush=True)


if __name__ == "__main__":
    main()
