"""The estimates of time and disk before a run: what they are made of, and what they follow."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from test_preflight import clip_of, project, summary_of, wanted_of
from test_workflow import Project, tiny_clip

from perturbations.engine import estimates, survey
from perturbations.errors import ConfigError, ManifestError
from perturbations.manifest import files
from perturbations.manifest.kinds import ANALYSES, VIDEOS
from perturbations.media import framefile
from perturbations.plan import caption_costs, config, costs, evaluation, evaluation_costs
from perturbations.plan.costs import Cost, Volume
from perturbations.report import objects, preview
from perturbations.suites import registry

__all__ = ["project"]  # the fixture of test_preflight

# --- clips -----------------------------------------------------------------------------------------------------------


def test_the_time_of_sampled_frames_follows_the_frames_and_the_decoded_pixels() -> None:
    volume = Volume(clips=2, pixels=8e6, seconds=5, stored_pixels=1e6)
    assert Cost(cpu_s=0.5, stored_s=3, clip_s=0.25).seconds_of(volume) == 8 * 0.5 + 3 + 2 * 0.25
    for entry in registry.perturbations(kind="video"):
        few, many = (
            costs.cost(entry, 3, "frames").seconds_of(Volume(1, 27e6, 12, frames * 76_800)) for frames in (4, 12)
        )
        assert few < many
        assert many < 6, entry.key


def test_a_sample_of_frames_is_what_the_tier_stores(tmp_path: Path) -> None:
    tiny_clip(tmp_path / "clip.mp4", seed=0, frames=60, size=(96, 128))  # one key frame
    look = survey.look([clip_of(tmp_path / "clip.mp4")], "frames", tmp_path, num_frames=12)
    assert look is not None
    assert look.clean is not None
    from clips import decoded

    images = np.stack([frame.image for frame in decoded(tmp_path / "clip.mp4")][2::5])
    framefile.write(tmp_path / "stored", images)
    stored = (tmp_path / "stored").stat().st_size / (images.size / 3)
    assert look.clean.per_pixel == pytest.approx(stored, rel=0.2)


def test_of_a_long_clip_only_key_frames_are_decoded_each_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_clip(tmp_path / "clip.mp4", seed=0, frames=60, size=(96, 128))
    monkeypatch.setattr(survey, "_MOST_DECODED", 1000)
    look = survey.look([clip_of(tmp_path / "clip.mp4")], "frames", tmp_path, num_frames=12)
    assert look is not None
    assert look.clean is not None
    assert look.clean.per_pixel > 1, "one key frame twelve times would compress to almost nothing"


# --- captions --------------------------------------------------------------------------------------------------------


def test_every_perturbation_of_captions_was_measured_at_its_first_and_last_severity() -> None:
    for entry in registry.perturbations(kind="text"):
        assert {entry.severities[0], entry.severities[-1]} <= caption_costs.table()[entry.key].keys()


def test_a_severity_between_measured_ones_costs_what_lies_between_them(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = registry.get("mm_robustness/word_swap")
    measured = {entry.key: {1: caption_costs.Cost(1, 0.1), 5: caption_costs.Cost(2, 0.5)}}
    monkeypatch.setattr(caption_costs, "table", lambda: measured)
    assert caption_costs.cost(entry, 4, "offline") == caption_costs.Cost(1.75, pytest.approx(0.4))
    assert caption_costs.cost(entry, 7, "offline") == measured[entry.key][5]
    other = registry.get("mm_robustness/ocr")
    assert caption_costs.cost(other, 1, "offline").caption_s > 0


def test_pretrained_players_cost_more_and_are_a_guess() -> None:
    for entry in registry.perturbations(kind="text"):
        offline, pretrained = (caption_costs.cost(entry, 1, backend) for backend in ("offline", "pretrained"))
        assert not caption_costs.is_guess(entry, "offline")
        assert (pretrained.caption_s > offline.caption_s) == caption_costs.is_guess(entry, "pretrained")
    assert caption_costs.is_guess(registry.get("msrvtt_p/back_trans"), "pretrained")
    assert not caption_costs.is_guess(registry.get("msrvtt_p/keyboard"), "pretrained")


def with_captions(project: Project, **captions: Any) -> None:
    project.config["suites"] = {"mm_robustness": {"captions": captions}}


def test_the_check_estimates_perturbed_captions(project: Project) -> None:
    with_captions(project, perturbations=["keyboard", "ocr"], severities=[1, 2])
    parsed, wanted = wanted_of(project, "text_mm_robustness_tiny")
    assert {(job.perturbation, job.severity) for job in wanted.captions} == {
        (name, severity) for name in ("keyboard", "ocr") for severity in (1, 2)
    }
    time = estimates.of_captions(parsed, wanted)
    assert time.jobs == 4
    assert 1 < time.cpu_s < 60
    (line,) = (line for line in summary_of(project, "text_mm_robustness_tiny").lines if line.startswith("time: "))
    assert " of CPU, " in line
    assert line.endswith(" on 2 cores")


def test_what_pretrained_players_take_is_a_range_and_on_a_gpu_not_estimated(project: Project) -> None:
    with_captions(project, perturbations="all", severities=[1])
    _, wanted = wanted_of(project, "text_mm_robustness_tiny")
    raw = {**project.config, "backends": {"captions": {"backend": "pretrained"}}}
    guess = estimates.of_captions(config.parse(raw), wanted)
    assert guess.range == caption_costs.RANGE
    raw["backends"]["device"] = "cuda"
    on_gpu = estimates.of_captions(config.parse(raw), wanted)
    assert on_gpu.without == estimates.GPU_TIME
    assert on_gpu.cpu_s < guess.cpu_s


# --- evaluations -----------------------------------------------------------------------------------------------------


def evaluated(**keys: Any) -> config.Config:
    raw = {"datasets": {"demo": {"adapter": "demo"}}, "suites": {"mlvp": {}}}
    return config.parse({**raw, "evaluation": {"pretrained": "openai/clip-vit-base-patch32", **keys}})


CLEAN: evaluation.Job = ("v2t", "clean", "clean")
CLEAN_CAPTIONS: evaluation.Job = ("t2v", "clean", "clean")


def job_s(given: config.Config, job: evaluation.Job = CLEAN, queries: int = 100, clip_s: float = 0.1) -> float:
    return evaluation_costs.job_cpu_s(given, "demo", job, evaluation.ADAPTED, queries, clip_s)


@pytest.mark.parametrize(("methods", "seconds"), [(["tcr"], 3.72), (["hatvtr"], 3.72)])
def test_an_evaluation_takes_what_was_measured(methods: list[str], seconds: float) -> None:
    """Of docs/measurements/estimates.md: a method's CPU seconds per query, and those without adaptation."""
    start = job_s(evaluated(methods=methods), queries=0)
    assert job_s(evaluated(methods=methods), queries=100, clip_s=0) - start == pytest.approx(100 * seconds, rel=0.1)


def test_an_evaluation_s_time_follows_what_it_does() -> None:
    plain = job_s(evaluated())
    assert job_s(evaluated(), CLEAN_CAPTIONS) < plain / 5
    assert job_s(evaluated(methods=["tcr"])) < plain / 2
    assert job_s(evaluated(num_frames=24)) > 1.9 * plain
    assert job_s(evaluated(seeds=[1, 2])) > 1.9 * plain
    assert job_s(evaluated(steps=6)) > 1.8 * plain
    assert job_s(evaluated(pretrained=None)) < plain / 50
    assert job_s(evaluated(device="cuda")) < 20, "only clips are read by the CPU"
    assert job_s(evaluated(severities=[1, 5]), ("v2t", "mlvp", "low")) > 1.9 * job_s(
        evaluated(), ("v2t", "mlvp", "low")
    )


def test_the_check_estimates_an_evaluation(project: Project) -> None:
    project.config["evaluation"] = {"severities": [3], "directions": ["v2t"], "num_frames": 2}
    _, wanted = wanted_of(project, "evaluate_tiny")
    assert {job[1:] for job in wanted.evaluations} == {
        ("v2t", suite, level, "none") for suite, level in (("clean", "clean"), ("mlvp", "low"))
    }
    assert wanted.trains
    assert not wanted.galleries
    (line,) = (line for line in summary_of(project, "evaluate_tiny").lines if line.startswith("time: "))
    assert ": clips " in line
    assert ", evaluation " in line
    assert " minutes" in line, "training the encoder alone takes two"
    project.config["evaluation"] |= {"directions": ["t2v"], "device": "cuda"}
    _, wanted = wanted_of(project, "evaluate_tiny")
    assert wanted.galleries == {"tiny"}
    (line,) = (
        line for line in summary_of(project, "evaluate_tiny", local=False, cores=None).lines if line.startswith("time")
    )
    assert line.endswith("the time of the GPU is not estimated")


def test_the_captions_of_an_evaluation_are_estimated_too(project: Project) -> None:
    with_captions(project, perturbations=["keyboard"])
    project.config["evaluation"] = {"severities": [3], "directions": ["t2v"]}
    _, wanted = wanted_of(project, "evaluate_tiny")
    assert {(job.perturbation, job.severity) for job in wanted.captions} == {("keyboard", 3)}


def test_where_everything_exists_the_check_says_so(project: Project) -> None:
    with_captions(project, perturbations=["keyboard"], severities=[1])
    _, wanted = wanted_of(project, "text_mm_robustness_tiny")
    for job in wanted.captions:
        part = project.root / f"work/tiny/{job.suite}/captions/{job.perturbation}/{job.severity}/{job.shard}.parquet"
        part.parent.mkdir(parents=True, exist_ok=True)
        part.touch()
    assert summary_of(project, "text_mm_robustness_tiny").lines == [
        "to make: no clips, captions or evaluations; what these targets need of them exists"
    ]


# --- what cannot be shown --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [VIDEOS, ANALYSES], ids=["corpus", "main objects"])
def test_the_sheet_of_a_manifest_whose_clips_are_all_quarantined_says_so(kind: Any, tmp_path: Path) -> None:
    manifest = tmp_path / "manifests" / "d" / "x.parquet"
    files.write(manifest, kind, [], {"dataset": "d"})
    output = tmp_path / "sheet.png"
    if kind is VIDEOS:
        preview.from_manifest(manifest, output, item=None, names=None, severities=[1])
    else:
        objects.from_manifest(manifest, output, item=None)
    picture = cv2.imread(str(output))
    assert picture.shape[1] > 300
    assert picture.min() < 100, "there is text on it"


def test_an_evaluation_without_a_complete_clip_stops_with_one_message() -> None:
    from perturbations.cli.rules_evaluation import _check_any_complete
    from perturbations.manifest.kinds import SourceRow

    rows = [SourceRow(dataset="d", split="test", item_id=name, status="quarantined", error="x") for name in "ab"]
    with pytest.raises(ManifestError, match=r"s\.parquet has no complete clip: all 2 are quarantined or missing"):
        _check_any_complete(Path("s.parquet"), rows)


# --- what a key names ------------------------------------------------------------------------------------------------


def test_a_table_of_costs_has_every_figure() -> None:
    path = Path(costs.__file__).with_name("costs.csv")
    with path.open(newline="") as file:
        first = next(csv.reader(line for line in file if not line.startswith("#")))
    assert first == ["perturbation", "variant", "severity", "tier", *costs.FIGURES]


def test_a_missing_path_is_told_with_the_line_of_its_key(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from perturbations.plan import config_file, paths, places

    path = tmp_path / "config.yaml"
    path.write_text(
        "datasets:\n  tiny:\n    adapter: folder\n    annotations: captions.json\n    videos: nowhere\n"
        "    subset: [lost]\nsuites: {mlvp: {severity: calibrated}, mm_robustness: {}}\n"
        "backends: {frost: {images: no_frost}}\nevaluation:\n  pretrained: ./no_model\n"
    )

    def parsed() -> config.Config:
        return config.parse(config_file.load([path]), places.read([path]))

    with pytest.raises(ConfigError) as caught:
        paths.plan(parsed(), "tiny")
    assert str(caught.value).split("\n")[1:] == [
        "  config.yaml, line 8: backends.frost.images: no such directory: no_frost"
    ]
    path.write_text(path.read_text().replace("no_frost", "."))
    with pytest.raises(ConfigError) as caught:
        paths.plan(parsed(), "tiny")
    assert str(caught.value).split("\n")[1:] == [
        "  config.yaml, line 5: datasets.tiny.videos: no such directory: nowhere"
    ]
    path.write_text(path.read_text().replace("nowhere", "videos"))
    with pytest.raises(ConfigError, match=r"config\.yaml, line 6: datasets\.tiny\.subset: not in the annotations"):
        paths.plan(parsed(), "tiny")
    with pytest.raises(ConfigError, match=r"config\.yaml, line 7: suites\.mlvp\.severity is `calibrated`: there is no"):
        from perturbations.plan import recipe

        recipe.from_config(parsed(), "tiny", "mlvp", "fog", 1)
    from perturbations.engine import readiness
    from perturbations.plan.preflight import Wanted

    lines = readiness.problems(parsed(), Wanted(evaluates=True), local=False)
    assert lines == ["config.yaml, line 10: evaluation.pretrained: no such folder: ./no_model"]
