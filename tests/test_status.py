"""`perturb status`: how far a run is, from files that a run may be writing."""

from __future__ import annotations

import io
import json
import logging
import os
import shutil
import signal
import subprocess
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import clips
import preloaded
import pytest
from snakemake.benchmark import BenchmarkRecord, write_benchmark_records
from test_workflow import new_project
from waiting import wait_for

from perturbations.base import console, locking, processes, progress, shown
from perturbations.cli.main import main
from perturbations.config import file as config_file
from perturbations.engine import journal
from perturbations.evaluation import paths as evaluation_paths
from perturbations.manifest import files, layout
from perturbations.manifest.kinds import SOURCES, TEXTS, VIDEOS, VideoRow
from perturbations.plan import clip_markers, listed, recipe, runs, tiers
from perturbations.status import status
from perturbations.status import text as status_text
from perturbations.suites import registry

MEASURED = journal.Measured(frame_count=4, stored_frames=4, bytes=1000, sha256="ab")
SHARDS = {"s1": ["s10", "s11", "s12"], "s2": ["s20", "s21", "s22"]}
CAPTION = ("s10#0", "s10", "a dog")


def video(item_id: str, name: str = "fog", severity: int = 1, **changed: Any) -> VideoRow:
    wanted = recipe.make(registry.get(f"mlvp/{name}"), severity, seed=0, storage=tiers.Unstored())
    return clips.video_row(wanted, **{"dataset": "d", "item_id": item_id, "bytes": 1000, **changed})


def broken(reason: str) -> dict[str, Any]:
    return {"status": "quarantined", "stage": "video", "error": reason, "path": None}


def place(root: Path, kind: str, /, **fields: object) -> Path:
    """Where a run in a folder has a file, whose folder is made."""
    path = root / layout.at(kind, **{"dataset": "d", "suite": "mlvp", "perturbation": "fog", **fields})
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def part(root: Path, severity: int, shard: str) -> Path:
    return place(root, "video_part", severity=severity, shard=shard)


def write_part(root: Path, severity: int, shard: str, **first: Any) -> None:
    """The part of a shard; `first` are columns of its first row."""
    rows = [video(item, severity=severity) for item in SHARDS[shard]]
    files.write_part(part(root, severity, shard), VIDEOS, [replace(rows[0], **first), *rows[1:]])


def write_journal(root: Path, severity: int, shard: str, items: int) -> Path:
    path = layout.journal_of(part(root, severity, shard))
    names = [f"{number:032x}" for number in range(items)]
    record = journal.Journal(path, journal.Measured, names)
    for name in names:
        record.add(name, MEASURED)
    return path


def file_of_job(root: Path, kind: str, written: Path) -> Path:
    return place(root, kind, job=written.relative_to(root / "work").with_suffix("").as_posix())


def write_benchmark(root: Path, written: Path, seconds: float) -> None:
    path = file_of_job(root, "benchmark", written)
    write_benchmark_records([BenchmarkRecord(running_time=seconds)], str(path), False)


def write_log(root: Path, written: Path, *, done: int = 0, seconds: float = 0, error: str = "") -> Path:
    """The log of a job that works on a file, or failed."""
    path = file_of_job(root, "log", written)
    handler = logging.FileHandler(path)
    handler.setFormatter(shown.LogFormatter("%(asctime)s %(message)s", datefmt="%H:%M:%S"))
    logger = logging.getLogger("perturbations")
    logger.addHandler(handler)
    times = iter([0, *(seconds * number / max(1, done) for number in range(1, done + 2))])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress.time, "monotonic", lambda: next(times))
        level = logger.level
        logger.setLevel(logging.INFO)  # which forgets what earlier tests had decided, unlike the attribute
        list(islice(progress.logged(range(done + 1), done + 1, "clips"), done))
    logger.setLevel(level)
    logger.removeHandler(handler)
    handler.close()
    if error:
        with path.open("a") as file:
            print(progress.error_line(error), file=file)
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A run: 2 shards of 3 clips; one perturbation is done but for a clip, one is being made, one not begun."""
    clip = listed.ListedClip(item_id="", source_video_id="v", path="v.mp4")
    for shard, items in SHARDS.items():
        listed.write(place(tmp_path, "shard_list", shard=shard), [replace(clip, item_id=item) for item in items])
        rows = [clips.made_up_source(item) for item in items]
        files.write_part(place(tmp_path, "source_part", shard=shard), SOURCES, rows)
        write_part(tmp_path, 1, shard, **(broken("no frame 7 of 's10'") if shard == "s1" else {}))
        write_journal(tmp_path, 1, shard, 2 if shard == "s1" else 3)
        write_benchmark(tmp_path, part(tmp_path, 1, shard), 20)
    rejected = listed.RejectedItem(item_id="x", split="", error="no video file", missing=True)
    listed.write(place(tmp_path, "rejected"), [rejected])
    listed.write_recipes(place(tmp_path, "video_recipes"), {f"fog/{severity}": "{}" for severity in (1, 2, 3)})
    record = write_journal(tmp_path, 2, "s1", 1)
    whole = record.read_bytes()
    record.write_bytes(2 * whole + whole[:60])
    return tmp_path


WORKFLOW = """
rule all:
    input: "finished", "work/d/mlvp/fog/3/s2.parquet"
rule other:
    output: "finished"
    shell: "touch finished"
rule videos:
    input: "finished"
    output: "work/d/mlvp/fog/3/s2.parquet"
    log: "work/logs/d/mlvp/fog/3/s2.log"
    shell: "cp error {log}; false"
"""


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What Snakemake leaves of a run in which a job has failed twice."""
    folder = tmp_path_factory.mktemp("ended")
    (folder / "Snakefile").write_text(WORKFLOW)
    write_log(folder, folder / "work/x", error="cannot write \x1b[31m x: no space").rename(folder / "error")
    command = [*preloaded.command("snakemake"), "--cores", "1", "--retries", "1", "--directory", str(folder)]
    subprocess.run([*command, "--snakefile", str(folder / "Snakefile")], capture_output=True, cwd=folder)
    return folder


@pytest.fixture
def running(root: Path, ended: Path) -> Path:
    """The same folder as `root`, in which a run goes on, whose job of the last shard works."""
    shutil.copytree(ended / ".snakemake" / "log", root / ".snakemake" / "log")
    shutil.copytree(ended / "work/logs", root / "work/logs", dirs_exist_ok=True)
    (root / ".snakemake" / "locks").mkdir()
    (root / ".snakemake/locks/0.input.lock").touch()
    write_log(root, part(root, 2, "s1"), done=1, seconds=8)
    return root


def stage(collected: status.RunStatus, name: str) -> status.StageCounts:
    (only,) = (stage for stage in collected.stages if stage.stage == name)
    return only


def first_line(root: Path) -> str:
    return status_text.text(status.collect(root)).splitlines()[0]


def test_a_killed_run_s_unfinished_shard_is_counted(tmp_path: Path) -> None:
    names = [f"c{number:02}" for number in range(24)]
    project = new_project(tmp_path, shard_size=50, suites={"mlvp": {"perturbations": ["fog"], "severities": [1]}})
    for name in names:
        shutil.copy(tmp_path / "videos/a.mp4", tmp_path / f"videos/{name}.mp4")
    project.write_captions(names)
    project.snakemake("--until", "sources", "--", "mlvp_tiny")
    (source,) = (tmp_path / "work/tiny/sources").glob("s*.parquet")
    written = tmp_path / layout.at(
        "video_part", dataset="tiny", suite="mlvp", perturbation="fog", severity=1, shard=source.stem
    )
    record = layout.journal_of(written)
    command = [*project.command(), "--cores", "1", "mlvp_tiny"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL, start_new_session=True) as run:
        wait_for(lambda: journal.count(record)[0] >= 2)
        os.killpg(run.pid, signal.SIGKILL)
    with locking.one_job(record):  # its worker is gone, too
        assert not written.exists()
    done = len(record.read_bytes().splitlines())
    stored_clips = sorted(path for path in (tmp_path / "corpora").rglob("*.mp4") if path.name[0] != ".")
    collected = status.collect(tmp_path)
    videos = stage(collected, "videos")
    assert 2 <= done == videos.done < videos.total == len(names)
    assert videos.bytes == sum(path.stat().st_size for path in stored_clips[:done])
    assert status_text.text(collected).startswith("The last run was killed")


def test_clips_done_failed_and_left(running: Path) -> None:
    collected = status.collect(running)
    sources, videos = stage(collected, "sources"), stage(collected, "videos")
    assert (sources.done, sources.failed, sources.total) == (6, 1, 7)
    assert (videos.done, videos.failed, videos.total, videos.bytes) == (5 + 1, 1, 18, 5000 + 1000)
    # 40 s for 5 clips, 8 for one, one job; 5 clips of fog/2 and 6 of fog/3 are left.
    assert collected.jobs == 1
    assert videos.per_minute == pytest.approx(60 / 8)
    assert collected.seconds_left == pytest.approx(11 * 8)
    expected = "Running, 1 of 3 steps, 1 failed job, 1 job on clips, about 88 s left for clips."
    assert first_line(running) == expected


@pytest.mark.parametrize("cell", ["nan", "inf", "-1", "x", ""])
def test_a_benchmark_without_a_time_is_not_counted(root: Path, cell: str) -> None:
    for path in (root / "work/benchmarks").rglob("*.tsv"):
        path.write_text(path.read_text().replace("20.0000\t", f"{cell}\t").replace("20\t", f"{cell}\t"))
    collected = status.collect(root)
    assert collected.seconds_left is None
    assert stage(collected, "videos").per_minute is None


def test_a_benchmark_s_columns_may_change_places(root: Path) -> None:
    path = file_of_job(root, "benchmark", part(root, 1, "s1"))
    path.write_text("".join("\t".join(reversed(line.split("\t"))) + "\n" for line in path.read_text().splitlines()))
    assert runs.benchmark_seconds(path) == 20


def test_failures_are_grouped_by_reason(root: Path) -> None:
    failures = {
        (each.dataset, each.stage, each.reason, each.count, each.items) for each in status.collect(root).failures
    }
    assert failures == {
        ("d", "annotation", "no video file", 1, ("x",)),
        ("d", "video", "no frame 7 of 's10'", 1, ("s10",)),
    }
    rows = [video(item, **broken(f"no frame {item[-1]} of '{item}'")) for item in SHARDS["s2"]]
    files.write_part(part(root, 1, "s2"), VIDEOS, rows)
    assert [failure.count for failure in status.collect(root).failures] == [4, 1]


def test_nothing_is_written(running: Path) -> None:
    def everything() -> dict[Path, tuple[int, int]]:
        return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in running.rglob("*")}

    before = everything()
    status_text.text(status.collect(running))
    assert everything() == before


def test_a_run_whose_process_is_dead_was_killed(running: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = first_line(running)
    assert before.startswith("Running, 1 of 3 steps")
    runs.note(running)
    assert first_line(running) == before
    with monkeypatch.context() as patch:
        patch.setattr(processes.platform, "node", lambda: "another-node")
        runs.note(running)
    assert first_line(running) == before
    with monkeypatch.context() as patch:
        patch.setattr(processes, "_start", lambda process: "1")  # the process of this id began at another time
        runs.note(running)
    killed = status.collect(running)
    sentence = "The last run was killed, 1 of 3 steps, 1 failed job: `snakemake --unlock`, and start it again."
    assert first_line(running) == sentence
    assert killed.run is not None
    assert (killed.run.running, killed.run.killed, killed.jobs) == (False, True, 0)
    (lock,) = runs.locks(running)
    later = lock.stat().st_mtime + 60
    os.utime(lock, (later, later))  # the note is of an earlier run: this one was started with --no-hooks
    assert first_line(running).startswith("Running")


def test_damaged_missing_and_foreign_files(root: Path) -> None:
    part(root, 1, "s1").write_bytes(b"PAR1 no manifest PAR1")
    part(root, 1, "s2").write_bytes(b"")
    layout.journal_of(part(root, 1, "s2")).write_bytes(os.urandom(999))
    layout.journal_of(part(root, 2, "s2")).symlink_to("/dev/zero")
    (part(root, 1, "s1").parent / "notes.txt").write_text("mine")
    part(root, 2, "s9").mkdir()
    place(root, "rejected").write_text("[")
    (root / "work" / "my files").mkdir()
    collected = status.collect(root)
    videos = stage(collected, "videos")
    assert (videos.done, videos.total) == (2 + 0 + 1, 18)  # the journals'
    assert stage(collected, "sources").failed == 1
    damaged = {each.items: each.reason for each in collected.failures if each.stage == "videos"}
    assert damaged.keys() == {(f"work/d/mlvp/fog/1/{shard}.parquet",) for shard in SHARDS}
    assert all("delete it" in reason for reason in damaged.values())
    with place(root, "video_recipes").open("a") as file:
        file.write('["../../x/1","{}"]\n')
    assert stage(status.collect(root), "videos") == videos
    with place(root, "video_recipes").open("a") as file:
        file.write("{")
    assert (stage(status.collect(root), "videos").done, stage(status.collect(root), "videos").total) == (3, None)


def test_only_manifests_are_left(tmp_path: Path) -> None:
    lost = {**broken("no frames"), "bytes": None}
    files.write(place(tmp_path, "sources"), SOURCES, [clips.made_up_source("a"), clips.made_up_source("b")])
    files.write(place(tmp_path, "videos"), VIDEOS, [video("a"), video("b", **lost)])
    collected = status.collect(tmp_path)
    assert stage(collected, "sources").done == 2
    videos = stage(collected, "videos")
    assert (videos.done, videos.failed, videos.total, videos.bytes) == (1, 1, 2, 1000)
    assert collected.failures == (status.Failure("d", "mlvp", "video", "no frames", 1, ("b",)),)


def test_finished_parts_are_counted_in_their_manifest(root: Path) -> None:
    for severity in (2, 3):
        for shard in SHARDS:
            write_part(root, severity, shard)
    items = [item for members in SHARDS.values() for item in members]
    merged = place(root, "videos")
    files.write(merged, VIDEOS, [video(item, severity=severity) for item in items for severity in (1, 2, 3)])
    assert stage(status.collect(root), "videos").done == 18
    os.utime(merged, (0, 0))  # a part is newer
    assert stage(status.collect(root), "videos").done == 17


def test_parts_of_captions_and_evaluations(root: Path) -> None:
    for shard in ("s1", "s2", "s3"):
        listed.write_captions(place(root, "caption_list", shard=shard), [CAPTION])
    recipes = place(root, "text_recipes", suite="msrvtt_p")
    listed.write_recipes(recipes, {"typos/1": "{}", "typos/2": "{}"})
    fields = {"suite": "msrvtt_p", "perturbation": "typos", "severity": 1, "shard": "s2"}
    files.write_part(place(root, "text_part", **fields), TEXTS, [])
    parts = [f"work/d/evaluation/key/v2t/clean/clean/{name}.parquet" for name in ("none", "adapted")]
    plan = place(root, "evaluation_parts", model="key", kind="adaptation")
    listed.write_parts(plan, parts)
    (root / parts[0]).parent.mkdir(parents=True, exist_ok=True)
    (root / parts[0]).touch()
    collected = status.collect(root)
    captions, adaptation = stage(collected, "captions"), stage(collected, "adaptation")
    assert (captions.suite, captions.done, captions.total, captions.unit) == ("msrvtt_p", 1, 6, "parts")
    assert (adaptation.suite, adaptation.done, adaptation.total) == ("key", 1, 2)
    recipes.unlink()
    captions = stage(status.collect(root), "captions")
    assert (captions.done, captions.total) == (1, None), "an evaluation makes captions without a plan"
    listed.write_parts(plan, ["/etc/passwd"])
    assert any("lists /etc/passwd" in each.reason for each in status.collect(root).failures)


def test_captions_that_cannot_be_used_are_counted_once(root: Path) -> None:
    listed.write_captions(place(root, "caption_list", shard="s1"), [CAPTION])
    rejected = listed.RejectedItem(item_id="t1", split="", error="the caption is empty", missing=False)
    listed.write(place(root, "rejected_captions"), [rejected, replace(rejected, item_id="t2")])
    before = status.collect(root).failures
    for suite in ("mm_robustness", "msrvtt_p"):
        listed.write_recipes(place(root, "text_recipes", suite=suite), {"typos/1": "{}"})
    (failure,) = set(status.collect(root).failures) - set(before)
    assert (failure.dataset, failure.stage, failure.items) == ("d", "captions", ("t1", "t2"))


def test_the_time_left_for_parts_is_that_of_finished_ones(running: Path) -> None:
    listed.write_recipes(place(running, "text_recipes"), {"typos/1": "{}", "typos/2": "{}"})
    for number in range(4):
        shard = f"s{number}"
        listed.write_captions(place(running, "caption_list", shard=shard), [CAPTION])
        marker = place(running, "text_marker", shard=shard)
        # All four were begun: two have ended, one has made its first part in a minute.
        write_log(running, marker, done=int(number == 2), seconds=60)
        written = [place(running, "text_part", perturbation="typos", severity=n, shard=shard) for n in (1, 2)]
        for path in written[: (2, 2, 1, 0)[number]]:
            files.write_part(path, TEXTS, [])
        if number < 2:
            clip_markers.write_texts(marker, written)
            write_benchmark(running, marker, 40 + 40 * number)
    collected = status.collect(running)
    parts = stage(collected, "captions")
    assert (parts.done, parts.total, parts.jobs) == (5, 8, 2)
    jobs = sum(each.jobs for each in collected.stages)
    assert parts.seconds_left == pytest.approx(3 * 36 / jobs, abs=0.1)  # five parts took 180 seconds
    assert parts.per_minute == pytest.approx(2 * 60 / 36, abs=0.01)
    assert collected.jobs == jobs - 2, "jobs on clips are counted alone"
    for lock in runs.locks(running):
        lock.unlink()
    assert stage(status.collect(running), "captions").jobs == 0


def test_clips_of_an_evaluation_are_counted_without_a_plan(root: Path) -> None:
    before = stage(status.collect(root), "videos")
    place(root, "video_recipes").unlink()
    begun = stage(status.collect(root), "videos")
    assert (begun.done, begun.failed, begun.total) == (before.done, before.failed, None)


@pytest.mark.parametrize("name", ["models", "logs2", "demo_encoder"])
def test_any_dataset_s_name_is_counted(root: Path, name: str) -> None:
    (root / "work" / "d").rename(root / "work" / name)
    assert {each.dataset for each in status.collect(root).stages} == {name}


def test_planning_lists_the_parts_of_an_evaluation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    parsed = config_file.parse({"datasets": {"d": clips.DATASET}, "suites": {"mlvp": {}}})
    parts = evaluation_paths.planned_parts(parsed, "d", "adaptation")
    assert parts == evaluation_paths.result_parts(parsed, "d", "adaptation")
    for path in map(Path, parts[:2]):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    adaptation = stage(status.collect(tmp_path), "adaptation")
    assert (adaptation.done, adaptation.total) == (2, len(parts))


def test_a_failed_job_is_listed_until_another_try_has_done_it(running: Path) -> None:
    collected = status.collect(running)
    assert collected.run is not None
    (job,) = collected.run.failed
    assert (job.rule, job.log) == ("videos", "work/logs/d/mlvp/fog/3/s2.log")
    assert r"  videos: cannot write \x1b[31m x: no space" in status_text.text(collected)
    for lock in runs.locks(running):
        lock.unlink()
    assert first_line(running) == "The last run has ended, 1 of 3 steps, 1 failed job."
    write_part(running, 3, "s2")
    assert first_line(running) == "The last run has ended, 1 of 3 steps."


def test_sources_are_counted_in_the_logs_of_their_jobs(running: Path) -> None:
    written = place(running, "source_part", shard="s2")
    written.unlink()
    assert stage(status.collect(running), "sources").done == 3
    log = write_log(running, written, done=2, seconds=60)
    (running / ".snakemake/log/9999-01-01T000000.000001.snakemake.log").write_text("a report was written")
    sources = stage(status.collect(running), "sources")
    assert (sources.done, sources.jobs, sources.per_minute) == (5, 1, 2.0), log.read_text()


def test_json_is_a_document(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(root.parent)
    assert main(["status", "--json", "--directory", root.name]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["version"] == 2
    assert set(document) == {"version", "run", "stages", "failures", "jobs", "seconds_left"}
    assert {stage["stage"]: stage["done"] for stage in document["stages"]} == {"sources": 6, "videos": 6}


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(3, "3 s"), (600, "10 min"), (12_000, "3 h 20 min"), (7200, "2 h"), (190_800, "2 days 5 h")],
)
def test_times_in_words(seconds: float, expected: str) -> None:
    assert shown.duration(seconds) == expected


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
