"""What the program does, as a folder of text files that `diff -r` compares: before and after a change of its shape.

    python benchmarks/lock.py /tmp/before       then change the code, and
    python benchmarks/lock.py /tmp/after && diff -r /tmp/before /tmp/after

It records the JSON schema, the commands and their options, the targets, dry runs of six configurations, hashes of the
columns of every manifest of a small corpus per storage tier, and the hashes of all kernels.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow.parquet as pq

PROJECT = Path(__file__).parents[1]
HEAD = "seed: 3\ndatasets: {tiny: {adapter: demo, clips: 3}}\n"
SUITES = """suites:
  mlvp: {perturbations: [gaussian_noise, h264_compression, main_object_occlusion, event_insertion], severities: [1, 5]}
  msrvtt_p: {perturbations: [jpeg], severities: [3], captions: {perturbations: [typos, shuffle_order]}}
"""
TIERS = {
    "high": "storage: {tier: video, profile: high}\n",
    "compatible": "storage: {tier: video, profile: compatible}\n",
    "frames": "storage: {tier: frames, num_frames: 4}\n",
    "recipe": "storage: {tier: recipe}\n",
}
NEWER = ["mm_robustness_tiny", "transmission_tiny", "tampering_tiny", "text_mm_robustness_tiny"]
TARGETS = ["mlvp_tiny", "msrvtt_p_tiny", "text_msrvtt_p_tiny"]
PLANS = {
    "demo": ((PROJECT / "config.yaml").read_text("utf-8"), ["all"]),
    "evaluation": ((PROJECT / "config.yaml").read_text("utf-8"), ["tta_demo_retrieval", "report"]),
    "composed": ((PROJECT / "config.yaml").read_text("utf-8"), ["composed_demo_families"]),
    "tiny": (HEAD + SUITES + TIERS["high"], TARGETS),
    "frames": (HEAD + SUITES + TIERS["frames"], TARGETS),
    "whole": (HEAD + "suites: {mm_robustness: {variant: paper}, transmission: {}, tampering: {}}\n", NEWER),
}


def output(words: list[object], folder: Path, *, check: bool = True) -> str:
    """What a command prints."""
    done = subprocess.run([*map(str, words)], cwd=folder, capture_output=True, text=True)
    if check and done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}:\n{done.stdout}{done.stderr}")
    return done.stdout + (done.stderr if not check else "")


def snakemake(folder: Path, *words: object, check: bool = True) -> str:
    """What Snakemake prints in a folder that holds a `config.yaml`."""
    start = [sys.executable, "-m", "snakemake", "--snakefile", PROJECT / "Snakefile", "--cores", 2, "--nocolor"]
    return output([*start, *words], folder, check=check)


def commands(parser: argparse.ArgumentParser, name: str = "perturb") -> list[str]:
    """Each command with its options, a line each."""
    lines = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, below in action.choices.items():
                lines += commands(below, f"{name} {word}")
        else:
            choices = sorted(map(str, action.choices or ()))
            lines.append(f"{name} {'/'.join(action.option_strings) or action.dest} {action.nargs} {choices}")
    return lines


def hashes(folder: Path) -> str:
    """A hash of each column of every manifest below a folder, so that a new column alone shows as one line."""
    columns = {}
    for path in sorted(folder.rglob("*.parquet")):
        table = pq.read_table(path)
        columns[str(path.relative_to(folder))] = {
            name: hashlib.sha256(repr(table[name].to_pylist()).encode()).hexdigest() for name in table.column_names
        }
    return json.dumps(columns, indent=1, sort_keys=True)


def main() -> None:
    """Write the record."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--plans-only", action="store_true", help="leave out what makes clips")
    options = arguments.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)

    def write(name: str, text: str) -> None:
        (options.folder / name).write_text(text.replace(str(PROJECT), "PROJECT"), encoding="utf-8")

    from perturbations.cli import main as command_line
    from perturbations.config import sections as config

    write("schema.json", config.json_schema())
    write("commands.txt", "\n".join(sorted(commands(command_line.parser()))) + "\n")
    kernels = output(
        [sys.executable, "-m", "pytest", "-q", "-rA", "tests/test_kernel_versions.py"], PROJECT, check=False
    )
    write("kernels.txt", "\n".join(sorted(re.findall(r"(?m)^[A-Z]+ tests.*", kernels))) + "\n")
    for name, (text, targets) in PLANS.items():
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            (folder / "config.yaml").write_text(text, encoding="utf-8")
            if name == "demo":
                write("targets.txt", snakemake(folder, "--list-target-rules"))
            plan = snakemake(folder, "--dry-run", "--printshellcmds", "--quiet", "host", "--", *targets, check=False)
            # Jobs are numbered, and files of reasons listed, in an order that differs from run to run.
            plan = re.sub(r"(?m)^Job \d+: |^Reason: .*\n|^host: .*\n", "", plan).replace(place, "PLACE")
            write(f"plan_{name}.txt", "\n\n".join(sorted(re.split(r"\n\s*\n", plan.strip()))) + "\n")
    if options.plans_only:
        return
    for name, storage in TIERS.items():
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            (folder / "config.yaml").write_text(HEAD + SUITES + storage, encoding="utf-8")
            snakemake(folder, "--quiet", "all", "--", *TARGETS)
            write(f"hashes_{name}.json", hashes(folder / "manifests"))


if __name__ == "__main__":
    os.environ["PYTHONPATH"] = str(PROJECT)
    main()
