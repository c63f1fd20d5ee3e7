"""What a run prints: the logger plugin in a real Snakemake."""

from __future__ import annotations

import logging
import subprocess
from pathlib import Path
from types import SimpleNamespace

import preloaded
import pytest
from test_workflow import new_project

from perturbations.base import progress
from perturbations.cli.terminal import LogHandler

_RULES = """
rule all:
    input: "b.txt"
rule first:
    output: "a{n}.txt"
    log: "logs/{n}.log"
    shell: "echo 'ERROR-{wildcards.n}' > {log}; [ {wildcards.n} != BAD ] && touch {output}"
rule second:
    input: expand("a{n}.txt", n=range(5))
    output: "b.txt"
    shell: "touch {output}"
rule wrong:
    input: "aBAD.txt"
""".replace("ERROR", progress.error_line("broken"))


def printed(folder: Path, *arguments: str) -> list[str]:
    """What a run of a small workflow prints, line by line."""
    (folder / "Snakefile").write_text(_RULES)
    command = [*preloaded.command("snakemake"), "--logger", "perturb", "--cores", "1", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return (done.stdout + done.stderr).splitlines()


def test_a_run_prints_a_line_per_stage_and_a_second_one_that_nothing_is_left(tmp_path: Path) -> None:
    jobs, first, second = printed(tmp_path)
    assert jobs == "7 jobs: first 5, second 1, all 1"
    assert first.startswith("first   5 of 5  ")
    assert second.startswith("second  1 of 1  ")
    assert [line for line in printed(tmp_path) if line] == [
        "Nothing to be done (all requested files are present and up to date)."
    ]
    (log, _) = sorted((tmp_path / ".snakemake/log").iterdir())
    assert "Finished jobid" in log.read_text()


def test_a_failed_job_is_one_line_that_names_its_log(tmp_path: Path) -> None:
    lines = printed(tmp_path, "wrong")
    assert [line for line in lines if "fail" in line] == ["a job of first failed: broken-BAD (logs/BAD.log)"]
    assert not any("CalledProcessError" in line or "Traceback" in line for line in lines)


def test_p_and_a_dry_run_keep_snakemakes_own_form(tmp_path: Path) -> None:
    shown = "\n".join(printed(tmp_path, "--dry-run"))
    assert "rule second:" in shown
    assert "Reasons:" in shown
    assert "check individual jobs above" not in shown
    assert "rule second:" in "\n".join(printed(tmp_path, "--printshellcmds"))


@pytest.mark.parametrize(
    ("target", "key", "message"),
    [
        ("mlvp_tyni", {}, ["no target or file 'mlvp_tyni' can be made; did you mean mlvp_tiny?"]),
        ("mlvp_tiny", {"suitse": {}}, ["config.yaml is not valid:", "did you mean 'suites'?"]),
    ],
)
def test_a_mistake_is_its_message_without_frames(
    target: str, key: dict[str, object], message: list[str], tmp_path: Path
) -> None:
    project = new_project(tmp_path)
    project.config |= key
    shown = project.snakemake(target, check=False).stderr
    assert all(text in shown for text in message), shown
    assert "File " not in shown, shown
    assert "Error" not in shown, shown


@pytest.mark.parametrize(
    ("log", "status", "reason"),
    [
        ("50% 1/2\nperturb: no space left\nmore", "OUT_OF_MEMORY", "no space left"),
        ("50% 1/2\n", "OUT_OF_MEMORY", "Slurm ended it: OUT_OF_MEMORY"),
        ("", "TIMEOUT", "Slurm ended it: TIMEOUT"),
        ("bash: perturb: command not found\n", "FAILED", "bash: perturb: command not found"),
    ],
)
def test_the_reason_of_a_job_on_a_cluster_stands_first(
    log: str, status: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.log").write_text(log)
    settings = dict.fromkeys(("dryrun", "verbose", "printshellcmds", "quiet", "debug_dag", "stdout"), False)
    handler = LogHandler(SimpleNamespace(nocolor=True, **settings), None)
    message = f"SLURM-job '7' failed, SLURM status is: '{status}'. Detailed failure reason unavailable (status command"
    job = {"rule_name": "videos", "log": [str(tmp_path / "a.log")], "rule_msg": message}
    handler.emit(logging.makeLogRecord({"event": "job_error", **job}))
    assert capsys.readouterr().err == f"a job of videos failed: {reason} ({tmp_path}/a.log)\n"
