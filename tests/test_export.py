"""Corpora in the layout of X-Pool's and HAT-VTR's released loaders."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import clips
import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch")

from perturbations import cli, export, manifest, open_clip, recipe, registry, shards  # noqa: E402
from perturbations.errors import ManifestError  # noqa: E402
from perturbations.tta import frames  # noqa: E402

NAMES = ["video1", "a/b c", '..\\"quoted" 影片']


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A manifest of three clips, the second of one frame, and of one that is quarantined."""
    folder = tmp_path_factory.mktemp("corpus")
    generator = np.random.default_rng(0)
    rows = []
    for place, name in enumerate(NAMES):
        soft = generator.integers(0, 256, (1 if place == 1 else 30, 6, 8, 3), np.uint8).repeat(10, 1).repeat(10, 2)
        rows.append(clips.source_row(clips.write_scene(folder / f"{place}.mp4", soft), name))
    rows.append({**rows[0], "item_id": "bad", "status": "quarantined", "error": "no frames"})
    manifest.write(folder / "sources.parquet", manifest.SOURCES, rows, {"root": "."})
    return folder / "sources.parquet"


def rows_of(path: Path) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = manifest.read_manifest(path).to_dict("records")
    return made


def test_shape_type_and_normalization(sources: Path, tmp_path: Path) -> None:
    assert export.vtr_tta_videos(sources, tmp_path) == 3
    assert {path.name for path in (tmp_path / "clean").iterdir()} == {"video1.pt", "a_b c.pt", '.._"quoted" 影片.pt'}
    held = torch.load(tmp_path / "clean" / "video1.pt", map_location="cpu", weights_only=True)
    assert held["video_id"] == "video1"
    assert held["video"].shape == (12, 3, 224, 224)
    assert held["video"].dtype == torch.float32
    shown = open_clip(next(row for row in rows_of(sources) if row["item_id"] == "video1"))
    # The middle of each of 12 spans of 30 frames, through Pillow.
    edges = np.linspace(0, 30, 13).astype(int)
    middles = [int(start + end - 1) // 2 for start, end in itertools.pairwise(edges)]
    for place in (0, 5, 11):
        picture = Image.fromarray(shown[middles[place]])
        width, height = picture.size
        picture = picture.resize((int(224 * width / height), 224), Image.Resampling.BICUBIC)
        left = round((picture.width - 224) / 2)
        numbers = np.asarray(picture.crop((left, 0, left + 224, 224)), np.float32) / 255
        expected = ((numbers - frames.MEAN) / frames.STD).transpose(2, 0, 1)
        inside = np.abs(held["video"][place].numpy() - expected)[:, 8:-8, 8:-8]
        # Pillow rounds to levels and clips overshoots at edges.
        assert np.median(inside) < 0.01
        assert inside.mean() < 0.03


def test_a_clip_of_one_frame_is_repeated(sources: Path, tmp_path: Path) -> None:
    export.vtr_tta_videos(sources, tmp_path, num_frames=4, size=32)
    video = torch.load(tmp_path / "clean" / "a_b c.pt", weights_only=True)["video"]
    assert video.shape == (4, 3, 32, 32)
    assert torch.equal(video[0], video[3])


def test_whole_files_stay_and_others_are_written_again(sources: Path, tmp_path: Path) -> None:
    export.vtr_tta_videos(sources, tmp_path, num_frames=2, size=16)
    one, other, third = sorted((tmp_path / "clean").iterdir())
    before = third.read_bytes()
    whole = one.stat().st_mtime_ns
    other.write_bytes(other.read_bytes()[:100])
    torch.save({"video": torch.zeros(1), "video_id": "somebody"}, third)
    export.vtr_tta_videos(sources, tmp_path, num_frames=2, size=16)
    assert one.stat().st_mtime_ns == whole
    assert torch.load(other, weights_only=True)["video"].shape == (2, 3, 16, 16)
    assert torch.load(third, weights_only=True)["video"].shape == (2, 3, 16, 16)
    assert len(third.read_bytes()) == len(before)
    # Another size is another file.
    export.vtr_tta_videos(sources, tmp_path, num_frames=3, size=16)
    assert torch.load(one, weights_only=True)["video"].shape == (3, 3, 16, 16)


TIERS: list[dict[str, Any]] = [
    {"tier": "video", "profile": "lossless"},
    {"tier": "frames", "num_frames": 4},
    {"tier": "recipe"},
]


def noisy(tier: dict[str, Any], path: Path, folder: Path) -> Path:
    """A manifest of one clip under noise."""
    entry = registry.get("mlvp/gaussian_noise")
    made = recipe.make(entry, 5, variant="released", seed=0, storage=recipe.storage_settings(tier))
    source = clips.source_row(path)
    rows = shards.run_videos(
        made, [source], root=folder, folder=folder / "files", journal=folder / "rows.jsonl", stall_limit_s=60
    )
    manifest.write(folder / "videos.parquet", manifest.VIDEOS, list(rows), {"root": "."})
    return folder / "videos.parquet"


def test_every_storage_tier_gives_the_same_frames(sources: Path, tmp_path: Path) -> None:
    found = []
    for place, tier in enumerate(TIERS):
        made = noisy(tier, sources.parent / "0.mp4", tmp_path / str(place))
        export.vtr_tta_videos(made, tmp_path / f"out{place}", num_frames=4, size=32)
        (file,) = (tmp_path / f"out{place}").rglob("*.pt")
        assert file.parent.name == "gaussian_5"
        found.append(torch.load(file, weights_only=True)["video"])
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_ids_that_become_one_name(tmp_path: Path, sources: Path) -> None:
    row = manifest.read_rows(sources)[0]
    path = tmp_path / "sources.parquet"
    manifest.write(path, manifest.SOURCES, [{**row, "item_id": "a/b"}, {**row, "item_id": "a_b"}])
    with pytest.raises(ManifestError, match="'a/b' and 'a_b' are both"):
        export.vtr_tta_videos(path, tmp_path / "out")


def text_row(item_id: str, text: str, accepted: bool) -> dict[str, Any]:
    about = {"suite": "mm_robustness", "perturbation": "word_swap", "severity": 3}
    return {
        **about,
        "caption_id": item_id,
        "item_id": item_id,
        "source_text": "as it was",
        "text": text,
        "accepted": accepted,
    }


def test_captions_are_pairs_in_the_order_of_the_split(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, order = tmp_path / "captions.parquet", tmp_path / "split.csv"
    manifest.write(path, manifest.TEXTS, [text_row("v1", "swapped", True), text_row("v2", "too far", False)])
    order.write_text("key,video_id,sentence\n1,v2,x\n2,v1,y\n")
    arguments = ["export", str(path), "--format", "vtr_tta", "-o", str(tmp_path / "out")]
    assert cli.main(arguments) == 1
    assert "--order" in capsys.readouterr().err
    assert cli.main([*arguments, "--order", str(order)]) == 0
    pairs = json.loads((tmp_path / "out" / "word_swap_3.json").read_text())
    assert pairs == [["v2", "as it was"], ["v1", "swapped"]]
    order.write_text("key,video_id,sentence\n1,v3,x\n")
    with pytest.raises(ManifestError, match="'v3' has 0"):
        export.vtr_tta_captions(path, tmp_path, order)


def test_another_manifest_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "captions.parquet"
    manifest.write(path, manifest.CAPTIONS, [])
    with pytest.raises(ManifestError, match="manifest of captions"):
        export.vtr_tta_videos(path, tmp_path / "out")
