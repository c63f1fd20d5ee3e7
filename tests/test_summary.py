"""The summary at a run's end, and what Snakemake's output leaves out and gets besides."""

from __future__ import annotations

import io
import logging
from pathlib import Path

import pytest
from test_status import root as root

from perturbations.base import console
from perturbations.cli.main import main
from perturbations.report import summary


def benchmark(folder: Path, name: str, seconds: float) -> None:
    path = folder / "work" / "benchmarks" / f"{name}.tsv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"s\th:m:s\tmax_rss\tcpu_time\n{seconds}\t0:00:01\t100.5\tNA\n")


def test_times_by_kind_of_job(root: Path) -> None:
    for name in ("d/sources/s1", "d/whole/sources/s2", "d/analyses/motion/s1", "d/mlvp/captions/typos/1/s1"):
        benchmark(root, name, 3)
    benchmark(root, "d/mlvp/preview", 1)
    benchmark(root, "demo_encoder", 2)
    (root / "work/benchmarks/broken.tsv").write_text("s\n\n-\n")
    times = {entry.name: (entry.jobs, entry.seconds) for entry in summary.collect(root).times}
    assert times == {
        "mlvp videos": (2, 40.0),
        "sources": (2, 6.0),
        "motion": (1, 3.0),
        "mlvp captions": (1, 3.0),
        "mlvp preview": (1, 1.0),
        "demo_encoder": (1, 2.0),
        "broken": (2, 0.0),
    }


def test_it_is_short_in_a_terminal(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collected = summary.collect(root)
    text = summary.text(collected)
    assert "mlvp videos of d:  6 of 18 clips  1 quarantined  6.0 kB" in text
    assert "1 x d annotation: no video file ('x')" in text
    (root / "work/d/rejected.jsonl").write_text("".join(f'{{"error":"{word}","item_id":"x"}}\n' for word in "abcde"))
    reasons = summary.text(summary.collect(root)).splitlines()
    assert "6 quarantined or missing, 3 more reasons in `perturb status`:" in reasons
    many = [f"{number}" for number in range(30)]
    monkeypatch.setattr(summary, "_corpora", lambda stages: many)
    assert len(summary.text(collected).splitlines()) == 15
    assert summary.text(collected).splitlines()[-1] == "Pages: manifests/run.html."


def test_the_page_escapes_what_it_shows(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rejected = '{"error":"<script>{{ 7 * 7 }}\\u202e","item_id":"<b>","missing":true,"split":""}\n'
    (root / "work" / "d" / "rejected.jsonl").write_text(rejected)
    monkeypatch.chdir(root)
    assert main(["summary"]) == 0
    page = (root / "manifests" / "run.html").read_text()
    assert "&lt;script&gt;{{ 7 * 7 }}\\u202e" in page
    assert "<script" not in page
    assert "http" not in page


def test_the_command_names_the_page_that_it_wrote_and_makes_none_where_nothing_was_planned(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(root)
    assert main(["summary", "-o", "my page.html"]) == 0
    assert (root / "my page.html").is_file()
    assert capsys.readouterr().out.splitlines()[-1] == "Pages: my page.html."
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    assert main(["summary"]) == 1
    assert "nothing was planned here" in capsys.readouterr().err
    assert not list(Path().iterdir())


def test_an_empty_folder_has_a_summary(tmp_path: Path) -> None:
    collected = summary.collect(tmp_path)
    assert summary.text(collected).startswith("No run of Snakemake was started here.")
    summary.write(tmp_path / "run.html", collected)


# --- Snakemake's output ----------------------------------------------------------------------------------------------


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


def test_the_estimate_comes_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 30.0, 120.0, 150.0, 600.0, 601.0])
    monkeypatch.setattr(console.time, "monotonic", lambda: next(times))
    stream = io.StringIO()
    logger = logging.Logger("of this test")
    logger.addHandler(console.Estimate(stream))
    for done in (1, 10, 11, 30):
        logger.warning("", extra={"event": "progress", "done": done, "total": 30})
    logger.warning("something else")
    assert stream.getvalue() == "10 of 30 steps in 2 min, about 4 min left; see `perturb status`\n"
