"""A project folder of tiny clips in which tests run Snakemake."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import preloaded
import pytest
import yaml
from clips import is_marker
from copies import ROOT

from perturbations import open_clip
from perturbations.config import file as config_file
from perturbations.config.sections import Config
from perturbations.corpus.plan.sharding import DatasetPlan
from perturbations.corpus.plan.targets import Plans
from perturbations.evaluation.plan import planned_runs as evaluation
from perturbations.media import encoding, profiles
from perturbations.media.clip import Frame, Timing

PROFILES = ROOT / "workflow" / "profiles"


@dataclass
class Project:
    """A folder with a dataset, a configuration, and what runs made."""

    root: Path
    config: dict[str, Any]

    def write_config(self) -> None:
        (self.root / "config.yaml").write_text(yaml.safe_dump(self.config))

    def write_captions(self, ids: list[str]) -> None:
        rows = [{"item_id": name, "caption": f"a caption of {name}"} for name in ids]
        (self.root / "captions.json").write_text(json.dumps(rows))

    def snakemake(
        self, *arguments: str, cores: int = 2, check: bool = True, hooks: bool = False, started: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """Run Snakemake; unless `hooks`, without the check before it and the summary after it, which take seconds.

        Unless `started`, it and its jobs are forked from processes that have imported their libraries.
        """
        self.write_config()
        program = self.command() if started else [*preloaded.command("snakemake"), *self.snakefile()]
        command = [*program, "--cores", str(cores), *([] if hooks else ["--no-hooks"]), *arguments]
        done = subprocess.run(command, cwd=self.root, capture_output=True, text=True)
        if check and done.returncode != 0:
            pytest.fail(f"{' '.join(arguments)} failed:\n{done.stdout}\n{done.stderr}")
        return done

    def planned(self, *targets: str) -> dict[str, int]:
        """The number of jobs per rule that a dry run prints."""
        (jobs,) = re.findall(r"(?m)^\d+ jobs?: (.*)$", self.snakemake("--dry-run", *targets).stderr) or [""]
        return {name: int(count) for name, count in re.findall(r"(\w+) (\d+)", jobs)}

    def kill_after(self, text: str, *arguments: str) -> None:
        """Run real processes, kill them all when a job whose line holds `text` has ended."""
        self.write_config()
        command = [*self.command(), "--quiet", "host", *arguments]  # which prints every job
        process = subprocess.Popen(command, cwd=self.root, stderr=subprocess.PIPE, text=True, start_new_session=True)
        assert process.stderr is not None
        for line in process.stderr:
            if "Finished jobid" in line and text in line:
                break
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()

    def command(self) -> list[str]:
        """The words that start a real Snakemake, which starts real jobs."""
        return [sys.executable, "-m", "snakemake", *self.snakefile()]

    def snakefile(self) -> list[str]:
        return ["--snakefile", str(ROOT / "Snakefile")]

    def perturb(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*preloaded.command("perturb"), *arguments]
        return subprocess.run(command, cwd=self.root, capture_output=True, text=True)

    def output_of(self, *arguments: str, status: int = 0) -> str:
        """What `perturb` prints; it must end with this status."""
        done = self.perturb(*arguments)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout

    def refusal(self, *arguments: str) -> str:
        """What a run prints that fails, without a traceback."""
        failed = self.snakemake(*arguments, check=False)
        assert failed.returncode != 0
        assert "Traceback (most recent" not in failed.stdout + failed.stderr
        return failed.stdout + failed.stderr

    def check_published(self, suite: str, output: Path, dataset: str = "tiny", clips: str = "videos") -> None:
        """Publish a suite's recipes, make the corpus from them and the clips in another folder, and verify it.

        `regenerate` itself compares the frames with the recipes' hashes.
        """
        published, other = output / "published", Project(output / "other", self.config)
        manifest = f"manifests/{dataset}/{suite}/videos.parquet"
        self.output_of("export", manifest, "--format", "recipe", "-o", str(published))
        self.output_of("regenerate", str(published), "--clips", str(self.root / clips), "-o", str(other.root))
        other.output_of("verify")

    def outputs(self) -> dict[str, int]:
        """When each shard's part was written."""
        return {
            str(path.relative_to(self.root / "work")): path.stat().st_mtime_ns
            for path in (self.root / "work").rglob("s*.parquet")
        }

    def rerun(self, *arguments: str) -> set[str]:
        """Run again and say which parts were written."""
        before = self.outputs()
        self.snakemake(*arguments)
        return {name for name, when in self.outputs().items() if before.get(name) != when}

    def results(self) -> dict[str, bytes]:
        """Every manifest and every clip; markers follow from how the work is cut into shards."""
        clips = [path for path in (self.root / "corpora").rglob("*.*") if not is_marker(path)]
        files = [*(self.root / "manifests").rglob("*.parquet"), *clips]
        return {str(path.relative_to(self.root)): path.read_bytes() for path in files}


def is_rendered_again(row: Mapping[Hashable, Any]) -> bool:
    """Whether a row's recipe gives the frames that are stored, but for what their encoder loses."""
    stored, again = open_clip(row).astype(int), open_clip({**row, "storage": "recipe"})
    return bool(np.abs(stored - again).mean() < 3)


def tiny_clip(path: Path, seed: int, frames: int = 6, size: tuple[int, int] = (24, 32)) -> None:
    generator = np.random.default_rng(seed)
    still = generator.integers(0, 256, (*size, 3), dtype=np.uint8)
    pictures = (Frame(np.roll(still, index, axis=1), index, index) for index in range(frames))
    rate = Fraction(10)
    path.parent.mkdir(parents=True, exist_ok=True)
    encoding.encode(pictures, path, profiles.PROFILES["compatible"], Timing(1 / rate, rate))


def folders(names: set[str]) -> set[str]:
    """The folders of parts."""
    return {str(Path(name).parent) for name in names}


IDS = ["a", "b", "c", "d"]


MANIFEST = "manifests/tiny/mlvp/videos.parquet"


def new_project(root: Path, **config: Any) -> Project:
    for index, name in enumerate(IDS):
        tiny_clip(root / "videos" / f"{name}.mp4", seed=index)
    project = Project(
        root,
        {
            "datasets": {"tiny": {"adapter": "folder", "annotations": "captions.json", "videos": "videos"}},
            "suites": {"mlvp": {"perturbations": ["gaussian_noise", "fog"], "severities": [1, 3]}},
            "shard_size": 1,
            **config,
        },
    )
    project.write_captions(IDS)
    return project


def copy_of(finished: Project, root: Path) -> Project:
    """Another project of the same files, which may be changed."""
    shutil.copytree(finished.root, root, copy_function=shutil.copy2)
    return Project(root, json.loads(json.dumps(finished.config)))


FOLDER = {"adapter": "folder", "annotations": "captions.json", "videos": "videos"}


SPANS = {"adapter": "youcook2", "annotations": "captions.csv", "videos": "videos"}


def configured(**settings: Any) -> Config:
    datasets = {"tiny": {**FOLDER, "donors": "train"}, "train": FOLDER, "cooking": SPANS}
    suites: dict[str, Any] = {"mlvp": {"severities": [2, 5]}, "msrvtt_p": {"severities": [2]}}
    return config_file.parse({"datasets": datasets, "suites": suites, **settings})


def not_planned(collection: str) -> DatasetPlan:
    raise AssertionError(f"{collection} is planned, and nothing needs it")


def planned(**videos: Mapping[str, set[str]]) -> Plans:
    """Plans of collections by name (`cooking_whole` for `cooking/whole`): of each shard, the ids of its videos."""

    def plan_of(collection: str) -> DatasetPlan:
        shards = {name: frozenset(ids) for name, ids in videos[collection.replace("/", "_")].items()}
        return DatasetPlan(tuple(shards), shards, listed=7)

    return plan_of


KEY = evaluation.model_key(configured())
