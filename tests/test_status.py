"""`perturb status`: how far a run is, from files that a run may be writing."""

from __future__ import annotations

import io
import json
import logging
import os
import platform
import time
from pathlib import Path
from typing import Any

import clips
import pytest

from perturbations.base import console, processes
from perturbations.cli.main import main
from perturbations.config import sections as config
from perturbations.evaluation import paths as evaluation_paths
from perturbations.manifest import files
from perturbations.manifest.kinds import QUARANTINE, SOURCES, VIDEOS, QuarantineRow, VideoRow
from perturbations.plan import listed, recipe, workplace
from perturbations.status import run_files as status_files
from perturbations.status import status
from perturbations.status import text as status_text
from perturbations.suites import registry

MEASURED = '{"frame_count":4,"stored_frames":4,"bytes":1000,"sha256":"ab"}\n'


def recipe_id(number: int) -> str:
    return f"{number:032x}"


def video(item_id: str, name: str = "fog", severity: int = 1, **changed: Any) -> VideoRow:
    wanted = recipe.make(registry.get(f"mlvp/{name}"), severity, seed=0, storage=recipe.Unstored())
    return clips.video_row(wanted, **{"dataset": "d", "item_id": item_id, "bytes": 1000, **changed})


def put(root: Path, path: str, text: str = "") -> Path:
    """Write a file below a folder."""
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)
    return root / path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A run: 2 shards of 3 clips; one perturbation is done but for a clip, one is being made, one not begun."""
    work = tmp_path / "work" / "d"
    for shard in ("s1", "s2"):
        put(work, f"shards/{shard}.jsonl", "{}\n" * 3)
        rows = [clips.made_up_source(f"{shard}{n}") for n in range(3)]
        files.write_part(work / "sources" / f"{shard}.parquet", SOURCES, rows)
        broken = {"status": "quarantined", "stage": "video", "error": "no frame 7 of 's10'", "path": None}
        videos = [video(f"{shard}{n}", **(broken if (shard, n) == ("s1", 0) else {})) for n in range(3)]
        files.write_part(work / "mlvp" / "fog" / "1" / f"{shard}.parquet", VIDEOS, videos)
        put(work, f"mlvp/fog/1/{shard}.jsonl", "".join(recipe_id(n) + MEASURED for n in range(3 - (shard == "s1"))))
        put(tmp_path, f"work/benchmarks/d/mlvp/fog/1/{shard}.tsv", "s\th:m:s\n20.0\t0:00:20\n")
    put(work, "rejected.jsonl", '{"error":"no video file","item_id":"x","missing":true,"split":""}\n')
    listed.write_recipes(work / "mlvp" / "recipes.jsonl", {f"fog/{severity}": "{}" for severity in (1, 2, 3)})
    put(work, "mlvp/fog/2/s1.jsonl", 2 * (recipe_id(1) + MEASURED) + recipe_id(2) + MEASURED[:30])
    put(work, "mlvp/fog/2/s1.lock", f"{os.getpid()} on {platform.node()}")
    return tmp_path


def running(root: Path, lines: str = "2 of 30 steps (7%) done\n") -> Path:
    """The log of a run that goes on."""
    put(root, ".snakemake/locks/0.input.lock")
    return put(root, ".snakemake/log/2001-01-01T000000.000001.snakemake.log", f"Job stats:\n{lines}")


def stage(collected: status.RunStatus, name: str) -> status.StageCounts:
    (only,) = (stage for stage in collected.stages if stage.stage == name)
    return only


def test_clips_done_failed_and_left(root: Path) -> None:
    collected = status.collect(root)
    sources, videos = stage(collected, "sources"), stage(collected, "videos")
    assert (sources.done, sources.failed, sources.total) == (6, 1, 7)
    assert (videos.done, videos.failed, videos.total, videos.bytes) == (5 + 1, 1, 18, 5000 + 1000)
    assert [(entry.name, entry.done, entry.failed) for entry in videos.scenarios] == [
        ("fog/1", 5, 1),
        ("fog/2", 1, 0),
        ("fog/3", 0, 0),
    ]
    # 40 s for 5 clips, one job; 5 clips of fog/2 and 6 of fog/3 are left.
    assert collected.jobs == 1
    assert videos.per_minute == pytest.approx(60 / 8)
    assert collected.seconds_left == pytest.approx(11 * 8)


@pytest.mark.parametrize("cell", ["nan", "inf", "-1", "x", ""])
def test_a_benchmark_without_a_time_is_not_counted(root: Path, cell: str) -> None:
    for path in (root / "work/benchmarks").rglob("*.tsv"):
        path.write_text(f"s\th:m:s\n{cell}\t0:00:20\n")
    collected = status.collect(root)
    assert collected.seconds_left is None
    assert stage(collected, "videos").per_minute is None


@pytest.mark.parametrize(
    ("text", "jobs"),
    [
        (f"{2**22 + 1} on {platform.node()}", 0),
        ("17 on another-node", 1),
        (processes.identity(), 1),
        (processes.identity().replace(" on ", "1 on "), 0),  # began at another time
    ],
    ids=["no such process", "of another node", "this process", "a process that began at another time"],
)
def test_a_dead_process_holds_nothing(root: Path, text: str, jobs: int) -> None:
    put(root, "work/d/mlvp/fog/2/s1.lock", text)
    collected = status.collect(root)
    assert collected.jobs == jobs
    assert (collected.seconds_left is None) == (jobs == 0)


def test_failures_are_grouped_by_reason(root: Path) -> None:
    assert {
        (each.dataset, each.stage, each.reason, each.count, each.items) for each in status.collect(root).failures
    } == {
        ("d", "annotation", "no video file", 1, ("x",)),
        ("d", "video", "no frame 7 of 's10'", 1, ("s10",)),
    }
    rows = [video(f"s2{n}", status="quarantined", stage="video", error=f"no frame {n} of 's2{n}'") for n in range(3)]
    files.write_part(root / "work/d/mlvp/fog/1/s2.parquet", VIDEOS, rows)
    assert [failure.count for failure in status.collect(root).failures] == [4, 1]


def test_nothing_is_written(root: Path) -> None:
    def everything() -> dict[Path, tuple[int, int]]:
        return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in root.rglob("*")}

    before = everything()
    status_text.text(status.collect(root))
    assert everything() == before


def test_a_run_whose_process_is_dead_was_killed(root: Path) -> None:
    running(root)
    before = status_text.text(status.collect(root))
    assert before.startswith("Running, 2 of 30 steps")
    workplace.note_run(root)
    assert status_text.text(status.collect(root)) == before
    note = root / workplace.RUN
    own = note.read_text()
    note.write_text(own.partition(" on ")[0] + " on another-node")
    assert status_text.text(status.collect(root)) == before
    note.write_text(own.replace(" on ", "1 on "))  # the process of this id began at another time
    killed = status.collect(root)
    assert status_text.text(killed).startswith(
        "The last run was killed, 2 of 30 steps: `snakemake --unlock`, and start it again.\n"
    )
    assert killed.run is not None
    assert (killed.run.running, killed.run.killed) == (False, True)
    os.utime(note, (0, 0))  # of an earlier run: this one was started with --no-hooks
    assert status_text.text(status.collect(root)) == before


def test_damaged_missing_and_foreign_files(root: Path) -> None:
    fog = root / "work/d/mlvp/fog"
    (fog / "1" / "s1.parquet").write_bytes(b"PAR1 no manifest PAR1")
    (fog / "1" / "s2.parquet").write_bytes(b"")
    (fog / "1" / "s2.jsonl").write_bytes(os.urandom(999))
    (fog / "2" / "s1.lock").write_bytes(b"\xff\xfe what")
    (fog / "notes.txt").write_text("mine")
    (fog / "2" / "s9.parquet").mkdir()
    (root / "work" / "d" / "rejected.jsonl").write_text("[")
    (root / "work" / "my files").mkdir()
    (root / "work" / "d" / "mlvp" / "recipes.jsonl").open("a").write('["../../x/1","{}"]\n[1]\nnull\n3\n{')
    collected = status.collect(root)
    assert stage(collected, "videos").done == 2 + 0 + 1  # the journals'
    assert stage(collected, "videos").total == 18
    assert stage(collected, "sources").failed == 1


def test_only_manifests_are_left(tmp_path: Path) -> None:
    folder = tmp_path / "manifests" / "d"
    broken: dict[str, Any] = {"status": "quarantined", "stage": "video", "error": "no frames"}
    files.write(folder / "sources.parquet", SOURCES, [clips.made_up_source("a"), clips.made_up_source("b")])
    files.write(folder / "mlvp" / "videos.parquet", VIDEOS, [video("a"), video("b", **broken, bytes=None)])
    row = QuarantineRow(dataset="d", item_id="b", **broken)
    files.write(folder / "mlvp" / "quarantine.parquet", QUARANTINE, [row])
    collected = status.collect(tmp_path)
    videos = stage(collected, "videos")
    assert (videos.done, videos.failed, videos.total, videos.bytes) == (1, 1, 2, 1000)
    assert collected.failures == (status.Failure("d", "mlvp", "video", "no frames", 1, ("b",)),)


def test_many_finished_parts_are_counted_in_their_manifest(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for severity in (2, 3):
        folder = root / "work/d/mlvp/fog" / str(severity)
        for shard in ("s1", "s2"):
            rows = [video(f"{shard}{n}", severity=severity) for n in range(3)]
            files.write_part(folder / f"{shard}.parquet", VIDEOS, rows)
    rows = [video(f"s{shard}{n}", severity=severity) for shard in (1, 2) for n in range(3) for severity in (1, 2, 3)]
    manifest = root / "manifests" / "d" / "mlvp" / "videos.parquet"
    files.write(manifest, VIDEOS, rows)
    monkeypatch.setattr(status, "_MOST_PARTS", 1)
    assert stage(status.collect(root), "videos").done == 18
    os.utime(manifest, (0, 0))  # a part is newer
    assert stage(status.collect(root), "videos").done == 17


def test_parts_of_captions_and_evaluations(root: Path) -> None:
    work = root / "work" / "d"
    for shard in ("s1", "s2", "s3"):
        put(work, f"captions/{shard}.jsonl", "{}\n")
    listed.write_recipes(work / "msrvtt_p" / "captions" / "recipes.jsonl", {"typos/1": "{}", "typos/2": "{}"})
    put(work, "msrvtt_p/captions/typos/1/s2.parquet")
    parts = [f"work/d/evaluation/key/v2t/clean/clean/{name}.parquet" for name in ("none", "adapted")]
    listed.write_parts(work / "evaluation" / "key" / "adaptation.parts", [*parts, "/etc/passwd"])
    put(root, parts[0])
    collected = status.collect(root)
    captions, adaptation = stage(collected, "captions"), stage(collected, "adaptation")
    assert (captions.suite, captions.done, captions.total, captions.unit) == ("msrvtt_p", 1, 6, "parts")
    assert (adaptation.suite, adaptation.done, adaptation.total) == ("key", 1, 2)


def test_captions_that_cannot_be_used_are_counted_once(root: Path) -> None:
    work = root / "work" / "d"
    put(work, "captions/s1.jsonl", "{}\n")
    rejected = [
        {"item_id": name, "split": "", "error": "the caption is empty", "missing": False} for name in ("t1", "t2")
    ]
    put(work, "rejected_captions.jsonl", "".join(json.dumps(line) + "\n" for line in rejected))
    before = status.collect(root).failures
    for suite in ("mm_robustness", "msrvtt_p"):
        listed.write_recipes(work / suite / "captions" / "recipes.jsonl", {"typos/1": "{}"})
    (failure,) = set(status.collect(root).failures) - set(before)
    assert (failure.dataset, failure.stage, failure.items) == ("d", "captions", ("t1", "t2"))


def test_the_time_left_for_parts_is_that_of_finished_ones(root: Path) -> None:
    running(root)
    captions = "d/msrvtt_p/captions"
    listed.write_recipes(root / "work" / captions / "recipes.jsonl", {"typos/1": "{}", "typos/2": "{}"})
    for number in range(4):
        put(root, f"work/d/captions/s{number}.jsonl", "{}\n")
        put(root, f"work/logs/{captions}/typos/1/s{number}.log")  # all four were begun, and two have ended
    for number in (0, 1):
        put(root, f"work/{captions}/typos/1/s{number}.parquet")
        put(root, f"work/benchmarks/{captions}/typos/1/s{number}.tsv", f"s\th:m:s\n{20 + 20 * number}.0\t0:00:30\n")
    collected = status.collect(root)
    parts = stage(collected, "captions")
    assert (parts.done, parts.total, parts.jobs) == (2, 8, 2)
    jobs = sum(each.jobs for each in collected.stages)
    assert parts.seconds_left == pytest.approx(6 * 30 / jobs, abs=0.1)
    assert parts.per_minute == 4  # two jobs of half a minute
    assert collected.jobs == jobs - 2, "jobs on clips are counted alone"
    (root / ".snakemake/locks/0.input.lock").unlink()
    assert stage(status.collect(root), "captions").jobs == 0


def test_clips_and_captions_of_an_evaluation_are_counted_without_a_plan(root: Path) -> None:
    before = stage(status.collect(root), "videos")
    (root / "work/d/mlvp/recipes.jsonl").unlink()
    put(root, "work/d/captions/s1.jsonl", "{}\n")
    put(root, "work/d/mm_robustness/captions/ocr/5/s1.parquet")
    collected = status.collect(root)
    begun, captions = stage(collected, "videos"), stage(collected, "captions")
    assert (begun.done, begun.failed, begun.total) == (before.done, before.failed, None)
    assert (captions.done, captions.total) == (1, None)


def test_a_damaged_part_is_named(root: Path) -> None:
    (root / "work/d/mlvp/fog/1/s2.parquet").write_bytes(b"garbage")
    (failure,) = (each for each in status.collect(root).failures if "damaged" in each.reason)
    assert failure.items == ("work/d/mlvp/fog/1/s2.parquet",)
    assert "delete it" in failure.reason


def test_datasets_that_the_configuration_does_not_name_are_told(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(root)
    for text, told in (("datasets: {e: {}}", True), ("datasets: {d: {}}", False), ("a: [", False), ("[1]", False)):
        Path("config.yaml").write_text(text)
        assert main(["status"]) == 0
        assert ("\nnot in config.yaml: d: renamed" in capsys.readouterr().out) == told


def test_planning_lists_the_parts_of_an_evaluation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    parsed = config.parse({"datasets": {"d": {"adapter": "demo"}}, "suites": {"mlvp": {}}})
    parts = evaluation_paths.planned_parts(parsed, "d", "adaptation")
    assert parts == evaluation_paths.result_parts(parsed, "d", "adaptation")
    for part in parts[:2]:
        put(tmp_path, part)
    adaptation = stage(status.collect(tmp_path), "adaptation")
    assert (adaptation.done, adaptation.total) == (2, len(parts))


def test_what_snakemake_says(root: Path) -> None:
    lines = "1 of 30 steps (3%) done\n[Sun]\nError in rule videos:\n    jobid: 7\n\n2 of 30 steps (7%) done\n3 of 3"
    log = running(root, lines)
    (root / ".snakemake" / "locks" / "0.input.lock").unlink()
    assert status_text.text(status.collect(root)).startswith("The last run has ended, 2 of 30 steps, 1 failed job.\n")
    put(root, ".snakemake/locks/0.input.lock")
    os.utime(log, (time.time(), time.time()))
    first, *_ = status_text.text(status.collect(root)).splitlines()
    assert first == "Running, 2 of 30 steps, 1 failed job, 1 job on clips, about 88 s left for clips."


def test_failed_jobs_are_listed_until_another_try_has_done_them(root: Path) -> None:
    log = "work/logs/d/mlvp/fog/3/s2.log"
    put(root, log, "11:20:58 a line\nperturb: cannot write \x1b[31m x: no space\n")
    of_job = f"    jobid: 1\n    output: OUT\n    log: {log} (check log file(s) for error details)\n"
    done, missing = ("work/d/mlvp/fog/1/s2.parquet", "work/d/mlvp/fog/3/s2.parquet")
    outputs = (done, missing, missing)
    running(root, "".join(f"Error in rule videos:\n{of_job.replace('OUT', output)}\n" for output in outputs))
    collected = status.collect(root)
    assert collected.run is not None
    (job,) = collected.run.failed
    assert (job.rule, job.log) == ("videos", log)
    assert r"  videos: cannot write \x1b[31m x: no space" in status_text.text(collected)


def test_sources_are_counted_in_the_logs_of_their_jobs(root: Path) -> None:
    (root / "work/d/sources/s2.parquet").unlink()
    put(root, "work/logs/d/sources/s2.log", "11:20:58  67% 2/3 [01:00<00:30,  0.03 clips/s]\n")
    assert stage(status.collect(root), "sources").done == 3
    running(root, "").with_name("2001-01-02T000000.000001.snakemake.log").write_text("a report was written")
    sources = stage(status.collect(root), "sources")
    assert (sources.done, sources.jobs, sources.per_minute) == (5, 1, 2.0)


def test_json_is_a_document(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(root)
    assert main(["status", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["version"] == 1
    assert set(document) == {"version", "run", "stages", "failures", "jobs", "seconds_left"}
    assert {stage["stage"]: stage["done"] for stage in document["stages"]} == {"sources": 6, "videos": 6}


def test_a_part_says_its_statuses_in_its_last_bytes(tmp_path: Path) -> None:
    path = tmp_path / "s1.parquet"
    statuses = {"a": "complete", "b": "complete", "c": "quarantined"}
    files.write_part(path, SOURCES, [clips.made_up_source(name, status=status) for name, status in statuses.items()])
    assert status_files.statuses(str(path)) == {"complete": 2, "quarantined": 1}
    path.write_bytes(path.read_bytes()[:-1])
    assert status_files.statuses(str(path)) is None


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(3, "3 s"), (600, "10 min"), (12_000, "3 h 20 min"), (7200, "2 h"), (190_800, "2 days 5 h")],
)
def test_times_in_words(seconds: float, expected: str) -> None:
    assert console.duration(seconds) == expected


def test_a_run_s_end_lists_what_failed_and_nothing_otherwise(
    root: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(root)
    assert main(["status", "--failures"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "2 quarantined or missing, by reason; `perturb retry` lets the next run try them again:"
    assert "  1 x d annotation: no video file ('x')" in lines
    monkeypatch.chdir(tmp_path_factory.mktemp("empty"))
    assert main(["status", "--failures"]) == 0
    assert capsys.readouterr().out == ""
    assert main(["status"]) == 0
    assert "Nothing was planned here yet" in capsys.readouterr().out


def test_a_dry_run_leaves_out_single_jobs_and_the_second_table() -> None:
    stream = io.StringIO()
    logger = logging.Logger("of this test")
    logger.addHandler(logging.StreamHandler(stream))
    console.summarize(logger)
    for message, event in [("host", "workflow_started"), ("table", "run_info"), ("job", "job_info")]:
        logger.warning(message, extra={"event": event})
    logger.warning("table", extra={"event": "run_info"})
    logger.warning("the end")
    assert stream.getvalue() == "table\nthe end\n"
