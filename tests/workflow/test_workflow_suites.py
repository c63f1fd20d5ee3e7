"""The suites beside MLVP through the workflow: draws by the frame, frost, cards, transmission and tampering."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import clips
import cv2
import numpy as np
import pandas as pd
import pytest
from kernel_scenes import scene
from workflow_project import Project, copy_of, folders, is_rendered_again, tiny_clip

from perturbations import perturb, read_manifest
from perturbations.corpus.plan import recipe, tiers
from perturbations.corpus.render import clean_clips, rendering
from perturbations.media.clean_clip import CleanClip
from perturbations.media.clip import Frame, MediaClip
from perturbations.suites import suite_registry

CAPTIONS = {"perturbations": ["char_swap"], "severities": [1]}
NAMES = ["gaussian_noise", "frost", "brightness", "stylize"]
MANIFESTS = {
    suite: f"manifests/tiny/{suite}/videos.parquet"
    for suite in ("mm_robustness", "msrvtt_p", "transmission", "tampering")
}
FRAMES = scene(6, 48, 64)


def new_project(root: Path, **config: Any) -> Project:
    for index, name in enumerate("abc"):
        tiny_clip(root / "videos" / f"{name}.mp4", seed=index, frames=20, size=(48, 64))
    project = Project(
        root,
        {
            "datasets": {"tiny": {"adapter": "folder", "annotations": "captions.json", "videos": "videos"}},
            "suites": {
                "mm_robustness": {"perturbations": NAMES, "severities": [1, 5], "captions": CAPTIONS},
                "msrvtt_p": {"perturbations": ["shot_noise", "jumble"], "severities": [5]},
                "transmission": {"perturbations": ["packet_loss", "h265_crf"], "severities": [5]},
                "tampering": {"perturbations": ["substitute", "drop"], "severities": [5]},
            },
            **config,
        },
    )
    project.write_captions(["a", "b", "c"])
    return project


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose run has ended well. Not to be changed: use `project`."""
    project = new_project(tmp_path_factory.mktemp("finished"))
    project.snakemake(*MANIFESTS.values())
    project.snakemake("text_mm_robustness_tiny")
    return project


@pytest.fixture
def project(finished: Project, tmp_path: Path) -> Project:
    return copy_of(finished, tmp_path / "project")


def videos_of(project: Project, suite: str = "mm_robustness") -> pd.DataFrame:
    return read_manifest(project.root / MANIFESTS[suite])


def test_both_suites_are_made_and_check_out(finished: Project) -> None:
    assert len(videos_of(finished)) == 3 * 4 * 2
    assert len(videos_of(finished, "msrvtt_p")) == 3 * 2
    draws = {row.perturbation: row.draw for _, row in videos_of(finished).iterrows()}
    assert draws == {"gaussian_noise": "clip", "frost": "clip", "brightness": "none", "stylize": "clip"}
    assert set(videos_of(finished, "msrvtt_p").query("perturbation == 'shot_noise'")["draw"]) == {"frame"}
    comparability = videos_of(finished).attrs["comparability"]
    assert "frost (frost)" in comparability
    assert "stylize (style)" in comparability


def test_draws_by_the_frame_remake_what_is_drawn(project: Project) -> None:
    project.config["suites"]["mm_robustness"]["draw"] = "frame"
    rerun = folders(project.rerun(MANIFESTS["mm_robustness"]))
    assert rerun == {
        f"tiny/mm_robustness/{name}/{severity}" for name in ("gaussian_noise", "frost") for severity in (1, 5)
    }
    noise = videos_of(project).query("perturbation == 'gaussian_noise'")
    assert set(noise["draw"]) == {"frame"}
    assert is_rendered_again(noise.iloc[0].to_dict())


def test_photographs_of_frost(project: Project) -> None:
    (project.root / "ice").mkdir()
    for seed in range(3):
        image = np.random.default_rng(seed).integers(200, 256, (400, 600, 3), dtype=np.uint8)
        cv2.imwrite(str(project.root / "ice" / f"ice {seed}.png"), image)
    project.config["backends"] = {"frost": {"images": "ice"}}
    assert folders(project.rerun(MANIFESTS["mm_robustness"])) == {
        "tiny/mm_robustness/frost/1",
        "tiny/mm_robustness/frost/5",
    }
    frosted = videos_of(project).query("perturbation == 'frost'")
    assert {len(json.loads(guide)["frost"]) for guide in frosted["guide"]} == {64}  # a SHA-256
    assert all(json.loads(backend)["frost"]["backend"] == "photographs" for backend in frosted["backend"])
    assert "frost (frost)" not in videos_of(project).attrs["comparability"]
    by_item = frosted.groupby("item_id")["guide"].nunique()
    assert (by_item == 1).all(), "the severities of a clip share a photograph"
    assert is_rendered_again(frosted.iloc[0].to_dict())
    (project.root / "ice" / "ice 0.png").write_bytes(b"no longer a picture")
    for name in ("ice 1.png", "ice 2.png"):
        (project.root / "ice" / name).unlink()
    verified = project.output_of("verify", "--render", "manifests/tiny/mm_robustness", status=1)
    assert "missing or changed" in verified


def test_suites_of_transport_are_made_check_out_and_are_exported(finished: Project, tmp_path: Path) -> None:
    for suite in ("transmission", "tampering"):
        assert len(videos_of(finished, suite)) == 2 * 3
        assert set(videos_of(finished, suite)["status"]) == {"complete"}
    assert set(videos_of(finished, "tampering").query("perturbation == 'drop'")["frame_count"]) == {20 - 14}
    manifest = str(finished.root / "manifests/tiny/tampering/videos.parquet")
    finished.output_of("export", manifest, "--format", "vtr_tta", "-o", str(tmp_path / "out"))
    assert len(list((tmp_path / "out").rglob("*.pt"))) == 2 * 3


@pytest.mark.parametrize("suite", ["transmission", "tampering"])
def test_a_suite_regenerated_from_its_recipes_checks_out(finished: Project, tmp_path: Path, suite: str) -> None:
    finished.check_published(suite, tmp_path)


def test_without_a_sound_donor_only_what_needs_one_is_missing(finished: Project, tmp_path: Path) -> None:
    project = Project(tmp_path / "project", json.loads(json.dumps(finished.config)))
    shutil.copytree(finished.root / "videos", project.root / "videos")
    project.write_captions(["a", "b", "c"])
    project.config["max_failed_items"] = 6
    whole = (project.root / "videos" / "b.mp4").read_bytes()
    (project.root / "videos" / "b.mp4").write_bytes(whole[: len(whole) // 2])
    (project.root / "videos" / "c.mp4").unlink()
    project.snakemake(MANIFESTS["transmission"], MANIFESTS["tampering"])
    tampered = videos_of(project, "tampering")
    assert set(tampered.query("status == 'complete'")["perturbation"]) == {"drop"}
    assert set(tampered.query("status == 'complete'")["item_id"]) == {"a"}
    quarantined = read_manifest(project.root / "manifests/tiny/tampering/quarantine.parquet")
    reasons = quarantined.query("item_id == 'a'")["error"]
    assert len(reasons) == 1
    assert "no other clip" in reasons.iloc[0]
    assert set(videos_of(project, "transmission").query("status == 'complete'")["item_id"]) == {"a"}
    project.output_of("verify", "--render")


FRAME_BY_FRAME = [entry.key for entry in suite_registry.perturbations("msrvtt_p", "video") if entry.draw == "frame"]


@pytest.mark.parametrize("key", FRAME_BY_FRAME)
def test_a_frames_draw_depends_on_the_key_and_its_place_only(key: str) -> None:
    """Not on the clip's length, not on the frames before, and it differs from the next one's."""
    settings: dict[str, Any] = {"seed": 3, "item_id": "it", "fps": 25.0}
    whole = perturb(FRAMES, key, 4, **settings)
    assert np.array_equal(perturb(FRAMES[:2], key, 4, **settings), whole[:2])
    other = FRAMES.copy()
    other[:3] = 255 - other[:3]
    assert np.array_equal(perturb(other, key, 4, **settings)[3:], whole[3:])
    still = perturb(np.repeat(FRAMES[:1], 6, axis=0), key, 4, **settings)
    assert len({frame.tobytes() for frame in still}) > 3


DRAWN = [
    entry.key
    for entry in suite_registry.perturbations("mm_robustness", "video")
    if entry.realization is not None and entry.method == "pixel"
]


class Still(CleanClip):
    """A clip that shows one picture."""

    def frames(self, only: Collection[int] | None = None) -> Iterator[Frame]:
        return (Frame(FRAMES[0], index, index) for index in range(self.num_frames))


@pytest.mark.parametrize("key", DRAWN)
def test_mm_robustness_draws_by_the_clip_or_by_the_frame(key: str) -> None:
    def changed(draw: suite_registry.Draw | None, num_frames: int = 4) -> list[bytes]:
        wanted = recipe.make(suite_registry.get(key), 3, seed=0, storage=tiers.UNSTORED, draw=draw)
        source = Still("data", "it", MediaClip(Path()), "", num_frames, 64, 48, clips.TIMING)
        planned = rendering.planned_clip(wanted, replace(source, facts=clean_clips.facts_now(wanted, source)))
        return [frame.image.tobytes() for frame in planned.frames()]

    assert len(set(changed(None))) == 1
    assert changed("clip") == changed(None)
    assert len(set(changed("frame"))) == 4
    assert changed("frame", 2) == changed("frame")[:2]
