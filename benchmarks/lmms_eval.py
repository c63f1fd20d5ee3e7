"""The recorded logs of lmms-eval's dummy model, made again: three scenes of the demo, clean and in fog.

    python3 -m venv ~/lmms && ~/lmms/bin/pip install lmms-eval==0.7.3 'filelock<3.20'
    python benchmarks/lmms_eval.py ~/lmms/bin/python tests/golden/lmms_eval

The second argument is a folder, whose logs are replaced.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
KEPT = ("results", "n-samples", "config", "lmms_eval_version", "date", "task_hashes", "model_source", "model_name")


def run(folder: Path, *words: object, **environment: str) -> None:
    """Run a command in a folder."""
    subprocess.run([*map(str, words)], cwd=folder, env={**os.environ, **environment}, check=True)


def without_paths(value: object) -> object:
    """The same without the folder of this run."""
    if isinstance(value, dict):
        return {name: without_paths(own) for name, own in value.items()}
    return "FOLDER" if isinstance(value, str) and tempfile.gettempdir() in value else value


def main(python: str, output: Path) -> None:
    """Make a corpus, ask the dummy, and keep what it logged."""
    sys.path.insert(0, str(ROOT / "tests"))
    import asked_scenes

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asked_scenes.write(folder, 3)
        run(folder, "perturb", "init", "study", "--videos", "clips", "--questions", "questions.csv")
        config = yaml.safe_load((folder / "study/config.yaml").read_text())
        config["suites"] = {"mlvp": {"perturbations": ["fog"], "severities": [3]}}
        (folder / "study/config.yaml").write_text(yaml.safe_dump(config))
        run(folder / "study", "snakemake", "--cores", "2", "mlvp_study")
        words = ["manifests/study/mlvp/videos.parquet", "--format", "lmms_eval", "--clean", "-o", "tasks"]
        run(folder / "study", "perturb", "export", *words)
        options = ["--model", "dummy", "--model_args", "response=B,decode_num_frames=2", "--include_path", "tasks"]
        options += ["--tasks", "study_mlvp", "--batch_size", "1", "--log_samples", "--output_path", folder / "logs"]
        offline = {"HF_HOME": str(folder), "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "PYTHONPATH": ""}
        run(folder / "study", python, "-m", "lmms_eval", *options, **offline)
        for stale in output.glob("*.json*"):
            stale.unlink()
        for log in sorted((folder / "logs").rglob("*.jsonl")):
            (output / log.name).write_text(log.read_text())
        for log in (folder / "logs").rglob("*_results.json"):
            about = {key: without_paths(value) for key, value in json.loads(log.read_text()).items() if key in KEPT}
            (output / log.name).write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
