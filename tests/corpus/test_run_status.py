"""`perturb status`, which reads files that a run may be writing, and what a run prints."""

from __future__ import annotations

import json
import logging
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import clips
import preloaded
import pytest
from workflow_project import PROFILES

from perturbations.base import progress, shown
from perturbations.cli.main import main
from perturbations.corpus import run_lines, run_status
from perturbations.corpus.plan import clip_lists, recipe, tiers
from perturbations.corpus.store import journal
from perturbations.manifest import files, manifest_paths
from perturbations.manifest.rows import SOURCES, TEXTS, VIDEOS, CaptionRow, SourceRow, VideoRow
from perturbations.suites import suite_registry

MEASURED = {"frame_count": 4, "stored_frames": 4, "bytes": 1000, "sha256": "ab"}
SHARDS = {"s1": ["s10", "s11", "s12"], "s2": ["s20", "s21", "s22"]}
CAPTION = CaptionRow(dataset="d", caption_id="s10#0", item_id="s10", text="a dog")


def video(item_id: str, name: str = "fog", severity: int = 1, **changed: Any) -> VideoRow:
    wanted = recipe.make(suite_registry.get(f"mlvp/{name}"), severity, seed=0, storage=tiers.UNSTORED)
    return clips.video_row(wanted, **{"dataset": "d", "item_id": item_id, "bytes": 1000, **changed})


def broken(reason: str) -> dict[str, Any]:
    return {"status": "quarantined", "stage": "video", "error": reason, "path": None}


def place(root: Path, kind: str, /, **fields: object) -> Path:
    """Where a run in a folder has a file, whose folder is made."""
    path = root / manifest_paths.at(kind, **{"dataset": "d", "suite": "mlvp", "perturbation": "fog", **fields})
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def part(root: Path, severity: int, shard: str) -> Path:
    return place(root, "video_part", severity=severity, shard=shard)


def write_part(root: Path, severity: int, shard: str, **first: Any) -> None:
    """The part of a shard; `first` are columns of its first row."""
    rows = [video(item, severity=severity) for item in SHARDS[shard]]
    files.write_part(part(root, severity, shard), VIDEOS, [replace(rows[0], **first), *rows[1:]])


def write_journal(root: Path, severity: int, shard: str, items: int) -> Path:
    path = manifest_paths.journal_of(part(root, severity, shard))
    names = [f"{number:032x}" for number in range(items)]
    record = journal.ShardJournal(path, names)
    for name in names:
        record.add(name, MEASURED)
    return path


def write_log(root: Path, written: Path, *lines: str) -> None:
    """The log of a job that makes a part."""
    path = place(root, "log", job=written.relative_to(root / manifest_paths.WORK).with_suffix("").as_posix())
    path.write_text("".join(f"{line}\n" for line in lines))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A run: 2 shards of 3 clips; one perturbation is done but for a clip, one is being made, one not begun."""
    clip = clip_lists.ListedClip(item_id="", source_video_id="v", path="v.mp4")
    for shard, items in SHARDS.items():
        clip_lists.write(place(tmp_path, "shard_list", shard=shard), [replace(clip, item_id=item) for item in items])
        rows = [clips.made_up_source(item) for item in items]
        files.write_part(place(tmp_path, "source_part", shard=shard), SOURCES, rows)
        write_part(tmp_path, 1, shard, **(broken("no frame 7 of 's10'") if shard == "s1" else {}))
        write_journal(tmp_path, 1, shard, 2 if shard == "s1" else 3)
    rejected = SourceRow(dataset="d", item_id="x", split="", error="no video file", status="missing")
    clip_lists.write(place(tmp_path, "rejected"), [rejected])
    clip_lists.write_texts(place(tmp_path, "video_recipes"), {f"fog/{severity}": "{}" for severity in (1, 2, 3)})
    record = write_journal(tmp_path, 2, "s1", 1)
    whole = record.read_bytes()
    record.write_bytes(2 * whole + whole[:60])
    return tmp_path


def stage(collected: dict[str, Any], name: str) -> dict[str, Any]:
    (only,) = (stage for stage in collected["stages"] if stage["stage"] == name)
    return only


def counts(stage: dict[str, Any]) -> tuple[int, ...]:
    return tuple(stage[name] for name in ("done", "failed", "total"))


def test_clips_done_failed_and_left(root: Path) -> None:
    collected = run_status.collect(root)
    sources, videos = stage(collected, "sources"), stage(collected, "videos")
    assert counts(sources) == (6, 1, 7)
    assert counts(videos) == (5 + 1, 1, 18)
    lines = run_status.text(collected).splitlines()
    assert [line.split() for line in lines[:3]] == [
        ["dataset", "stage", "done", "of", "failed"],
        ["d", "sources", "6", "7", "85", "%", "1"],
        ["d", "mlvp", "videos", "6", "18", "33", "%", "1"],
    ]


def test_failures_are_grouped_by_reason(root: Path) -> None:
    place = {"dataset": "d", "suite": None, "stage": "annotation"}
    assert run_status.collect(root)["failures"] == [
        {**place, "reason": "no frame 7 of 's10'", "suite": "mlvp", "stage": "video", "count": 1, "items": ["s10"]},
        {**place, "reason": "no video file", "count": 1, "items": ["x"]},
    ]
    rows = [video(item, **broken(f"no frame {item[-1]} of '{item}'")) for item in SHARDS["s2"]]
    files.write_part(part(root, 1, "s2"), VIDEOS, rows)
    assert [failure["count"] for failure in run_status.collect(root)["failures"]] == [4, 1]


def test_a_dataset_of_any_name_is_counted_and_nothing_written(root: Path) -> None:
    def everything() -> dict[Path, tuple[int, int]]:
        return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in root.rglob("*")}

    (root / "work" / "d").rename(root / "work" / "models")  # any name is a dataset's
    before = everything()
    assert {each["dataset"] for each in run_status.collect(root)["stages"]} == {"models"}
    run_status.text(run_status.collect(root))
    assert everything() == before


def test_damaged_missing_and_foreign_files(root: Path) -> None:
    part(root, 1, "s1").write_bytes(b"PAR1 no manifest PAR1")
    part(root, 1, "s2").write_bytes(b"")
    manifest_paths.journal_of(part(root, 1, "s2")).write_bytes(os.urandom(999))
    (part(root, 1, "s1").parent / "notes.txt").write_text("mine")
    part(root, 2, "s9").mkdir()
    (root / "work" / "my files").mkdir()
    collected = run_status.collect(root)
    videos = stage(collected, "videos")
    assert (videos["done"], videos["total"]) == (1, 18)  # the one of a journal
    damaged = {each["items"][0]: each["reason"] for each in collected["failures"] if each["stage"] == "videos"}
    assert damaged.keys() == {str(part(root, 1, shard)) for shard in SHARDS}
    assert all("delete it" in reason for reason in damaged.values())


def test_parts_of_captions(root: Path) -> None:
    for shard in ("s1", "s2", "s3"):
        clip_lists.write(place(root, "caption_list", shard=shard), [CAPTION])
    clip_lists.write_texts(place(root, "text_recipes", suite="msrvtt_p"), {"typos/1": "{}", "typos/2": "{}"})
    fields = {"suite": "msrvtt_p", "perturbation": "typos", "severity": 1, "shard": "s2"}
    files.write_part(place(root, "text_part", **fields), TEXTS, [])
    captions = stage(run_status.collect(root), "captions")
    assert (captions["suite"], captions["done"], captions["total"]) == ("msrvtt_p", 1, 6)


def test_captions_without_videos_and_what_of_them_cannot_be_used_is_counted_once(tmp_path: Path) -> None:
    for dataset in ("d", "e/composed"):
        clip_lists.write(place(tmp_path, "caption_list", dataset=dataset, shard="s0"), [CAPTION])
        clip_lists.write_texts(place(tmp_path, "text_recipes", dataset=dataset), {"typos/1": "{}"})
    clip_lists.write_texts(place(tmp_path, "text_recipes", suite="msrvtt_p"), {"typos/1": "{}"})
    rejected = SourceRow(dataset="d", item_id="t1", split="", error="the caption is empty", status="quarantined")
    clip_lists.write(place(tmp_path, "rejected_captions"), [rejected, replace(rejected, item_id="t2")])
    collected = run_status.collect(tmp_path)
    assert {tuple(each[name] for name in ("dataset", "stage", "done", "total")) for each in collected["stages"]} == {
        ("d", "captions", 0, 1),
        ("e/composed", "captions", 0, 1),
    }
    (failure,) = collected["failures"]
    assert (failure["dataset"], failure["stage"], failure["items"]) == ("d", "captions", ["t1", "t2"])


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (
            ["12:00:00 50% 1/2", "perturb: cannot write \x1b[31m x: no space"],
            "cannot write",
        ),
        (["perturb: the worker died:", "  more of it"], "the worker died:"),
        (["Traceback (most recent call last):", '  File "x.py", line 1, in f', "ValueError: no"], "ValueError: no"),
        (["12:00:00 100% 2/2 [00:02<00:00, 1.00 clips/s]"], None),
        (["a warning of a library: Error in nothing"], None),
        ([], None),
    ],
)
def test_a_failed_job_is_listed_by_the_error_in_its_log(lines: list[str], reason: str | None, root: Path) -> None:
    write_log(root, part(root, 3, "s2"), *lines)
    jobs = run_status.collect(root)["failed_jobs"]
    assert [job["log"] for job in jobs] == (["work/logs/d/mlvp/fog/3/s2.log"] if reason else [])
    assert all(job["reason"].startswith(reason or "") for job in jobs)
    assert "\x1b" not in run_status.text(run_status.collect(root))


def test_json_is_a_document(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(root.parent)
    assert main(["status", "--json", "--directory", root.name]) == 0
    document = json.loads(capsys.readouterr().out)
    assert set(document) == {"version", "stages", "failures", "failed_jobs"}
    assert {stage["stage"]: stage["done"] for stage in document["stages"]} == {"sources": 6, "videos": 6}


def test_what_failed_is_listed_by_reason_and_nothing_otherwise(
    root: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = run_status.failures(run_status.collect(root)).splitlines()
    assert lines[0] == "2 quarantined or missing, by reason; `perturb retry` lets the next run try them again:"
    assert "  1 x d annotation: no video file ('x')" in lines
    monkeypatch.chdir(tmp_path_factory.mktemp("empty"))
    assert run_status.failures(run_status.collect(Path())) == ""
    assert main(["status"]) == 0
    assert "Nothing was planned here yet" in capsys.readouterr().out


# --- what a run prints -----------------------------------------------------------------------------------------------


RULES = """
from perturbations.corpus import run_lines
from snakemake.logging import logger
run_lines.add_to(logger, print)
run_lines.add_to(logger, print)
rule all:
    input: expand("a{n}.txt", n=range(20))
rule first:
    output: "a{n}.txt"
    log: "logs/{n}.log"
    shell: "echo 'ERROR-{wildcards.n}' > {log}; [ {wildcards.n} != BAD ] && touch {output}"
rule silent:
    output: "b.txt"
    log: "logs/b.log"
    shell: "false"
""".replace("ERROR", progress.error_line("broken"))


def printed(folder: Path, *arguments: str, rules: str = RULES) -> list[str]:
    """What a run of a small workflow prints with the project's profile, line by line."""
    (folder / "Snakefile").write_text(rules)
    profile = ("--workflow-profile", str(PROFILES / "default"))
    command = [*preloaded.command("snakemake"), *profile, "--cores", "1", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return (done.stdout + done.stderr).splitlines()


def test_a_run_and_a_dry_run_print_their_jobs_once_and_no_line_per_job(tmp_path: Path) -> None:
    for arguments in (["--dry-run"], []):
        lines = printed(tmp_path, *arguments)
        assert lines.count("21 jobs: first 20, all 1") == 1
        assert len(lines) <= 15, lines
    assert "\n".join(printed(tmp_path, "--dry-run", "--forceall", "--quiet", "host")).count("rule first:") == 20
    assert "Nothing to be done (all requested files are present and up to date)." in printed(tmp_path)


def test_a_dry_run_after_a_changed_parameter_does_not_advise_to_keep_what_it_made(tmp_path: Path) -> None:
    printed(tmp_path)
    changed = RULES.replace('    log: "logs/{n}.log"', '    params: number=1\n    log: "logs/{n}.log"')
    lines = printed(tmp_path, "--dry-run", rules=changed)
    assert lines.count("21 jobs: first 20, all 1") == 1
    assert not [line for line in lines if "provenance" in line or "metadata" in line], lines
    assert "Reasons:" in lines


def test_a_line_per_minute_says_how_far_a_run_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds = iter([0, 1, 30, 70, 70, 90])
    monkeypatch.setattr(run_lines.time, "monotonic", lambda: next(seconds))
    lines = run_lines.RunLines(print)
    lines.emit(logging.makeLogRecord({"event": "run_info", "stats": {"first": 20, "all": 1, "total": 21}}))
    for jobs in ([1, 2], [3], [4]):
        lines.emit(logging.makeLogRecord({"event": "job_started", "jobs": jobs}))
    assert capsys.readouterr().err.splitlines() == ["21 jobs: first 20, all 1", "started 3 of 21 jobs"]


def test_a_failed_job_is_one_line_that_names_its_log(tmp_path: Path) -> None:
    lines = printed(tmp_path, "aBAD.txt", "b.txt")
    assert sorted(line for line in lines if line.startswith("a job")) == [
        "a job of first failed: broken-BAD (logs/BAD.log)",
        "a job of silent failed: it was killed before it wrote a line (logs/b.log)",
    ]
    assert not any("CalledProcessError" in line or "Traceback" in line for line in lines)


SBATCH = """SLURM sbatch failed. The error message was 'sbatch: error: invalid partition specified: x
sbatch: error: Batch job submission failed: Invalid partition name specified'.
    sbatch call:
        sbatch --parsable"""


@pytest.mark.parametrize(
    ("log", "message", "reason"),
    [
        ("50% 1/2\nperturb: no space left\nmore", "SLURM-job '7' failed, SLURM status is: 'FAILED'.", "no space left"),
        ("bash: perturb: command not found\n", "", "bash: perturb: command not found"),
        ("", SBATCH, "Invalid partition name specified'."),
    ],
)
def test_the_reason_of_a_job_on_a_cluster_is_its_error_or_what_slurm_says(
    log: str, message: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.log").write_text(log)
    job = {"rule_name": "videos", "log": [str(tmp_path / "a.log")], "rule_msg": message}
    run_lines.RunLines(print).emit(logging.makeLogRecord({"event": "job_error", **job}))
    line = capsys.readouterr().err
    assert line.startswith("a job of videos failed: ")
    assert line.endswith(f"{reason} ({tmp_path}/a.log)\n")
    assert line.count("\n") == 1


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(3, "3 s"), (600, "10 min"), (12_000, "3 h 20 min"), (7200, "2 h"), (190_800, "2 days 5 h")],
)
def test_times_in_words(seconds: float, expected: str) -> None:
    assert shown.duration(seconds) == expected
