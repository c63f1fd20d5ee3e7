"""The check before the first job: counts, estimates, and what cannot succeed."""

from __future__ import annotations

import os
import shutil
from collections import Counter, namedtuple
from pathlib import Path
from typing import Any

import pytest
from workflow_project import IDS, Project, new_project, tiny_clip

from perturbations.base import shown
from perturbations.base.errors import ConfigError
from perturbations.cli.main import main
from perturbations.config import file as config_file
from perturbations.config import sections as configuration
from perturbations.corpus import check_before_a_run as preflight
from perturbations.corpus.plan import clip_lists, folders, resources, sharding, targets
from perturbations.corpus.store import first_bytes

# --- clips -----------------------------------------------------------------------------------------------------------


def clip_of(path: Path, **span: float) -> clip_lists.ListedClip:
    return clip_lists.ListedClip(
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
    reasons = first_bytes.unreadable(clips)
    assert reasons.pop(str(tmp_path / "cut")).startswith(f"the file ends early: {len(whole) // 2} of ")
    assert reasons == {
        str(tmp_path / "empty"): "the file is empty",
        str(tmp_path / "zeros"): "the file begins with zeros",
        str(tmp_path / "page"): "the file holds text",
    }


def test_a_sample_tells_how_much_is_stored_per_clip(tmp_path: Path) -> None:
    tiny_clip(tmp_path / "0.mp4", seed=0, frames=20, size=(48, 64))
    for index in range(1, 30):
        shutil.copy(tmp_path / "0.mp4", tmp_path / f"{index}.mp4")
    clips = [clip_of(path) for path in sorted(tmp_path.glob("*.mp4"))]
    assert resources.mean_pixels(clips, None) == resources.mean_pixels(clips[::-1], None) == 20 * 48 * 64
    assert resources.mean_pixels([clip_of(tmp_path / "0.mp4", start_s=0.5, end_s=1.5)], None) == 10 * 48 * 64
    assert resources.mean_pixels(clips, 12) == 12 * 48 * 64
    (tmp_path / "clip.mp4").write_bytes(b"\0\0\0\x20ftypisom" + bytes(200))
    assert resources.mean_pixels([clip_of(tmp_path / "clip.mp4")], None) is None
    assert resources.mean_pixels([], None) is None


# --- what is wanted --------------------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    return new_project(tmp_path, shard_size=2)


def checked(project: Project, *names: str, **changes: Any) -> preflight.Report:
    config = config_file.parse({**project.config, **changes})
    return preflight.check(config, targets.named(config, names))


def test_an_evaluation_wants_only_the_clips_that_it_asks_with(project: Project) -> None:
    project.config["evaluation"] = {"severities": [3], "directions": ["v2t"]}
    (work,) = targets.named(config_file.parse(project.config), ["evaluate_tiny"])
    assert {scenario[2:] for scenario in work.clips} == {("fog", 3), ("gaussian_noise", 3)}


# --- the summary -----------------------------------------------------------------------------------------------------

Usage = namedtuple("Usage", "total used free")


def test_the_summary_counts_clips_and_bytes(project: Project) -> None:
    clips, videos, disk = checked(project, "mlvp_tiny").text()
    assert clips == "check: tiny: 4 of 4 clips found (0 may be missing or damaged: max_failed_items)"
    assert videos == "check: to make: 16 perturbed videos"
    assert disk.startswith("check: disk: about ")


def test_missing_and_unreadable_clips_over_max_failed_items_cannot_succeed(project: Project) -> None:
    (project.root / "videos/b.mp4").write_bytes(b"")
    project.write_captions([*IDS, "gone"])
    summary = checked(project, "mlvp_tiny")
    assert "tiny: 3 of 5 clips found, 1 missing, 1 unreadable (0 may be missing or damaged" in summary.lines[0]
    with pytest.raises(ConfigError, match="2 clips cannot be used") as caught:
        summary.raise_errors()
    assert "'gone': missing: no gone.mp4" in str(caught.value)
    assert "videos/b.mp4: the file is empty" in str(caught.value)
    assert "replace these files, or leave them out" in str(caught.value)
    assert "datasets.tiny.subset), or set datasets.tiny.max_failed_items: 2" in str(caught.value)
    checked(project, "mlvp_tiny", max_failed_items=2).raise_errors()
    evaluated = checked(project, "evaluate_tiny")
    assert not evaluated.errors
    assert "2 clips cannot be used" in evaluated.warnings[0]


def test_a_span_that_ends_before_it_begins_is_a_line_to_correct(project: Project) -> None:
    lines = [f"{item},a caption,{start},1" for item, start in zip(IDS, (2, 0, 0, 0), strict=True)]
    (project.root / "spans.csv").write_text("\n".join(["item_id,caption,from,to", *lines]))
    spans = {"columns": {"start_s": "from", "end_s": "to"}, "annotations": str(project.root / "spans.csv")}
    project.config["datasets"]["tiny"] |= spans
    (line,) = checked(project, "mlvp_tiny").errors
    assert "(spans.csv, line 2)\n    correct these lines, or leave them out" in line
    assert "files" not in line


def test_a_folder_that_cannot_be_written_is_named(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("corpora").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "corpora")
    assert checked(project, "mlvp_tiny").errors == [f"disk: the folder {Path.cwd() / 'corpora'} cannot be written"]


def test_too_little_space_stops_the_run_and_too_tight_space_is_a_warning(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "stored_bytes", lambda *_: 4e9)
    for share, errors, warnings in ((0.3, 1, 0), (0.5, 0, 1), (0.9, 0, 1), (1.5, 0, 0)):
        usage = Usage(0, 0, int(share * 4e9))
        monkeypatch.setattr(shutil, "disk_usage", lambda path, usage=usage: usage)
        summary = checked(project, "mlvp_tiny")
        assert (len(summary.errors), len(summary.warnings)) == (errors, warnings)
        for line in (*summary.errors, *summary.warnings):
            assert "about 4.0 GB" in line
            assert f"{share * 4:.1f} GB free" in line


def test_what_is_stored_follows_the_tier_the_frames_and_the_clips(project: Project) -> None:
    def stored(**storage: Any) -> tuple[str, str]:
        videos, disk = checked(project, "mlvp_tiny", storage=storage).lines[1:]
        return videos, disk.partition(" to store")[0]

    def stored_bytes(**storage: Any) -> float:
        config = config_file.parse({**project.config, "storage": storage})
        size = preflight.stored_bytes(config, Counter(tiny=16), {"tiny": listed_clips})
        assert size is not None
        return size

    sharding.plan_clips(config_file.parse(project.config), "tiny")
    shards = clip_lists.read_folder(Path("work/tiny/shards"), clip_lists.ListedClip)
    listed_clips = [clip for members in shards.values() for clip in members]
    high = stored_bytes(tier="video")
    assert 0 < 4 * stored_bytes(tier="video", profile="compatible") < high
    assert stored_bytes(tier="recipe") == 0
    assert stored_bytes(tier="frames", num_frames=12) == pytest.approx(3 * stored_bytes(tier="frames", num_frames=4))
    assert stored(tier="video") == ("to make: 16 perturbed videos", f"disk: about {shown.size(round(high))}")
    for path in (project.root / "videos").iterdir():
        path.write_bytes(bytes(500))
    assert "about" not in stored(tier="video")[1]
    assert stored(tier="recipe")[1] == "disk: about 0 B"


def test_targets_name_their_models_and_what_is_made_already_is_not_counted(project: Project) -> None:
    project.config["suites"] = {
        "mlvp": {"variant": "paper", "perturbations": ["event_insertion", "fog"], "severities": [1]},
        "mm_robustness": {"captions": {"perturbations": ["word_delete"], "severities": [1]}},
    }
    *_, model = checked(project, "mlvp_tiny").lines
    assert model == "model of embedding, as backends.embedding.backend: offline: a stand-in"
    config = config_file.parse(project.config)
    captions, evaluation = targets.named(config, ["text_mm_robustness_tiny", "evaluate_tiny"])
    assert "models of captions, as backends.captions.backend: offline: all-minilm-l6-v2 (a stand-in)" in captions.sizes
    assert evaluation.sizes[-1].startswith("model of the evaluation: a stand-in, the small encoder")
    assert checked(project, "text_mm_robustness_tiny").lines == []
    shards = sharding.plan_clips(config, "tiny").shards
    for path in folders.clip_inputs(config, "tiny", "mlvp", [("fog", 1)], shards):
        (project.root / path).parent.mkdir(parents=True, exist_ok=True)
        (project.root / path).touch()
    assert "to make: 4 perturbed videos" in checked(project, "mlvp_tiny").lines


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


def test_a_pretrained_backend_is_looked_for_where_a_perturbation_needs_it(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("huggingface_hub")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    project.config["backends"] = {"embedding": {"backend": "pretrained", "clip": "nobody/has-this-model"}}
    project.config["suites"]["mlvp"] = {"variant": "paper", "perturbations": ["fog"], "severities": [1]}
    assert not checked(project, "mlvp_tiny").errors
    project.config["suites"]["mlvp"]["perturbations"] = ["event_insertion"]
    (line,) = (line for line in checked(project, "mlvp_tiny").errors if "clip:" in line)
    assert line.startswith("backends.embedding.clip: nobody/has-this-model: neither a folder nor downloaded: `hf ")
    project.config["evaluation"] = {"model": "./no_model"}
    assert "evaluation.model: ./no_model: no such folder" in checked(project, "evaluate_tiny").errors
    (project.root / "clip").mkdir()
    project.config["backends"]["embedding"]["clip"] = str(project.root / "clip")
    assert not [line for line in checked(project, "mlvp_tiny").errors if "clip:" in line]


def test_a_missing_path_is_told_with_the_line_of_its_key(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(
        "datasets:\n  tiny:\n    adapter: folder\n    annotations: captions.json\n    videos: nowhere\n"
        "    subset: [lost]\nsuites: {mlvp: {}, mm_robustness: {}}\n"
        "backends: {frost: {images: no_frost}}\nevaluation:\n  model: ./no_model\n"
    )

    def parsed() -> configuration.Config:
        return config_file.read_config([path])

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


# --- runs ------------------------------------------------------------------------------------------------------------


def test_a_run_that_cannot_succeed_stops_before_its_first_job(tmp_path: Path) -> None:
    project = new_project(tmp_path, shard_size=50)
    project.write_captions([*IDS, "gone"])
    assert "check:" not in project.snakemake("mlvp_tiny", "--dry-run", hooks=True).stderr
    stopped = project.snakemake("mlvp_tiny", check=False, hooks=True)
    assert stopped.returncode == 1
    output = stopped.stdout + stopped.stderr
    assert "this run cannot succeed, and no job was started:\n  tiny: 1 clip cannot be used" in output
    assert "Traceback" not in output
    assert not project.outputs()
    checked = project.perturb("check", "mlvp_tiny")
    assert checked.returncode == 1
    assert "check: tiny: 4 of 5 clips found, 1 missing (0 may be" in checked.stdout
    assert "no job was started" in checked.stderr
    (tmp_path / "more.yaml").write_text("max_failed_items: 1\n")
    allowed = project.perturb("check", "mlvp_tiny", "--configfile", "more.yaml")
    assert allowed.returncode == 0
    project.config["max_failed_items"] = 1
    idle = project.snakemake("mlvp_tiny", cores=0, check=False, hooks=True)
    assert idle.returncode == 1
    assert "no job can start with --cores 0 or --jobs 0: give a number from 1" in idle.stderr
    run = project.snakemake("mlvp_tiny", "--until", "sources", hooks=True)
    assert "check: tiny: 4 of 5 clips found, 1 missing (1 may be" in run.stdout + run.stderr
    assert project.outputs()
