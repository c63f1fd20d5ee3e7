"""What a run says of its jobs in Slurm, by what `squeue` and Slurm's logs say (recorded from Slurm 22.05)."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from slurm_answers import write_commands

from perturbations.base import progress
from perturbations.corpus import run_lines, run_status, slurm_jobs
from perturbations.corpus.slurm_jobs import Watch


class Run:
    """A run with two jobs, 7 of texts and 8 of videos, and a `squeue` that prints what it is told."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(folder)
        self._folder, self._monkeypatch = folder, monkeypatch
        self.printed: list[str] = []
        self.stopped: list[str] = []
        self.watch = Watch("perturb_x", self.printed.append, self.stopped.append)
        self.watch.submitted("7", "texts", ["work/logs/d/texts.log"])
        self.watch.submitted("8", "videos", ["work/logs/d/videos.log"])

    def look(self, *rows: str, times: int = 1) -> None:
        """Look once or more, while `squeue` prints these rows."""
        answers = {"squeue": {"--name perturb_x": "".join(f"{row}\n" for row in rows)}, "scancel": {"": ""}}
        self._calls = write_commands(self._folder / "bin", self._monkeypatch, answers)
        for _ in range(times):
            self.watch.look()

    def cancelled(self) -> list[str]:
        return [line for line in self._calls.read_text().splitlines() if line.startswith("scancel")]

    def failed(self) -> list[str]:
        """The reasons of `perturb status`."""
        return [job["reason"] for job in run_status.collect(Path())["failed_jobs"]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(tmp_path, monkeypatch)


RUNNING = "8|RUNNING|main|1:00:00|1000M|1|None"


@pytest.mark.parametrize(
    ("reason", "key"),
    [
        ("PartitionTimeLimit", "texts:runtime="),
        ("QOSMaxWallDurationPerJobLimit", "texts:runtime="),
        ("AssocMaxWallDurationPerJobLimit", "texts:runtime="),
        ("PartitionConfig", "texts:mem_mb="),
        ("BadConstraints", "texts:mem_mb="),
        ("QOSMaxCpuPerJobLimit", "--set-threads texts="),
        ("QOSMaxMemoryPerJob", "texts:mem_mb="),
        ("AssocMaxNodePerJobLimit", "slurm_partition"),
        ("InvalidAccount", "slurm_account"),
    ],
)
def test_a_job_that_can_never_start_is_cancelled_with_its_reason(reason: str, key: str, run: Run) -> None:
    waiting = f"7|PENDING|short|2:00:00|3000M|1|{reason}"
    run.look(RUNNING, waiting)
    assert run.printed == [], "it may have come to the queue just now"
    run.look(RUNNING, waiting, times=3)
    (line,) = run.printed
    asks = f"cannot start, {reason}: a job asks for a time of 2:00:00, 3000M and 1 CPUs of partition short: "
    assert line.startswith(f"1 job of texts in Slurm: {asks}")
    assert key in line
    assert run.cancelled() == ["scancel 7"]
    (failed,) = run.failed()
    assert failed.startswith(f"in Slurm, 7: {asks}")


@pytest.mark.parametrize("reason", ["JobHeldUser", "JobHeldAdmin", "launch failed requeued held", "JobHoldMaxRequeue"])
def test_a_held_job_is_said_and_left_to_who_held_it(reason: str, run: Run) -> None:
    run.look(RUNNING, f"7|PENDING|main|2:00:00|3000M|1|{reason}", times=3)
    (line,) = run.printed
    assert line.startswith(f"1 job of texts in Slurm: held, {reason}: scontrol release, or scancel, ")
    assert run.cancelled() == []
    assert len(run.failed()) == 1


@pytest.mark.parametrize(
    "reason", ["AssocMaxJobsLimit", "QOSMaxJobsPerUserLimit", "PartitionDown", "ReqNodeNotAvail, UnavailableNodes:n1"]
)
def test_what_waits_for_a_limit_is_said_where_no_job_runs(reason: str, run: Run) -> None:
    waiting = f"7|PENDING|main|2:00:00|3000M|1|{reason}"
    run.look(RUNNING, waiting, times=3)
    assert run.printed == [], "it waits for jobs of this run"
    run.look(waiting, times=3)
    (line,) = run.printed
    assert line.startswith(f"1 job of texts in Slurm: wait, {reason}, and no job of this run is running: ")
    assert run.cancelled() == []


def test_ordinary_waiting_is_said_once_in_ten_minutes(run: Run) -> None:
    rows = ("7|PENDING|main|2:00:00|3000M|1|Priority", "8|PENDING|main|2:00:00|3000M|1|Resources")
    run.look(*rows, times=41)
    assert run.printed == ["2 jobs in Slurm's queue, and none runs: Priority, Resources"] * 2
    assert run.failed() == []


def test_jobs_of_the_same_rule_and_reason_are_one_line(run: Run) -> None:
    run.watch.submitted("8", "texts", [])
    run.look(*(f"{number}|PENDING|short|2:00:00|1M|1|PartitionTimeLimit" for number in (7, 8)), times=2)
    assert [line.split(":")[0] for line in run.printed] == ["2 jobs of texts in Slurm"]
    assert run.cancelled() == ["scancel 7 8"]


def test_a_group_of_jobs_has_no_rule_to_name(run: Run) -> None:
    run.look("9|PENDING|main|2:00:00|1M|64|PartitionConfig", times=2)
    (line,) = run.printed
    assert line.startswith("1 job of a group in Slurm: cannot start, PartitionConfig: ")
    assert "--set-resources RULE:mem_mb=MB" in line


def test_a_squeue_that_fails_is_said_once(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("squeue", "other"):
        write_commands(tmp_path / "none", monkeypatch, {name: {"nothing": ""}})
        for _ in range(4):
            run.watch.look()
        (tmp_path / "none" / name).unlink()
        assert len(run.printed) == 1
        assert "Slurm does not answer, and the run waits until it does: " in run.printed[0]


@pytest.mark.parametrize("rows", [[], ["7|CANCELLED|main|1:00:00|1M|1|None", "8|COMPLETED|main|1:00:00|1M|1|None"]])
def test_a_run_ends_whose_jobs_have_all_ended_unseen(
    rows: list[str], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psutil, "Process", lambda: SimpleNamespace(children=list))
    run.look(*rows, times=30)
    assert run.stopped == [], "it has not begun"
    run.watch.begin()
    run.look(*rows, times=12)
    assert run.stopped == [], "the plugin may see it"
    run.look(RUNNING)
    run.look(*rows, times=13)
    (error,) = run.stopped
    assert ("7 CANCELLED, 8 COMPLETED" if rows else "7 forgotten, 8 forgotten") in error
    local = SimpleNamespace(name=lambda: "python")
    monkeypatch.setattr(psutil, "Process", lambda: SimpleNamespace(children=lambda: [local]))
    run.look(*rows, times=30)
    assert len(run.stopped) == 1, "a job on this machine works"


def test_the_plugin_looks_as_often_as_slurm_remembers_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = pytest.importorskip("snakemake_executor_plugin_slurm")
    slept: list[float] = []

    class Executor(plugin.Executor):
        def __init__(self) -> None:
            self.workflow = None
            self.next_seconds_between_status_checks = 5

        async def sleep(self) -> None:
            slept.append(self.next_seconds_between_status_checks)
            self.next_seconds_between_status_checks += 10

    monkeypatch.setattr(plugin, "Executor", Executor)
    slurm_jobs.let_plugin_look_every(30)
    executor = Executor()
    for _ in range(6):
        asyncio.run(executor.sleep())
    assert slept == [5, 15, 25, 30, 30, 30]


MEMORY = """\
slurmstepd-n2: error: StepId=5.0 exceeded memory limit (98918400 > 20971520), being killed
srun: Job step aborted: Waiting up to 7 seconds for job step to finish.
slurmstepd-n2: error: Exceeded job memory limit
srun: error: n2: task 0: Killed
"""
TIME = """\
slurmstepd: error: *** JOB 6 ON n2 CANCELLED AT 2026-11-28T23:13:41 DUE TO TIME LIMIT ***
srun: error: n2: task 0: Terminated
"""
STATE = (
    "SLURM-job '7' failed, SLURM status is: '{}'. Detailed failure reason unavailable (status command is not 'sacct')."
)
REFUSED = """SLURM sbatch failed. The error message was 'sbatch: error: AssocMaxSubmitJobLimit
sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or \
time limits)'.
    sbatch call:
        sbatch --parsable"""


@pytest.mark.parametrize(
    ("of_job", "of_slurm", "message", "reason"),
    [
        (
            "",
            MEMORY,
            STATE.format("FAILED"),
            "it took more than its memory: StepId=5.0 exceeded memory limit (98918400 >",
        ),
        ("50% 1/2\n", MEMORY, STATE.format("FAILED"), "; take more: set-resources, videos: mem_mb"),
        (
            "",
            "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.\n",
            STATE.format("FAILED"),
            "its memory: Detec",
        ),
        ("", TIME, STATE.format("TIMEOUT"), "it took longer than its time: JOB 6 ON n2 CANCELLED AT"),
        ("", TIME, STATE.format("TIMEOUT"), "; take more: set-resources, videos: runtime"),
        ("", None, STATE.format("CANCELLED"), "it was cancelled"),
        ("", "", STATE.format("OUT_OF_MEMORY"), "it took more than its memory; take more"),
        (
            "",
            "srun: fatal: Could not establish a configuration source\n",
            STATE.format("FAILED"),
            "srun: fatal: Could not",
        ),
        ("", None, REFUSED, "Slurm refuses more jobs (AssocMaxSubmitJobLimit): take fewer, --jobs N"),
    ],
)
def test_why_slurm_ended_a_job_is_in_its_line_and_in_the_status(
    of_job: str,
    of_slurm: str | None,
    message: str,
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    logs = [Path("work/logs/d/videos.log"), Path(".snakemake/slurm_logs/7.log")]
    for path, text in zip(logs, (of_job, of_slurm), strict=True):
        path.parent.mkdir(parents=True)
        if text is not None:
            path.write_text(text)
    job = {"rule_name": "videos", "log": [str(path) for path in logs], "rule_msg": message}
    run_lines.RunLines(print).emit(logging.makeLogRecord({"event": "job_error", **job}))
    assert reason in capsys.readouterr().err
    (failed,) = run_status.collect(Path())["failed_jobs"]
    assert (failed["log"], reason in failed["reason"]) == (str(logs[0]), True)


def test_a_job_s_own_error_goes_before_what_slurm_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.log").write_text(progress.error_line("broken") + "\n")
    (tmp_path / "7.log").write_text("srun: error: n2: task 0: Exited with exit code 1\n")
    logs = [str(tmp_path / "a.log"), str(tmp_path / "7.log")]
    job = {"rule_name": "videos", "log": logs, "rule_msg": STATE.format("FAILED")}
    run_lines.RunLines(print).emit(logging.makeLogRecord({"event": "job_error", **job}))
    assert capsys.readouterr().err.startswith("a job of videos failed: broken (")
    assert (tmp_path / "a.log").read_text().count("\n") == 1


def test_the_log_of_an_earlier_run_is_no_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "a.log"
    log.write_text(progress.error_line("of yesterday") + "\n")
    lines = run_lines.RunLines(print)
    job = {"jobid": 3, "rule_name": "videos", "log": [str(log)]}
    for state, reason in (("CANCELLED", "it was cancelled"), ("FAILED", "of today")):
        lines.emit(logging.makeLogRecord({"event": "job_info", **job}))
        if state == "FAILED":
            log.write_text(progress.error_line("of today") + "\n")
        lines.emit(logging.makeLogRecord({"event": "job_error", **job, "rule_msg": STATE.format(state)}))
        assert capsys.readouterr().err.startswith(f"a job of videos failed: {reason} (")


def test_a_run_follows_its_jobs_by_what_the_plugin_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Watch, "start", lambda self: watches.append(self))
    watches: list[Watch] = []
    lines = run_lines.RunLines(print)

    def say(message: str, **fields: object) -> None:
        lines.emit(logging.makeLogRecord({"msg": message, **fields}))

    say("SLURM run ID: perturb_y")
    say("", event="job_info", jobid=3, rule_name="texts", log=["work/logs/d/t.log"])
    say("Job 3 has been submitted with SLURM jobid 12 (log: /x/12.log).")
    waiting = "12|PENDING|short|2:00:00|3000M|1|PartitionTimeLimit\n"
    write_commands(tmp_path / "bin", monkeypatch, {"squeue": {"--name perturb_y": waiting}, "scancel": {"": ""}})
    for _ in range(2):
        watches[0].look()
    assert capsys.readouterr().err.startswith("1 job of texts in Slurm: cannot start, PartitionTimeLimit: ")
    assert "in Slurm, 12: cannot start" in Path("work/logs/d/t.log").read_text()


def test_what_ended_a_group_is_in_the_logs_of_its_jobs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "9.log").write_text(TIME)
    (tmp_path / "done").touch()
    jobs = [
        {"rule_name": "videos", "log": [str(tmp_path / f"{name}.log")], "output": [str(tmp_path / name)]}
        for name in ("done", "late")
    ]
    fields = {"job_error_info": jobs, "aux_logs": [str(tmp_path / "9.log")], "groupid": "g"}
    run_lines.RunLines(print).emit(logging.makeLogRecord({"event": "group_error", "msg": "Error in group g", **fields}))
    assert capsys.readouterr().err.startswith("a group of jobs failed: videos: it took longer than its time: ")
    assert [(tmp_path / f"{name}.log").exists() for name in ("done", "late")] == [False, True]
