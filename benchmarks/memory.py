"""Peak resident memory of each job of videos on one long synthetic video, and on eight clips cut from it.

    python benchmarks/memory.py [--minutes 20] [--size 640x360] [--severity 3] [--perturbations msrvtt_p/box_jumble]

The figure is `max_rss` of Snakemake's benchmark files: the largest sum over a job's processes (the job, its worker,
ffmpeg), so pages that they share count more than once.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from perturbations.media import encoding
from perturbations.suites import suite_registry

PROJECT = Path(__file__).parents[1]
CLIPS, CLIP_S = 8, 20.0
SNAKEFILE = """
configfile: "config.yaml"

module ours:
    snakefile:
        {snakefile!r}
    config:
        config

use rule * from ours exclude videos

use rule videos from ours with:
    benchmark:
        "measured/{{dataset}}/{{suite}}/{{perturbation}}/{{severity}}/{{shard}}.tsv"
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--size", default="640x360")
    parser.add_argument("--severity", type=int, default=3)
    parser.add_argument(
        "--perturbations", nargs="+", default=[entry.key for entry in suite_registry.perturbations(kind="video")]
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        folder = Path(name)
        suites: dict[str, list[str]] = {}
        for key in options.perturbations:
            suites.setdefault(key.partition("/")[0], []).append(key.partition("/")[2])
        write(folder, options, suites)
        targets = [f"{suite}_{part}" for suite in suites for part in ("whole", "cut")]
        (folder / "Snakefile").write_text(SNAKEFILE.format(snakefile=str(PROJECT / "workflow/Snakefile")))
        command = [sys.executable, "-m", "snakemake", "--cores", "1", "--", *targets]
        subprocess.run(command, cwd=folder, check=True, stdout=sys.stderr)
        print("| job | peak MiB | seconds |\n|---|---|---|")
        for path in sorted((folder / "measured").rglob("*.tsv")):
            with path.open(newline="") as file:
                (row,) = csv.DictReader(file, delimiter="\t")
            print(f"| {path.relative_to(folder / 'measured').with_suffix('')} | {row['max_rss']} | {row['s']} |")


def write(folder: Path, options: argparse.Namespace, suites: dict[str, list[str]]) -> None:
    """A long video, another one to take frames from, and two datasets: both videos whole, and clips of the first."""
    begin = [encoding.ffmpeg_program(), "-v", "error", "-f", "lavfi", "-i"]
    end = ["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p"]
    long = f"testsrc2=size={options.size}:rate=25:duration={60 * options.minutes}"
    other = f"life=size={options.size}:rate=25:mold=10"
    subprocess.run([*begin, long, *end, folder / "long.mp4"], check=True)
    subprocess.run([*begin, other, "-t", "20", *end, folder / "other.mp4"], check=True)
    starts = [60 * options.minutes * (place + 0.5) / CLIPS for place in range(CLIPS)]
    rows = [f"clip{start:g},long.mp4,{start},{start + CLIP_S},a caption" for start in starts]
    (folder / "whole.csv").write_text("item_id,caption\nlong,a caption\nother,a caption\n")
    (folder / "cut.csv").write_text("\n".join(["item_id,video,start_s,end_s,caption", *rows]))
    columns = {name: name for name in ("video", "start_s", "end_s")}
    config = {
        "datasets": {
            "whole": {"adapter": "folder", "annotations": "whole.csv", "videos": "."},
            "cut": {"adapter": "folder", "annotations": "cut.csv", "videos": ".", "columns": columns},
        },
        "suites": {
            suite: {"perturbations": names, "severities": [options.severity]} for suite, names in suites.items()
        },
    }
    (folder / "config.yaml").write_text(json.dumps(config))


if __name__ == "__main__":
    main()
