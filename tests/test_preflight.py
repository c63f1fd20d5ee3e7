"""The check before the first job: counts, estimates, and what cannot succeed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections import namedtuple
from pathlib import Path
from typing import Any

import needs as optional
import preloaded
import pytest
import yaml
from test_workflow import IDS, REPOSITORY, Project, new_project, tiny_clip

from perturbations.base import console
from perturbations.base.errors import ConfigError
from perturbations.cli.main import main
from perturbations.config import sections as configuration
from perturbations.engine import needs
from perturbations.plan import listed, paths
from perturbations.preflight import check as preflight
from perturbations.preflight import readiness, survey
from perturbations.preflight import wanted as planning

# --- clips -----------------------------------------------------------------------------------------------------------


def clip_of(path: Path, **span: float) -> listed.ListedClip:
    return listed.ListedClip(
        item_id=path.name, source_video_id=path.name, path=str(path), bytes=path.stat().st_size, **span
    )


def test_files_that_are_surely_no_videos(tmp_path: Path) -> None:
    contents = {
        "empty": b"",
        "zeros": bytes(5000),
        "page": b"<!DOCTYPE html><html><head><title>404 Not Found</title></head></html>" * 9,
        "y4m": b"YUV4MPEG2 W32 H24 F25:1 Ip A1:1 C420jpeg" + b" " * 60,
        "damaged": b"\0\0\0\x20ftypisom" + bytes(range(200)),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    tiny_clip(tmp_path / "clip.mp4", seed=0)
    clips = [clip_of(path) for path in sorted(tmp_path.iterdir())]
    assert survey.unreadable(clips) == {
        str(tmp_path / "empty"): "the file is empty",
        str(tmp_path / "zeros"): "the file begins with zeros",
        str(tmp_path / "page"): "the file is a text",
    }


def test_a_sample_tells_how_much_video_there_is(tmp_path: Path) -> None:
    for index in range(30):
        tiny_clip(tmp_path / f"{index}.mp4", seed=index, frames=20, size=(48, 64))
    clips = [clip_of(path) for path in sorted(tmp_path.glob("*.mp4"))]
    look = survey.look(clips)
    assert look is not None
    assert survey.look(clips[::-1]) == look
    total = sum(look.pixels(clip, None) for clip in clips)
    assert total == pytest.approx(30 * 20 * 48 * 64, rel=0.05)
    half = clip_of(tmp_path / "0.mp4", start_s=0.5, end_s=1.5)
    assert look.pixels(half, None) == pytest.approx(10 * 48 * 64, rel=0.05)
    assert look.pixels(half, 12) == 12 * 48 * 64


def test_without_a_clip_that_opens_there_is_no_sample(tmp_path: Path) -> None:
    (tmp_path / "clip.mp4").write_bytes(b"\0\0\0\x20ftypisom" + bytes(200))
    assert survey.look([clip_of(tmp_path / "clip.mp4")]) is None
    assert survey.look([]) is None


# --- what is wanted --------------------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    return new_project(tmp_path, shard_size=2)


def wanted_of(raw: Any, *names: str) -> tuple[configuration.Config, planning.WantedWork]:
    """The configuration of a file's values, and what targets want."""
    config = configuration.parse(raw)
    Path("config.yaml").write_text(yaml.safe_dump(raw))
    words = [*preloaded.command("snakemake"), "--snakefile", str(REPOSITORY / "Snakefile"), "--cores", "1", "-n"]
    environment = {**os.environ, console.PLAN_VARIABLE: "plan.jsonl"}
    Path("plan.jsonl").unlink(missing_ok=True)
    done = subprocess.run([*words, "--", *names], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise ConfigError(done.stdout + done.stderr)
    entries = [json.loads(line) for line in Path("plan.jsonl").read_text().splitlines()]
    return config, planning.of_jobs((entry["rule"], entry["wildcards"]) for entry in entries if type(entry) is dict)


def test_guided_perturbations_want_their_analyses(project: Project) -> None:
    project.config["suites"]["mlvp"] = {"perturbations": ["motion_blur", "event_insertion"], "severities": [2]}
    _, wanted = wanted_of(project.config, "mlvp_tiny")
    assert {analysis for _, analysis, _ in wanted.analyses} >= {"motion", "embedding"}


def test_an_evaluation_wants_only_the_clips_that_it_asks_with(project: Project) -> None:
    project.config["evaluation"] = {"severities": [3], "directions": ["v2t"]}
    _, wanted = wanted_of(project.config, "evaluate_tiny")
    assert {(job.perturbation, job.severity) for job in wanted.videos} == {("fog", 3), ("gaussian_noise", 3)}
    assert "evaluate" in wanted.rules
    assert not wanted.checked


# --- the summary -----------------------------------------------------------------------------------------------------

Usage = namedtuple("Usage", "total used free")


def summary_of(project: Project, *names: str, **options: Any) -> preflight.Report:
    config, wanted = wanted_of(project.config, *names)
    return preflight.check(config, wanted, **options)


def test_the_summary_counts_clips_jobs_and_bytes(project: Project) -> None:
    config, wanted = wanted_of(project.config, "mlvp_tiny")
    shards = {job.shard for job in wanted.videos}
    assert len(wanted.videos) == 4 * len(shards)
    assert wanted.sources == {("tiny", shard) for shard in shards}
    assert wanted.checked == {"tiny"}
    lines = preflight.check(config, wanted).text()
    assert lines[0] == "preflight: clips of tiny: 4 present; max_failed_items allows 0"
    assert lines[1].startswith("preflight: to make: 16 perturbed videos in ")
    assert lines[2].startswith("preflight: disk: about ")
    assert len(lines) == 3


def test_missing_and_unreadable_clips_over_max_failed_items_cannot_succeed(project: Project) -> None:
    (project.root / "videos/b.mp4").write_bytes(b"")
    project.write_captions([*IDS, "gone"])
    summary = summary_of(project, "mlvp_tiny")
    assert "clips of tiny: 3 present, 1 missing, 1 unreadable; max_failed_items allows 0" in summary.lines[0]
    with pytest.raises(ConfigError, match="2 clips are missing or cannot be read") as caught:
        summary.raise_errors()
    assert "'gone': missing: no gone.mp4" in str(caught.value)
    assert "videos/b.mp4: the file is empty" in str(caught.value)
    project.config["max_failed_items"] = 2
    summary_of(project, "mlvp_tiny").raise_errors()


def test_an_evaluation_only_warns_of_missing_clips(project: Project) -> None:
    project.write_captions([*IDS, "gone"])
    summary = summary_of(project, "evaluate_tiny")
    assert not summary.errors
    assert "1 clips are missing" in summary.warnings[0]


@pytest.mark.parametrize(("share", "kind"), [(0.3, "error"), (0.5, "warning"), (0.9, "warning"), (1.5, "nothing")])
def test_too_little_space_stops_the_run_and_too_tight_space_is_a_warning(
    project: Project, monkeypatch: pytest.MonkeyPatch, share: float, kind: str
) -> None:
    wanted = 4e9
    monkeypatch.setattr(survey, "stored", lambda *_: (16, wanted, False))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(0, 0, int(share * wanted)))
    summary = summary_of(project, "mlvp_tiny")
    assert ["error"] * len(summary.errors) + ["warning"] * len(summary.warnings) == [kind] * (kind != "nothing")
    for line in (*summary.errors, *summary.warnings):
        assert "about 4.0 GB" in line
        assert f"{share * 4:.1f} GB free" in line


@pytest.mark.parametrize("obstacle", ["file", "dangling link", "read-only"])
def test_results_must_have_a_folder_that_can_be_written(
    project: Project, obstacle: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project.root / "corpora" / "tiny"
    folder.parent.mkdir()
    if obstacle == "file":
        folder.write_text("not a folder")
    elif obstacle == "dangling link":
        folder.symlink_to("nowhere")
    else:
        folder.mkdir()
        # Root may write everywhere: permissions are those of another user.
        monkeypatch.setattr(preflight.os, "access", lambda path, mode: Path(path) != Path("corpora/tiny"))
    what = "not writable" if obstacle == "read-only" else "no folder"
    assert summary_of(project, "mlvp_tiny").errors == [f"disk: corpora/tiny is {what}"]
    project.config["storage"] = {"tier": "recipe"}
    assert not summary_of(project, "mlvp_tiny").errors, "recipes store no clips"


def test_a_link_to_a_larger_disk_must_be_named(
    project: Project, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise every clip would be made before the first job that reads one refuses it."""
    disk = tmp_path_factory.mktemp("larger disk")
    (project.root / "corpora").symlink_to(disk)
    (error,) = summary_of(project, "mlvp_tiny").errors
    assert str(disk) in error
    assert "PERTURB_LINKED" in error
    monkeypatch.setenv("PERTURB_LINKED", str(disk))
    assert summary_of(project, "mlvp_tiny").errors == []


def test_what_is_stored_follows_the_tier_the_frames_and_the_clips(project: Project) -> None:
    def stored(**storage: Any) -> tuple[int, float, bool]:
        config, wanted = wanted_of({**project.config, "storage": storage}, "mlvp_tiny")
        return survey.stored(config, wanted, {"tiny": survey.Collection.read("tiny", wanted)})

    videos, high, is_rough = stored(tier="video")
    assert (videos, is_rough) == (16, False)
    assert 0 < 4 * stored(tier="video", profile="compatible")[1] < high
    assert stored(tier="recipe")[1] == 0
    twelve, four = (stored(tier="frames", num_frames=number)[1] for number in (12, 4))
    assert twelve == pytest.approx(3 * four)
    for path in (project.root / "videos").iterdir():
        path.write_bytes(b"\0\0\0\x20ftypisom" + bytes(path.stat().st_size - 12))
    assert stored(tier="video")[2]
    (project.root / "videos/b.mp4").write_bytes(b"")
    assert stored(tier="video")[0] == 12


def test_without_a_clip_nothing_is_said_to_exist(project: Project) -> None:
    for path in (project.root / "videos").iterdir():
        path.unlink()
    project.config["max_failed_items"] = 100
    summary = summary_of(project, "mlvp_tiny")
    assert not summary.errors
    assert summary.lines[-1] == "to make: no clips, captions or evaluations; no clip is present"


def with_captions(project: Project, **captions: Any) -> None:
    project.config["suites"] = {"mm_robustness": {"captions": captions}}


def test_the_check_counts_the_jobs_of_captions_and_evaluations(project: Project) -> None:
    with_captions(project, perturbations=["keyboard", "ocr"], severities=[1, 2])
    _, wanted = wanted_of(project.config, "text_mm_robustness_tiny")
    assert {(job.perturbation, job.severity) for job in wanted.captions} == {
        (name, severity) for name in ("keyboard", "ocr") for severity in (1, 2)
    }
    assert summary_of(project, "text_mm_robustness_tiny").lines == ["to make: perturbed captions in 4 jobs"]
    project.config["evaluation"] = {"severities": [1], "directions": ["t2v"]}
    _, wanted = wanted_of(project.config, "evaluate_tiny")
    assert {job.severity for job in wanted.captions} == {1}
    jobs = wanted.rules.count("evaluate")
    assert jobs > 1
    assert f"to evaluate: {jobs} jobs of retrieval" in summary_of(project, "evaluate_tiny").lines


def test_where_everything_exists_the_check_says_so(project: Project) -> None:
    with_captions(project, perturbations=["keyboard"], severities=[1])
    _, wanted = wanted_of(project.config, "text_mm_robustness_tiny")
    for job in wanted.captions:
        part = project.root / f"work/tiny/{job.suite}/captions/{job.perturbation}/{job.severity}/{job.shard}.parquet"
        part.parent.mkdir(parents=True, exist_ok=True)
        part.touch()
    assert summary_of(project, "text_mm_robustness_tiny").lines == [
        "to make: no clips, captions or evaluations; what these targets need of them exists"
    ]


def test_without_the_demo_a_target_must_be_named(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (project.root / "config.yaml").write_text(json.dumps(project.config))
    monkeypatch.chdir(project.root)
    assert main(["check"]) == 1
    assert "`datasets` has no `demo`: name targets, such as mlvp_tiny" in capsys.readouterr().err


def test_many_lines_of_one_kind_are_cut() -> None:
    summary = preflight.Report([f"line {number}" for number in range(9)], [f"careful {number}" for number in range(9)])
    assert len(summary.text()) == 10
    assert summary.text()[4] == "preflight: and 5 more lines"


# --- the machine -----------------------------------------------------------------------------------------------------


def test_models_that_are_not_there_stop_an_evaluation(project: Project, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    project.config["evaluation"] = {"pretrained": str(tmp_path / "model")}
    assert any("it has no config.json" in line for line in summary_of(project, "evaluate_tiny").errors)
    (tmp_path / "model/config.json").write_text("{}")
    assert any("has no tokenizer" in line for line in summary_of(project, "evaluate_tiny").errors)
    (tmp_path / "model/vocab.txt").touch()
    for text, words in (
        ("{", "config.json does not say what it is"),
        ("{}", "no `model_type`"),
        ('{"model_type": "clp"}', "allowed: .*clip.*; did you mean clip"),
        ('{"model_type": "clip"}', r"no \*.safetensors file"),
    ):
        (tmp_path / "model/config.json").write_text(text)
        (line,) = summary_of(project, "evaluate_tiny").errors
        assert re.search(words, line), line
    (tmp_path / "model/model.safetensors").touch()
    assert not summary_of(project, "evaluate_tiny").errors
    project.config["evaluation"] = {"pretrained": str(tmp_path / "nothing")}
    assert any("no such folder" in line for line in summary_of(project, "evaluate_tiny").errors)
    assert not summary_of(project, "mlvp_tiny").errors, "a corpus needs no model"


def test_weights_that_were_not_downloaded_stop_an_evaluation(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("huggingface_hub")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    project.config["evaluation"] = {"pretrained": "nobody/has-this-model"}
    errors = summary_of(project, "evaluate_tiny").errors
    assert any("hf download nobody/has-this-model" in line for line in errors)


def test_a_pretrained_backend_is_looked_for_where_a_perturbation_needs_it(project: Project, tmp_path: Path) -> None:
    project.config["backends"] = {"embedding": {"backend": "pretrained", "clip": str(tmp_path / "clip")}}
    project.config["suites"]["mlvp"] = {"variant": "paper", "perturbations": ["fog"], "severities": [1]}
    assert not summary_of(project, "mlvp_tiny").errors
    project.config["suites"]["mlvp"]["perturbations"] = ["event_insertion"]
    (line,) = (line for line in summary_of(project, "mlvp_tiny").errors if "clip" in line)
    assert line == f"backends.embedding.clip: no such folder: {tmp_path / 'clip'}"
    (tmp_path / "clip").mkdir()
    (tmp_path / "clip/config.json").write_text("{}")
    (line,) = (line for line in summary_of(project, "mlvp_tiny").errors if "clip" in line)
    assert line == f"backends.embedding.clip: {tmp_path / 'clip'} holds no weights: no *.safetensors file"


def test_a_folder_of_pictures_matters_where_a_perturbation_chooses_from_it(project: Project, tmp_path: Path) -> None:
    (tmp_path / "styles").mkdir()
    project.config["backends"] = {"style": {"backend": "offline", "images": str(tmp_path / "styles")}}
    project.config["suites"]["mlvp"] = {"perturbations": ["style_transfer"], "severities": [1]}
    (line,) = summary_of(project, "mlvp_tiny").errors
    assert line.startswith(f"backends.style.images: no image in {tmp_path / 'styles'}; known: ")
    for wrong in ("nowhere", "a_file"):
        (tmp_path / "a_file").touch()
        project.config["backends"]["style"]["images"] = str(tmp_path / wrong)
        with pytest.raises(ConfigError, match=f"backends.style.images: no such directory: .*{wrong}"):
            summary_of(project, "mlvp_tiny")
    project.config["suites"]["mlvp"]["perturbations"] = ["fog"]
    assert not summary_of(project, "mlvp_tiny").errors


def test_gpus_are_counted_without_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    assert needs._gpus(tmp_path) == 2
    (tmp_path / "dxg").touch()
    assert needs._gpus(tmp_path) is None
    monkeypatch.setattr(needs, "_gpus", lambda devices: 1)
    assert not list(needs.of_device("evaluation.device", "cuda:0"))
    (line,) = needs.of_device("evaluation.device", "cuda:1")
    assert line == "evaluation.device: cuda:1 is not here: this machine has 1 GPU of NVIDIA"


def test_a_device_that_is_missing_here_is_no_matter_on_a_cluster(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(needs, "_gpus", lambda devices: 0)
    project.config["evaluation"] = {"device": "cuda"}
    assert any("has no GPUs" in line for line in summary_of(project, "evaluate_tiny").errors)
    assert not summary_of(project, "evaluate_tiny", local=False).errors


def test_an_encoder_that_is_missing_is_told_once_per_encoder(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "ffmpeg"
    fake.write_text("#!/bin/sh\necho \"Codec 'x' is not recognized by FFmpeg.\"\n")
    fake.chmod(0o755)
    monkeypatch.setattr("perturbations.media.program.ffmpeg_program", lambda: str(fake))
    readiness._missing_in_ffmpeg.cache_clear()
    project.config["suites"] = {"transmission": {"perturbations": ["h265_crf", "h265_bitrate", "rain"]}}
    errors = summary_of(project, "transmission_tiny").errors
    readiness._missing_in_ffmpeg.cache_clear()
    (line,) = errors
    assert line.startswith(f"transmission/h265_bitrate: {fake} has no encoder libx265: install imageio-ffmpeg again")


@optional.wings("calibration", "evaluation")
def test_a_missing_path_is_told_with_the_line_of_its_key(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from perturbations.config import file as config_file
    from perturbations.config import line_numbers

    path = tmp_path / "config.yaml"
    path.write_text(
        "datasets:\n  tiny:\n    adapter: folder\n    annotations: captions.json\n    videos: nowhere\n"
        "    subset: [lost]\nsuites: {mlvp: {severity: calibrated}, mm_robustness: {}}\n"
        "backends: {frost: {images: no_frost}}\nevaluation:\n  pretrained: ./no_model\n"
    )

    def parsed() -> configuration.Config:
        return configuration.parse(config_file.load([path]), line_numbers.read([path]))

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
    lines = readiness.problems(parsed(), planning.WantedWork(rules=["evaluate"]), local=False)
    assert lines == ["config.yaml, line 10: evaluation.pretrained: no such folder: ./no_model"]


# --- runs ------------------------------------------------------------------------------------------------------------


def test_a_run_that_cannot_succeed_stops_before_its_first_job(tmp_path: Path) -> None:
    project = new_project(tmp_path, shard_size=50)
    project.write_captions([*IDS, "gone"])
    assert "preflight:" not in project.snakemake("mlvp_tiny", "--dry-run", hooks=True).stderr
    stopped = project.snakemake("mlvp_tiny", check=False, hooks=True)
    assert stopped.returncode == 1
    output = stopped.stdout + stopped.stderr
    assert "this run cannot succeed, and no job was started:\n  tiny: 1 clips are missing or cannot be read" in output
    assert "Traceback" not in output
    assert not project.outputs()
    checked = project.perturb("check", "mlvp_tiny")
    assert checked.returncode == 1
    assert "preflight: clips of tiny: 4 present, 1 missing; max_failed_items allows 0" in checked.stdout
    assert "no job was started" in checked.stderr
    (tmp_path / "more.yaml").write_text("max_quarantine: 1\n")
    allowed = project.perturb("check", "mlvp_tiny", "--configfile", "more.yaml")
    assert allowed.returncode == 0
    assert allowed.stdout.count("more.yaml, line 1: max_quarantine is now max_failed_items") == 1
    project.config["max_failed_items"] = 1
    run = project.snakemake("mlvp_tiny", "--until", "sources", hooks=True)
    assert "preflight: clips of tiny: 4 present, 1 missing; max_failed_items allows 1" in run.stdout + run.stderr
    assert project.outputs()


def test_the_command_names_what_it_does_not_know(tmp_path: Path) -> None:
    project = new_project(tmp_path)
    lost = project.perturb("check", "mlvp_tiny")
    assert lost.returncode == 1
    assert "config.yaml: no such file" in lost.stderr
    project.write_config()
    unknown = project.perturb("check", "mlvp_tny")
    assert unknown.returncode == 1
    assert "no target 'mlvp_tny'; did you mean 'mlvp_tiny'?" in unknown.stderr
