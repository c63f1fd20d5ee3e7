"""The check before the first job: counts, estimates, and what cannot succeed."""

from __future__ import annotations

import re
import shutil
from collections import Counter, namedtuple
from pathlib import Path
from typing import Any

import clips
import pytest
from test_workflow import IDS, Project, new_project, tiny_clip

from perturbations.base import shown
from perturbations.base.errors import ConfigError
from perturbations.cli.main import main
from perturbations.config import file as config_file
from perturbations.config import sections as configuration
from perturbations.corpus import clip_files, costs, listed, needs, recipe, sharding
from perturbations.manifest import files, layout
from perturbations.manifest.kinds import VIDEOS
from perturbations.report import check as preflight
from perturbations.report import readiness
from perturbations.report import work as planning

# --- clips -----------------------------------------------------------------------------------------------------------


def clip_of(path: Path, **span: float) -> listed.ListedClip:
    return listed.ListedClip(
        item_id=path.name, source_video_id=path.name, path=str(path), bytes=path.stat().st_size, **span
    )


def test_files_that_are_surely_no_whole_videos(tmp_path: Path) -> None:
    contents = {
        "empty": b"",
        "zeros": bytes(5000),
        "page": b"<!DOCTYPE html><html><head><title>404 Not Found</title></head></html>" * 9,
        "y4m": b"YUV4MPEG2 W32 H24 F25:1 Ip A1:1 C420jpeg" + b" " * 60,
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    tiny_clip(tmp_path / "clip.mp4", seed=0)
    whole = (tmp_path / "clip.mp4").read_bytes()
    (tmp_path / "cut").write_bytes(whole[: len(whole) // 2])
    clips = [clip_of(path) for path in sorted(tmp_path.iterdir())]
    reasons = clip_files.unreadable(clips)
    assert reasons.pop(str(tmp_path / "cut")).startswith(f"the file ends early: {len(whole) // 2} of ")
    assert reasons == {
        str(tmp_path / "empty"): "the file is empty",
        str(tmp_path / "zeros"): "the file begins with zeros",
        str(tmp_path / "page"): "the file is a text",
    }


def test_a_sample_tells_how_much_is_stored_per_clip(tmp_path: Path) -> None:
    tiny_clip(tmp_path / "0.mp4", seed=0, frames=20, size=(48, 64))
    for index in range(1, 30):
        shutil.copy(tmp_path / "0.mp4", tmp_path / f"{index}.mp4")
    clips = [clip_of(path) for path in sorted(tmp_path.glob("*.mp4"))]
    assert costs.mean_pixels(clips, None) == costs.mean_pixels(clips[::-1], None) == 20 * 48 * 64
    assert costs.mean_pixels([clip_of(tmp_path / "0.mp4", start_s=0.5, end_s=1.5)], None) == 10 * 48 * 64
    assert costs.mean_pixels(clips, 12) == 12 * 48 * 64
    (tmp_path / "clip.mp4").write_bytes(b"\0\0\0\x20ftypisom" + bytes(200))
    assert costs.mean_pixels([clip_of(tmp_path / "clip.mp4")], None) is None
    assert costs.mean_pixels([], None) is None


# --- what is wanted --------------------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    return new_project(tmp_path, shard_size=2)


def wanted_of(project: Project, *names: str) -> tuple[configuration.Config, planning.Work]:
    """The project's configuration, and what targets want."""
    config = config_file.parse(project.config)
    return config, planning.of_targets(config, names)


def test_an_evaluation_wants_only_the_clips_that_it_asks_with(project: Project) -> None:
    project.config["evaluation"] = {"severities": [3], "directions": ["v2t"]}
    _, wanted = wanted_of(project, "evaluate_tiny")
    assert {scenario[2:] for scenario in wanted.clips} == {("fog", 3), ("gaussian_noise", 3)}
    assert "evaluate" in wanted.rules
    assert not wanted.checked


@pytest.mark.parametrize("target", ["mlvp_tiny", "multimodal_msrvtt_p_tiny", "evaluate_tiny", "tta_tiny"])
def test_targets_want_what_snakemake_plans_for_them(project: Project, target: str) -> None:
    """The check of the command and that of a run look at the same work."""
    msrvtt_p = {"perturbations": ["jpeg"], "severities": [3], "captions": {"perturbations": ["no_verbs"]}}
    project.config["suites"]["msrvtt_p"] = msrvtt_p
    project.config["evaluation"] = {"severities": [3], "mixes": ["mixed_severity"]}
    _, wanted = wanted_of(project, target)
    jobs = project.planned(target)
    of_clips = sum(map(len, wanted.clips.values()))
    assert (of_clips, len(wanted.unread), wanted.captions) == tuple(
        jobs.get(rule, 0) for rule in ("videos", "sources", "texts")
    )
    assert wanted.checked == ({"tiny"} if "check_quarantine" in jobs else set())
    assert wanted.checked_captions == ({"tiny"} if "check_captions" in jobs else set())


# --- the summary -----------------------------------------------------------------------------------------------------

Usage = namedtuple("Usage", "total used free")


def summary_of(project: Project, *names: str) -> preflight.Report:
    return preflight.check(*wanted_of(project, *names))


def test_the_summary_counts_clips_jobs_and_bytes(project: Project) -> None:
    config, wanted = wanted_of(project, "mlvp_tiny")
    shards = {shard for shards in wanted.clips.values() for shard in shards}
    assert [len(corpus) for corpus in wanted.clips.values()] == 4 * [len(shards)]
    assert wanted.unread == {("tiny", shard) for shard in shards}
    assert wanted.checked == {"tiny"}
    clips, videos, disk = preflight.check(config, wanted).text()
    assert clips == "preflight: clips of tiny: 4 present; max_failed_items allows 0"
    assert videos == "preflight: to make: 16 perturbed videos"
    assert disk.startswith("preflight: disk: about ")


def test_missing_and_unreadable_clips_over_max_failed_items_cannot_succeed(project: Project) -> None:
    (project.root / "videos/b.mp4").write_bytes(b"")
    project.write_captions([*IDS, "gone"])
    config, wanted = wanted_of(project, "mlvp_tiny")
    summary = preflight.check(config, wanted)
    assert "clips of tiny: 3 present, 1 missing, 1 unreadable; max_failed_items allows 0" in summary.lines[0]
    with pytest.raises(ConfigError, match="2 clips missing or unreadable") as caught:
        summary.raise_errors()
    assert "'gone': missing: no gone.mp4" in str(caught.value)
    assert "videos/b.mp4: the file is empty" in str(caught.value)
    assert "datasets.tiny.subset, or set datasets.tiny.max_failed_items: 2" in str(caught.value)
    assert "--no-hooks" not in str(caught.value), "the run would end with the same message"
    preflight.check(config_file.parse({**project.config, "max_failed_items": 2}), wanted).raise_errors()
    evaluated = summary_of(project, "evaluate_tiny")
    assert not evaluated.errors
    assert "2 clips missing" in evaluated.warnings[0]


def test_too_little_space_stops_the_run_and_too_tight_space_is_a_warning(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = wanted_of(project, "mlvp_tiny")
    monkeypatch.setattr(preflight, "stored_bytes", lambda *_: 4e9)
    for share, errors, warnings in ((0.3, 1, 0), (0.5, 0, 1), (0.9, 0, 1), (1.5, 0, 0)):
        usage = Usage(0, 0, int(share * 4e9))
        monkeypatch.setattr(shutil, "disk_usage", lambda path, usage=usage: usage)
        summary = preflight.check(*planned)
        assert (len(summary.errors), len(summary.warnings)) == (errors, warnings)
        for line in (*summary.errors, *summary.warnings):
            assert "about 4.0 GB" in line
            assert f"{share * 4:.1f} GB free" in line


def test_results_must_have_a_folder_that_can_be_written(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    config, wanted = wanted_of(project, "mlvp_tiny")
    recipes = config_file.parse({**project.config, "storage": {"tier": "recipe"}})
    folder = project.root / "corpora" / "tiny"
    folder.parent.mkdir()

    def is_refused(what: str) -> None:
        assert preflight.check(config, wanted).errors == [f"disk: corpora/tiny is {what}"]
        assert not preflight.check(recipes, wanted).errors, "recipes store no clips"

    folder.write_text("not a folder")
    is_refused("no folder")
    folder.unlink()
    folder.symlink_to("nowhere")
    is_refused("no folder")
    folder.unlink()
    folder.mkdir()
    # Root may write everywhere: permissions are those of another user.
    monkeypatch.setattr(preflight.os, "access", lambda path, mode: Path(path) != Path("corpora/tiny"))
    is_refused("not writable")


def test_what_is_stored_follows_the_tier_the_frames_and_the_clips(project: Project) -> None:
    _, wanted = wanted_of(project, "mlvp_tiny")

    def stored(**storage: Any) -> tuple[str, str]:
        config = config_file.parse({**project.config, "storage": storage})
        videos, disk = preflight.check(config, wanted).lines[1:]
        return videos, disk.partition(" to store")[0]

    def stored_bytes(**storage: Any) -> float:
        config = config_file.parse({**project.config, "storage": storage})
        size = preflight.stored_bytes(config, Counter(tiny=16), {"tiny": listed_clips})
        assert size is not None
        return size

    shards = listed.read_folder(Path("work/tiny/shards"), listed.ListedClip)
    listed_clips = [clip for members in shards.values() for clip in members]
    high = stored_bytes(tier="video")
    assert 0 < 4 * stored_bytes(tier="video", profile="compatible") < high
    assert stored_bytes(tier="recipe") == 0
    assert stored_bytes(tier="frames", num_frames=12) == pytest.approx(3 * stored_bytes(tier="frames", num_frames=4))
    assert stored(tier="video") == ("to make: 16 perturbed videos", f"disk: about {shown.size(round(high))}")
    (project.root / "videos/b.mp4").write_bytes(b"")
    assert stored(tier="video")[0] == "to make: 12 perturbed videos"
    for path in (project.root / "videos").iterdir():
        path.write_bytes(bytes(500))
    videos, disk = stored(tier="video")
    assert videos == "to make: 0 perturbed videos"
    assert "about" not in disk
    assert stored(tier="recipe")[1] == "disk: about 0 B"


def test_the_check_counts_the_jobs_of_captions_until_they_exist(project: Project) -> None:
    captions = {"perturbations": ["keyboard", "ocr"], "severities": [1, 2]}
    project.config["suites"] = {"mm_robustness": {"captions": captions}}
    project.config["evaluation"] = {"severities": [1], "directions": ["t2v"]}
    clips, captions_line, model = summary_of(project, "evaluate_tiny").lines
    assert model.startswith("model of the evaluation: a stand-in, the small encoder")
    assert clips.startswith("clips of tiny: 4 present"), "the gallery's are read"
    assert captions_line == "to make: perturbed captions in 1 job"
    config, wanted = wanted_of(project, "text_mm_robustness_tiny")
    assert preflight.check(config, wanted).lines == ["to make: perturbed captions in 1 job"]
    (shard,) = sharding.plan_captions(config, "tiny")
    marker = project.root / f"work/tiny/mm_robustness/captions/{shard}.json"
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.touch()
    assert summary_of(project, "text_mm_robustness_tiny").lines == []


def test_the_check_counts_clips_whose_number_changed_and_names_the_models(project: Project) -> None:
    project.config["suites"] = {
        "mlvp": {"variant": "paper", "perturbations": ["event_insertion", "fog"], "severities": [1]},
        "mm_robustness": {"captions": {"perturbations": ["word_delete"], "severities": [1]}},
    }
    *_, model = summary_of(project, "mlvp_tiny").lines
    assert model == "model of embedding, as backends.embedding.backend: offline: a stand-in"
    *_, model = summary_of(project, "text_mm_robustness_tiny").lines
    assert model == "models of captions, as backends.captions.backend: offline: all-minilm-l6-v2 (a stand-in)"
    config, wanted = wanted_of(project, "mlvp_tiny")
    for (_, suite, name, severity), shards in wanted.clips.items():
        wanted_recipe = recipe.from_config(config, "tiny", suite, name, severity)
        for shard in shards:
            fields = {"dataset": "tiny", "suite": suite, "perturbation": name, "severity": severity, "shard": shard}
            part, marker = (project.root / layout.at(kind, **fields) for kind in ("video_part", "clip_marker"))
            marker.parent.mkdir(parents=True, exist_ok=True)
            marker.touch()
            files.write_part(part, VIDEOS, [clips.video_row(wanted_recipe, item_id=shard)])
    assert not wanted_of(project, "mlvp_tiny")[1].clips
    whole = part.read_bytes()
    part.write_bytes(whole[:-1])
    assert [*wanted_of(project, "mlvp_tiny")[1].clips.values()] == [[part.stem]]
    part.write_bytes(whole)
    project.config["suites"]["mlvp"]["parameters"] = {"fog": {1: {"intensity": 0.5}}}
    assert {scenario[2] for scenario in wanted_of(project, "mlvp_tiny")[1].clips} == {"fog"}


def test_the_command_checks_the_first_corpus_and_names_what_it_does_not_know(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "mlvp_tiny"]) == 1
    assert "config.yaml: no such file" in capsys.readouterr().err
    project.write_config()
    main(["check"])
    alone = capsys.readouterr()
    main(["check", "mlvp_tiny"])
    assert alone == capsys.readouterr()
    assert main(["check", "mlvp_tny"]) == 1
    assert "no target 'mlvp_tny'; did you mean mlvp_tiny?" in capsys.readouterr().err


# --- the machine -----------------------------------------------------------------------------------------------------


def test_models_that_are_not_there_stop_an_evaluation(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    _, wanted = wanted_of(project, "evaluate_tiny")
    model = project.root / "model"
    model.mkdir()

    def errors(pretrained: str) -> list[str]:
        config = config_file.parse({**project.config, "evaluation": {"pretrained": pretrained}})
        return preflight.check(config, wanted).errors

    assert any("it has no config.json" in line for line in errors(str(model)))
    (model / "config.json").write_text("{}")
    assert any("has no tokenizer" in line for line in errors(str(model)))
    (model / "vocab.txt").touch()
    for text, words in (
        ("{", "config.json does not say what it is"),
        ("{}", "no `model_type`"),
        ('{"model_type": "clp"}', "allowed: .*clip.*; did you mean clip"),
        ('{"model_type": "clip"}', r"no \*.safetensors file"),
    ):
        (model / "config.json").write_text(text)
        (line,) = errors(str(model))
        assert re.search(words, line), line
    (model / "model.safetensors").touch()
    assert not errors(str(model))
    assert any("no such folder" in line for line in errors(str(project.root / "nothing")))
    pytest.importorskip("huggingface_hub")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert any("hf download nobody/has-this-model" in line for line in errors("nobody/has-this-model"))
    project.config["evaluation"] = {"pretrained": str(project.root / "nothing")}
    assert not summary_of(project, "mlvp_tiny").errors, "a corpus needs no model"


def test_a_pretrained_backend_is_looked_for_where_a_perturbation_needs_it(project: Project) -> None:
    folder = project.root / "clip"
    project.config["backends"] = {"embedding": {"backend": "pretrained", "clip": str(folder)}}
    project.config["suites"]["mlvp"] = {"variant": "paper", "perturbations": ["fog"], "severities": [1]}
    assert not summary_of(project, "mlvp_tiny").errors
    project.config["suites"]["mlvp"]["perturbations"] = ["event_insertion"]
    planned = wanted_of(project, "mlvp_tiny")

    def message() -> str:
        (line,) = (line for line in preflight.check(*planned).errors if "clip" in line)
        return line

    assert message() == f"backends.embedding.clip: no such folder: {folder}"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    assert message() == f"backends.embedding.clip: {folder} holds no weights: no *.safetensors file"


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
    planned = wanted_of(project, "evaluate_tiny")
    assert any("has no GPUs" in line for line in preflight.check(*planned).errors)
    assert not preflight.check(*planned, local=False).errors


def test_an_encoder_that_is_missing_is_told_once_per_encoder(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "ffmpeg"
    fake.write_text("#!/bin/sh\necho \"Codec 'x' is not recognized by FFmpeg.\"\n")
    fake.chmod(0o755)
    monkeypatch.setattr("perturbations.media.encoding.ffmpeg_program", lambda: str(fake))
    readiness._missing_in_ffmpeg.cache_clear()
    project.config["suites"] = {"transmission": {"perturbations": ["h265_crf", "h265_bitrate", "rain"]}}
    errors = summary_of(project, "transmission_tiny").errors
    readiness._missing_in_ffmpeg.cache_clear()
    (line,) = errors
    assert line.startswith(f"transmission/h265_bitrate: {fake} has no encoder libx265: install imageio-ffmpeg again")


def test_a_missing_path_is_told_with_the_line_of_its_key(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(
        "datasets:\n  tiny:\n    adapter: folder\n    annotations: captions.json\n    videos: nowhere\n"
        "    subset: [lost]\nsuites: {mlvp: {}, mm_robustness: {}}\n"
        "backends: {frost: {images: no_frost}}\nevaluation:\n  pretrained: ./no_model\n"
    )

    def parsed() -> configuration.Config:
        return config_file.of_files([path])

    for key, wrong, right in (
        ("line 8: backends.frost.images", "no_frost", "."),
        ("line 5: datasets.tiny.videos", "nowhere", "videos"),
    ):
        with pytest.raises(ConfigError, match=f"\n  config.yaml, {key}: no such directory: {wrong}$") as caught:
            sharding.plan_clips(parsed(), "tiny")
        assert str(caught.value).count("\n") == 1
        path.write_text(path.read_text().replace(wrong, right))
    with pytest.raises(ConfigError, match=r"config\.yaml, line 6: datasets\.tiny\.subset: not in the annotations"):
        sharding.plan_clips(parsed(), "tiny")
    lines = readiness.problems(parsed(), planning.Work(rules={"evaluate"}), local=False)
    assert lines == ["config.yaml, line 10: evaluation.pretrained: no such folder: ./no_model"]


# --- runs ------------------------------------------------------------------------------------------------------------


def test_a_run_that_cannot_succeed_stops_before_its_first_job(tmp_path: Path) -> None:
    project = new_project(tmp_path, shard_size=50)
    project.write_captions([*IDS, "gone"])
    assert "preflight:" not in project.snakemake("mlvp_tiny", "--dry-run", hooks=True).stderr
    stopped = project.snakemake("mlvp_tiny", check=False, hooks=True)
    assert stopped.returncode == 1
    output = stopped.stdout + stopped.stderr
    assert "this run cannot succeed, and no job was started:\n  tiny: 1 clip missing or unreadable" in output
    assert "Traceback" not in output
    assert not project.outputs()
    checked = project.perturb("check", "mlvp_tiny")
    assert checked.returncode == 1
    assert "preflight: clips of tiny: 4 present, 1 missing; max_failed_items allows 0" in checked.stdout
    assert "no job was started" in checked.stderr
    (tmp_path / "more.yaml").write_text("max_failed_items: 1\n")
    allowed = project.perturb("check", "mlvp_tiny", "--configfile", "more.yaml")
    assert allowed.returncode == 0
    project.config["max_failed_items"] = 1
    run = project.snakemake("mlvp_tiny", "--until", "sources", hooks=True)
    assert "preflight: clips of tiny: 4 present, 1 missing; max_failed_items allows 1" in run.stdout + run.stderr
    assert project.outputs()
