"""What Slurm's commands print, as recorded from Slurm 22.05, and what the check before the first job says of it."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace

import pytest
from slurm_answers import NODES, PARTITIONS, write_commands

from perturbations.corpus import slurm_site
from perturbations.corpus.check_before_a_run import Report
from perturbations.corpus.plan import corpus_rules, resources
from perturbations.corpus.slurm_site import JobRequest, Partition


@pytest.fixture
def _two_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_commands(tmp_path, monkeypatch, {"scontrol": {"show partition": PARTITIONS, "show node": NODES}})


@pytest.mark.usefixtures("_two_partitions")
def test_limits_of_partitions_and_their_largest_nodes() -> None:
    known, default = slurm_site.partitions()
    assert default == "main"
    assert known["main"] == Partition(math.inf, 6000, 2, has_gpus=True)
    assert known["short"] == Partition(60, 4000, 2, has_gpus=False)


@pytest.mark.usefixtures("_two_partitions")
@pytest.mark.parametrize(
    ("request_", "line"),
    [
        (
            JobRequest("texts", 1, minutes=120, partition="short"),
            "texts asks for 2 h, and partition short allows 60 min",
        ),
        (JobRequest("texts", 1, minutes=120, partition="short"), "--set-resources texts:runtime=60"),
        (JobRequest("videos", 1, mb=9000), "asks for 9,000 MB, and a node of partition main gives 6,000 MB"),
        (JobRequest("videos", 1, mb=5000, partition="short"), "--set-resources videos:mem_mb=4000"),
        (JobRequest("evaluate", 16), "evaluate asks for 16 CPUs, and a node of partition main has 2"),
        (JobRequest("evaluate", 1, gpus=1, partition="short"), "no node of partition short has one"),
        (JobRequest("evaluate", 1, partition="gpus"), "evaluate: no partition gpus: there are main, short"),
    ],
)
def test_what_no_partition_gives_stops_a_run(request_: JobRequest, line: str) -> None:
    either = JobRequest(request_.rule, 1, 120, 5000, request_.gpus, "short,main")
    slurm_site.check([request_, JobRequest("sources", 1, 60, 1000)], 100, report := Report())
    slurm_site.check([either], 100, report)
    (error,) = report.errors
    assert line in error


@pytest.mark.usefixtures("_two_partitions")
def test_a_quality_of_service_may_lift_limits() -> None:
    asked = [JobRequest("texts", 1, minutes=120, partition="short", qos="long")]
    assert slurm_site.check(asked, 100, report := Report()) == {}
    assert (len(report.warnings), report.errors) == (1, [])


@pytest.mark.parametrize(
    ("account", "jobs", "limit"),
    [(None, 100, 5), ("vision", 100, 5), ("speech", 100, 20), ("vision", 5, None), ("other", 100, None)],
)
def test_more_jobs_than_an_account_may_submit(
    account: str | None, jobs: int, limit: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {"show assoc": "vision|5\nspeech|20\nfree|\n"}
    write_commands(tmp_path, monkeypatch, {"sacctmgr": answers})
    slurm_site.check([JobRequest("videos", 1, account=account)] * 28, jobs, report := Report())
    assert [f"--jobs {limit}" in line for line in report.errors] == ([True] if limit else [])


@pytest.mark.usefixtures("_two_partitions")
def test_later_attempts_stop_at_the_limit_of_the_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [JobRequest("texts", 1, 40, 1500, partition="short"), JobRequest("videos", 1, 60, 1000)]
    limits = slurm_site.check(asked, 100, Report())
    assert limits == {("texts", "runtime"): 60, ("texts", "mem_mb"): 4000, ("videos", "mem_mb"): 6000}
    monkeypatch.setattr(resources, "LIMITS", limits)
    wildcards = SimpleNamespace()
    assert [corpus_rules.minutes(40)(wildcards, n, "texts") for n in (1, 2, 3)] == [40, 60, 60]
    assert [corpus_rules.megabytes(1500)(wildcards, n, "texts") for n in (1, 2, 3)] == [1500, 3000, 4000]
    assert [corpus_rules.minutes(40)(wildcards, n, "videos") for n in (1, 2, 3)] == [40, 80, 160]
    assert corpus_rules.megabytes(9000)(wildcards, 2, "texts") == 9000, "what was asked for at first is not lowered"


@pytest.mark.parametrize("answer", ["", "no such thing\n", "PartitionName\nMaxTime=x Default\n"])
def test_what_slurm_does_not_say_is_not_checked(answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [JobRequest("videos", 64, 10**6, 10**7, 8, "short", "vision")]
    commands = {"scontrol": {"show": answer}, "sacctmgr": {"show": answer}} if answer else {}
    write_commands(tmp_path, monkeypatch, commands)
    assert slurm_site.check(asked, 100, report := Report()) == {}
    assert report == Report()
    assert slurm_site.forgets_after_s() == math.inf


def test_a_request_is_what_snakemake_asks_for() -> None:
    of_job = {"runtime": 60, "mem_mb": 1000, "slurm_partition": "a,b", "slurm_account": 7, "tmpdir": "<TBD>", "gpu": 1}
    assert JobRequest.of("videos", 2, of_job) == JobRequest("videos", 2, 60, 1000, 1, "a,b", "7")
    assert JobRequest.of("videos", 2, {"runtime": "<TBD>"}) == JobRequest("videos", 2)
