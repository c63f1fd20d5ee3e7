"""The workflow on a real Slurm, of two nodes on this machine. Only with `pytest --slurm`: it takes minutes.

Not a part of the CI, which has neither root nor Slurm for sure; `tests/helpers/slurm_cluster.py` says what is needed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import slurm_cluster
from slurm_cluster import Cluster
from waiting import pause, wait_for
from workflow_project import Project

from perturbations import read_manifest
from perturbations.base import storage

PATIENCE_S = 900.0
CLIPS = 12


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    needs_slurm(request)
    with slurm_cluster.cluster() as started:
        yield started


def needs_slurm(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("slurm"):
        pytest.skip("only with --slurm")
    if missing := [name for name in slurm_cluster.PROGRAMS if shutil.which(name) is None]:
        pytest.fail(f"{', '.join(missing)}: apt-get install --no-install-recommends slurm-wlm munge")


def new_project(root: Path, **config: Any) -> Project:
    datasets = {"demo": {"adapter": "demo", "clips": CLIPS}}
    root.mkdir(exist_ok=True)
    project = Project(root, {"datasets": datasets, "backends": {"device": "cpu"}, **config})
    project.write_config()
    return project


class Run:
    """A Snakemake that submits jobs, from within the cluster."""

    def __init__(self, cluster: Cluster, project: Project, *arguments: str) -> None:
        self._cluster, self._log = cluster, project.root / "run.log"
        command = cluster.command(*project.command(), "--workflow-profile", "slurm", *arguments, folder=project.root)
        with self._log.open("w") as file:
            self._process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)

    def wait(self) -> None:
        """It ends, and well."""
        status = self._process.wait(PATIENCE_S)
        assert status == 0, self._log.read_text()

    def text(self) -> str:
        """What it has printed."""
        return self._log.read_text()

    def fail(self) -> str:
        """It ends, and not well; what it printed."""
        assert self._process.wait(PATIENCE_S) == 1, self.text()
        return self.text()

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something that happens while it runs."""
        wait_for(lambda: condition() or self._process.poll() is not None, PATIENCE_S)
        assert self._process.poll() is None, self._log.read_text()

    def jobs(self) -> dict[str, dict[str, str]]:
        """What Slurm knows of each job that it was given, by the job's comment."""
        jobs = {}
        for line in self._cluster.output("scontrol", "show", "job", "--oneliner").splitlines():
            fields = dict(re.findall(r"(\w+)=(\S*)", line))
            if "Comment" in fields and fields["WorkDir"] == str(self._log.parent):
                jobs[fields["Comment"]] = fields  # a job that was submitted again stands later
        return jobs


VIDEOS = "rule_videos_wildcards_demo_mm_robustness_glass_blur_5_"


def one_shard(tmp_path: Path) -> Project:
    """A project with one job of videos, which is the slowest of all."""
    return new_project(
        tmp_path, suites={"mm_robustness": {"perturbations": ["glass_blur"], "severities": [5]}}, shard_size=100
    )


def journal_of(project: Project) -> list[str]:
    paths = list((project.root / "work/demo/mm_robustness/glass_blur/5").glob("s*.jsonl"))
    return paths[0].read_text().splitlines() if paths else []


def clips_of(project: Project) -> dict[str, int]:
    """When each finished clip was written: its hash is in the journal."""
    journal = "".join(journal_of(project))
    paths = (project.root / "corpora").rglob("[!.]*.mp4")
    return {path.name: path.stat().st_mtime_ns for path in paths if storage.sha256(path) in journal}


def running(run: Run, project: Project, clips: int) -> dict[str, str]:
    """The job of videos, once it has finished so many clips, and has others to do."""
    run.until(lambda: len(journal_of(project)) >= clips)
    assert len(journal_of(project)) < CLIPS
    return next(job for comment, job in run.jobs().items() if comment.startswith(VIDEOS))


def check(project: Project, before: dict[str, int]) -> None:
    """All clips are there, and those that were finished have not been made again."""
    after = clips_of(project)
    assert len(after) == CLIPS
    assert {name: after[name] for name in before} == before
    assert set(read_manifest(project.root / "manifests/demo/mm_robustness/videos.parquet")["status"]) == {"complete"}
    project.output_of("verify")


def test_a_job_survives_its_node(cluster: Cluster, tmp_path: Path) -> None:
    project = one_shard(tmp_path)
    run = Run(cluster, project, "mm_robustness_demo")
    job = running(run, project, 2)
    cluster.kill_node(job["NodeList"])
    before = clips_of(project)
    assert 2 <= len(before) < CLIPS
    try:
        run.wait()
        again = next(after for comment, after in run.jobs().items() if comment.startswith(VIDEOS))
        assert again["JobState"] == "COMPLETED"
        assert (again["JobId"], again["Restarts"]) == (job["JobId"], "1")
        assert again["NodeList"] != job["NodeList"]
    finally:
        cluster.start_node(job["NodeList"])
    check(project, before)


def test_a_job_that_fails_runs_again_and_asks_for_more(cluster: Cluster, tmp_path: Path) -> None:
    project = one_shard(tmp_path)
    run = Run(cluster, project, "mm_robustness_demo")
    job = running(run, project, 1)
    cluster.output("scancel", job["JobId"])
    run.until(
        lambda: cluster.output("squeue", "-h", "-j", job["JobId"], "-t", "all", "-o", "%T").strip() == "CANCELLED"
    )
    before = clips_of(project)
    run.wait()
    again = next(after for comment, after in run.jobs().items() if comment.startswith(VIDEOS))
    assert int(again["JobId"]) > int(job["JobId"])
    assert (job["MinMemoryNode"], again["MinMemoryNode"]) == ("1000M", "2000M")
    check(project, before)


def test_what_waits_or_fails_says_why(cluster: Cluster, tmp_path: Path) -> None:
    """A held job, one that asks for more time than its partition allows, and one that takes more than its memory."""
    project = new_project(
        tmp_path,
        suites={
            "mm_robustness": {
                "perturbations": ["glass_blur"],
                "severities": [5],
                "captions": {"perturbations": ["keyboard"], "severities": [1]},
            }
        },
    )
    targets = ("mm_robustness_demo", "text_mm_robustness_demo")
    asked = ("--retries", "0", "--set-resources", "texts:slurm_partition=short", "videos:mem_mb=90", "--")
    checked = Run(cluster, project, *asked, *targets).fail()
    assert "texts asks for 2 h, and partition short allows 60 min (MaxTime)" in checked
    assert not (tmp_path / "work" / "demo" / "sources").exists()
    cluster.output("scontrol", "update", "partition=main", "state=DOWN")
    run = Run(cluster, project, "--no-hooks", *asked, *targets)
    run.until(lambda: any(comment.startswith("rule_sources") for comment in run.jobs()))
    job = next(job for comment, job in run.jobs().items() if comment.startswith("rule_sources"))
    cluster.output("scontrol", "hold", job["JobId"])
    cluster.output("scontrol", "update", "partition=main", "state=UP")
    run.until(lambda: "held" in run.text())
    assert "held" in project.output_of("status")
    cluster.output("scontrol", "release", job["JobId"])
    printed = run.fail()
    assert "1 job of texts in Slurm: cannot start, PartitionTimeLimit: a job asks for a time of 2:00:00" in printed
    status = project.output_of("status")
    assert len(re.findall(r"a job of videos failed: it took more than its memory: .*\(\d+ > 94371840\)", printed)) == 1
    assert "it took more than its memory: " in status
    assert "cannot start, PartitionTimeLimit" in status
    assert "held" not in status
    Run(cluster, project, *targets).wait()
    assert "failed job" not in project.output_of("status")
    project.output_of("verify")


def test_a_run_ends_where_slurm_soon_forgets_jobs(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """The longer jobs wait, the less often the plugin looks: a minute apart after three minutes, as here."""
    needs_slurm(request)
    project = one_shard(tmp_path)
    with slurm_cluster.cluster(min_job_age=20) as forgetful:
        forgetful.output("scontrol", "update", "partition=main", "state=DOWN")
        run = Run(forgetful, project, "mm_robustness_demo")
        run.until(lambda: bool(run.jobs()))
        second = forgetful.command(*project.command(), "--workflow-profile", "slurm", folder=project.root)
        refused = subprocess.run([*second, "mm_robustness_demo"], capture_output=True, text=True)
        assert (refused.returncode, "lock" in refused.stderr) == (1, True)
        pause(170)
        assert "of sources in Slurm: wait, PartitionDown, and no job of this run is running" in run.text()
        forgetful.output("scontrol", "update", "partition=main", "state=UP")
        run.wait()
    check(project, {})


OWN_PROFILE = """\
default-resources:
  slurm_account: vision
  slurm_partition: main
set-resources:
  evaluate:
    slurm_partition: gpu
    gpu: 1
"""


def test_videos_captions_and_an_evaluation(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In small shards; account, partitions and a GPU for what runs models are named in the user's own profile."""
    import tiny_models  # loads torch, which the other tests need not

    project = new_project(
        tmp_path / "project",
        suites={
            "mlvp": {"perturbations": ["fog", "gaussian_noise"], "severities": [1]},
            "mm_robustness": {"captions": {"perturbations": ["keyboard"], "severities": [1]}},
        },
        shard_size=6,
        evaluation={
            "model": str(tiny_models.save_clip(tmp_path / "clip")),
            "suites": ["mlvp"],
            "severities": [1],
        },
    )
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "config.yaml").write_text(OWN_PROFILE)
    monkeypatch.setenv("SNAKEMAKE_PROFILE", str(tmp_path / "own"))
    run = Run(cluster, project, "mlvp_demo", "text_mm_robustness_demo", "evaluate_demo")
    run.wait()
    jobs = run.jobs()
    assert {job["JobState"] for job in jobs.values()} == {"COMPLETED"}
    assert {job["Account"] for job in jobs.values()} == {"vision"}
    assert {job["JobName"].split("_")[0] for job in jobs.values()} == {"perturb"}
    videos = [comment for comment in jobs if comment.startswith("rule_videos_wildcards_demo_mlvp_")]
    assert {name.rsplit("_", 2)[0] for name in videos} == {
        "rule_videos_wildcards_demo_mlvp_fog",
        "rule_videos_wildcards_demo_mlvp_gaussian_noise",
    }
    evaluations = [job for comment, job in jobs.items() if comment.startswith("rule_evaluate")]
    assert {(job["Partition"], job["TresPerJob"]) for job in evaluations} == {("gpu", "gres:gpu:1")}
    assert {job["Partition"] for job in jobs.values() if job not in evaluations} == {"main"}
    submitted = {re.sub(r"^rule_([a-z_]+?)(_wildcards_.*)?$", r"\1", comment) for comment in jobs}
    # Merging, checks and contact sheets are not: they ran beside Snakemake.
    assert submitted == {
        "sources",
        "videos",
        "texts",
        "texts_manifest",
        "check_model",
        "gallery",
        "evaluate",
    }
    results = read_manifest(next((project.root / "manifests/demo").rglob("results.parquet")))
    assert len(results) > 0
    project.output_of("verify")
