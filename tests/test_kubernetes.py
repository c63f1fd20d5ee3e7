"""Whole runs on a stand-in for Kubernetes and an object store. Only with `pytest --kubernetes`: it takes minutes."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import clips
import kube_cluster
import needs
import pyarrow.parquet as pq
import pytest
import stores
from kube_cluster import Cluster
from test_kernels import scene
from test_workflow import Project
from waiting import wait_for

from perturbations import read_manifest

PATIENCE_S = 900.0
NAMES = ["a b", "ü'q", "c;d", "x"]


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    if not request.config.getoption("kubernetes"):
        pytest.skip("only with --kubernetes")
    needs.store()
    with stores.store(), kube_cluster.cluster() as started:
        yield started


def new_project(root: Path, **config: Any) -> Project:
    """Two datasets: clips cut from videos, and whole clips with names that shells and URLs would like to read."""
    for index, (name, frames) in enumerate((("one", 40), ("two words", 25))):
        clips.write_scene(root / "videos" / f"{name}.mp4", scene(frames, 48, 64, seed=index), Fraction(25))
    for index, name in enumerate(NAMES):
        clips.write_scene(root / "own clips" / f"{name}.mp4", scene(24, 64, 64, seed=index + 5), Fraction(12))
    with (root / "captions.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["start", "end", "task", "text", "video_id"])
        writer.writerows([[0.0, 0.6, 1, "stir", "one"], [0.5, 1.3, 1, "fry", "one"], [0.4, 0.9, 1, "cut", "two words"]])
    rows = [{"item_id": name, "caption": f"a girl plays with {name}"} for name in NAMES]
    (root / "captions.json").write_text(json.dumps(rows))
    settings = {
        "datasets": {
            "cooking": {"adapter": "youcook2", "annotations": "captions.csv", "videos": "videos"},
            "tiny": {"adapter": "folder", "annotations": "captions.json", "videos": "own clips"},
        },
        "suites": {
            "msrvtt_p": {"perturbations": ["rotate", "reverse_sampling"], "severities": [2]},
            "mlvp": {"perturbations": ["event_insertion", "main_object_occlusion"], "severities": [2]},
            "mm_robustness": {"captions": {"perturbations": ["keyboard"], "severities": [1]}},
        },
        "shard_size": 2,
        **config,
    }
    project = Project(root, settings)
    project.write_config()
    return project


def test_results_are_those_of_a_shared_folder(cluster: Cluster, tmp_path: Path) -> None:
    targets = ("youcook2_p", "mlvp_tiny", "text_mm_robustness_tiny")
    shared = new_project(tmp_path / "shared")
    shared.snakemake(*targets)
    project = new_project(tmp_path / "store")
    done = stores.submit(cluster, project, "s3://kubernetes/all", *targets)
    assert done.returncode == 0, done.stdout
    fetched = stores.fetch(tmp_path / "fetched", "s3://kubernetes/all")
    for path in (shared.root / "manifests").rglob("*.parquet"):
        relative = path.relative_to(shared.root)
        assert pq.read_table(path).equals(pq.read_table(fetched / relative)), relative
    clips = [path.relative_to(shared.root) for path in (shared.root / "corpora").rglob("*.*")]
    assert clips
    for relative in clips:
        assert (shared.root / relative).read_bytes() == (fetched / relative).read_bytes(), relative
    assert "Nothing to be done" in stores.submit(cluster, project, "s3://kubernetes/all", "-n", *targets).stdout


def test_after_the_loss_of_a_pod_the_same_command_goes_on(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    slow = {"mm_robustness": {"perturbations": ["glass_blur"], "severities": [5]}}
    project = Project(tmp_path / "project", {"datasets": {"demo": {"adapter": "demo", "clips": 4}}, "suites": slow})
    project.write_config()
    before = set(cluster.jobs)
    target = "manifests/demo/mm_robustness/videos.parquet"
    command = stores.command(project, "s3://kubernetes/lost", target)
    with (tmp_path / "log").open("w") as log:
        run = subprocess.Popen(
            command, cwd=project.root, env=stores.environment(cluster), stdout=log, stderr=subprocess.STDOUT
        )
    try:
        wait_for(lambda: _videos(cluster, before) or run.poll() is not None, PATIENCE_S)
        assert run.poll() is None, (tmp_path / "log").read_text()
        (pod,) = _videos(cluster, before)
        pod.process.send_signal(signal.SIGKILL)
        # The plugin asks for the log of a container before this one, which there is not, and ends the run.
        assert run.wait(PATIENCE_S) == 1, (tmp_path / "log").read_text()
    finally:
        run.kill()
    done = stores.submit(cluster, project, "s3://kubernetes/lost", target)
    assert done.returncode == 0, done.stdout
    assert len(_videos(cluster, before)) == 2
    fetched = stores.fetch(tmp_path / "fetched", "s3://kubernetes/lost")
    assert len(read_manifest(fetched / "manifests/demo/mm_robustness/videos.parquet")) == 4


def _videos(cluster: Cluster, before: set[str]) -> list[kube_cluster.Pod]:
    """The pods of videos, in the order in which they began."""
    pods = [pod for name, pod in cluster.jobs.items() if name not in before]
    args = [(pod, pod.body["spec"]["template"]["spec"]["containers"][0]["args"][1]) for pod in pods]
    return [pod for pod, text in args if "--allowed-rules videos" in text]
