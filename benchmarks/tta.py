"""Seconds per query and peak memory of test-time adaptation, compared with a plain form of the same passes.

    python benchmarks/tta.py [--methods none tcr hatvtr] [--forms ours plain] [--batches 1] [--gallery 1000]
                             [--direction v2t|t2v]

ViT-B/32 with random weights, batches of 16, 3 steps, one thread; videos of 12 frames as queries (v2t), or captions of
77 tokens, the most that CLIP takes (t2v). Every row has a process of its own, one after the other. `cpu` counts the
process's time, system calls included, and is the figure to read on a shared machine. Memory is the process's peak, with
torch and transformers (about 0.6 GB) and the model (0.6 GB) in it.

Forms: `ours`; `bfloat16`, ours in that precision; `plain`, transformers' own passes with eager attention over the whole
batch, gradients for LayerNorms only, which is what the reference code does; `plain-all`, the same with gradients for
every weight of the query's tower. The gallery's features are random: it is encoded once before and not measured.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from typing import Literal

FORMS = ("ours", "bfloat16", "plain", "plain-all")
REFERENCE_S = {"none": 1.43, "tcr": 7.34, "hatvtr": 7.75}
"""CPU seconds per query of the papers' released code with the same sizes on the same kind of machine."""


def measured(
    method: str, form: str, batches: int, gallery_size: int, direction: Literal["v2t", "t2v"]
) -> dict[str, float]:
    import torch
    from transformers import CLIPConfig, CLIPModel

    from perturbations.tta import Gallery, Timings, adapt, clip4clip, task, towers

    torch.set_num_threads(1)
    torch.manual_seed(0)
    vision = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12}
    config = CLIPConfig(vision_config={**vision, "image_size": 224, "patch_size": 32})
    clip = CLIPModel(config).eval()
    if form.startswith("plain"):
        clip.set_attn_implementation("eager")
        towers.is_plain_clip = lambda model: False
        towers.CHUNK = 10**9
    if form == "plain-all":
        task.layer_norms = lambda tower: list(tower.parameters())
    gallery = Gallery(
        direction, torch.randn(gallery_size, *([] if direction == "v2t" else [12]), config.projection_dim)
    )
    queries = [
        torch.randn(16, 12, 3, 224, 224) if direction == "v2t" else torch.randint(1, 49000, (16, 77))
        for _ in range(batches)
    ]
    timings = Timings()
    precision = "bfloat16" if form == "bfloat16" else "float32"
    wall, cpu = time.perf_counter(), time.process_time()
    adapted = adapt(
        clip4clip(clip), method, queries, gallery, direction=direction, precision=precision, timings=timings
    )
    for _ in adapted:
        pass
    asked = 16 * batches
    return {
        "cpu_s": (time.process_time() - cpu) / asked,
        "wall_s": (time.perf_counter() - wall) / asked,
        "gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        **{name: value for name, value in timings.summary().items() if name.endswith("p50")},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=["none", "tcr", "hatvtr"])
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=["ours", "plain"])
    parser.add_argument("--batches", type=int, default=1)
    parser.add_argument("--gallery", type=int, default=1000)
    parser.add_argument("--direction", choices=("v2t", "t2v"), default="v2t")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)  # a row's own process
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measured(*options.one, options.batches, options.gallery, options.direction)))
        return
    print(
        "| method | form | cpu s/query | wall s/query | peak GiB | encode / adapt / rerank ms | published code, cpu s |"
    )
    print("|---|---|---|---|---|---|---|")
    arguments = ["--batches", str(options.batches), "--gallery", str(options.gallery), "--direction", options.direction]
    for method in options.methods:
        for form in options.forms:
            command = [sys.executable, __file__, *arguments, "--one", method, form]
            environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
            done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
            row = json.loads(done.stdout.splitlines()[-1])
            parts = " / ".join(f"{row[f'{name}_ms_p50']:.1f}" for name in ("encode", "adapt", "rerank"))
            published = REFERENCE_S.get(method, "") if options.direction == "v2t" else ""
            figures = f"{row['cpu_s']:.2f} | {row['wall_s']:.2f} | {row['gib']:.2f}"
            print(f"| {method} | {form} | {figures} | {parts} | {published} |", flush=True)


if __name__ == "__main__":
    main()
