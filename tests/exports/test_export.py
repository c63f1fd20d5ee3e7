"""Corpora in the layout of X-Pool's and HAT-VTR's released loaders."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import clips
import numpy as np
import pytest
from export_readers import export
from PIL import Image

torch = pytest.importorskip("torch")

from perturbations import open_clip, read_manifest
from perturbations.base.errors import ManifestError
from perturbations.cli.main import main
from perturbations.corpus.plan import caption_recipes, tiers
from perturbations.corpus.store import clip_rows as manifest_rows
from perturbations.manifest import files
from perturbations.manifest.rows import SOURCES, TEXTS, VIDEOS, CompleteSource, SourceRow, TextRow
from perturbations.pages import preview_sheet
from perturbations.suites import suite_registry

pytestmark = pytest.mark.usefixtures("in_this_process")

NAMES = ["video1", "a/b c", '..\\"quoted" 影片']


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A manifest of three clips, the second of one frame, and of one that is quarantined."""
    folder = tmp_path_factory.mktemp("corpus")
    generator = np.random.default_rng(0)
    rows: list[SourceRow] = []
    for place, name in enumerate(NAMES):
        soft = generator.integers(0, 256, (1 if place == 1 else 30, 6, 8, 3), np.uint8).repeat(10, 1).repeat(10, 2)
        rows.append(clips.source_row(clips.write_scene(folder / f"{place}.mp4", soft), name))
    bad = clips.listed(folder / "0.mp4", "bad")
    rows.append(manifest_rows.quarantined_source("data", bad, "no frames"))
    files.write(folder / "sources.parquet", SOURCES, rows, {"root": "."})
    return folder / "sources.parquet"


def beside(sources: Path, rows: Sequence[SourceRow]) -> Path:
    """Another manifest of the same clips."""
    files.write(sources.with_name("other.parquet"), SOURCES, rows, {"root": "."})
    return sources.with_name("other.parquet")


def loaded(folder: Path, video_id: str) -> torch.Tensor:
    """A video as the released loaders find it: by this name, on the CPU, the one entry `video`."""
    name = video_id.replace("/", "_").replace("\\", "_")
    video: torch.Tensor = torch.load(f"{folder}/{name}.pt", map_location="cpu", weights_only=True)["video"]
    return video


def x_pool_indices(num_frames: int, total: int) -> list[int]:
    """The middle of each of equal spans; the last one again where frames are too few."""
    edges = np.linspace(0, total, min(num_frames, total) + 1).astype(int)
    middles = [int(start + end - 1) // 2 for start, end in itertools.pairwise(edges)]
    return middles + middles[-1:] * (num_frames - len(middles))


def x_pool_transform(frame: np.ndarray, size: int) -> np.ndarray:
    """Pillow's bicubic resizing of one channel of floats after another, the middle, CLIP's mean and deviation."""
    height, width = frame.shape[:2]
    sides = (size * width // height, size) if width >= height else (size, size * height // width)
    left, top = (round((side - size) / 2) for side in sides)
    channels = []
    for channel, mean, deviation in zip(
        np.moveaxis(frame, 2, 0),
        (0.48145466, 0.4578275, 0.40821073),
        (0.26862954, 0.26130258, 0.27577711),
        strict=True,
    ):
        picture = Image.fromarray(channel.astype(np.float32) / 255).resize(sides, Image.Resampling.BICUBIC)
        channels.append((np.asarray(picture)[top : top + size, left : left + size] - mean) / deviation)
    return np.stack(channels)


def check_video(video: torch.Tensor, row: Any) -> None:
    """Whether a video is what X-Pool's own transform gives of a row's frames."""
    shown = open_clip(row)
    expected = np.stack([x_pool_transform(shown[index], 224) for index in x_pool_indices(12, len(shown))])
    assert np.abs(video.numpy() - expected).max() < 1e-4


def test_the_loaders_get_what_x_pool_s_own_transform_gives(sources: Path, tmp_path: Path) -> None:
    done = export("vtr_tta", sources, tmp_path)
    assert (done.written, done.failed) == (3, ())
    rows = {row["item_id"]: row for row in read_manifest(sources).to_dict("records")}
    for name in NAMES:
        video = loaded(tmp_path / "clean", name)
        assert video.shape == (12, 3, 224, 224)
        assert video.dtype == torch.float32
        assert video.is_contiguous()
        check_video(video, rows[name])


@pytest.mark.parametrize("name", ["translate", "sampling", "freeze"])
def test_clips_of_another_size_or_length_are_exported_and_drawn(sources: Path, tmp_path: Path, name: str) -> None:
    """Sheets, too, show the perturbed clip beside a clean one of another size."""
    clean = next(row for row in files.read_rows(sources, SOURCES) if row.item_id == "video1")
    assert isinstance(clean, CompleteSource)
    clean = replace(clean, path=str(sources.parent / clean.path))
    row = clips.made_row(f"msrvtt_p/{name}", tiers.UNSTORED, clean, tmp_path, severity=5)
    assert (row.frame_count, row.height, row.width) != (30, 60, 80)
    files.write(tmp_path / "videos.parquet", VIDEOS, [row], {"root": "."})
    done = export("vtr_tta", tmp_path / "videos.parquet", tmp_path / "out")
    assert (done.written, done.failed) == (1, ())
    check_video(loaded(next((tmp_path / "out").iterdir()), "video1"), row)
    sheet = tmp_path / "sheet.png"
    preview_sheet.preview(tmp_path / "videos.parquet", sheet)
    assert sheet.stat().st_size


def test_a_clip_of_one_frame_is_repeated(sources: Path, tmp_path: Path) -> None:
    export("vtr_tta", sources, tmp_path, num_frames=4, size=32)
    video = loaded(tmp_path / "clean", "a/b c")
    assert video.shape == (4, 3, 32, 32)
    assert all(torch.equal(frame, video[0]) for frame in video)


def test_a_clip_that_cannot_be_read_costs_no_other(
    sources: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = files.read_rows(sources, SOURCES)
    sound = next(row for row in rows if row.status == "complete")
    gone = replace(sound, item_id="gone", path="gone.mp4")
    changed = replace(sound, item_id="changed", sha256="0" * 64)
    path = beside(sources, [gone, changed, *rows])
    arguments = ["export", str(path), "--format", "vtr_tta", "--size", "16", "-o", str(tmp_path)]
    assert main(arguments) == 1
    output = capsys.readouterr().out
    assert f"{path}: gone: no such file" in output
    assert f"changed: {Path(sound.path).name} is not the file that" in output  # without its folder: it is published
    assert "3 videos written, 2 failed, 1 quarantined" in output
    assert loaded(tmp_path / "clean", "video1").shape == (12, 3, 16, 16)


def test_what_lies_in_the_folder_is_replaced(sources: Path, tmp_path: Path) -> None:
    export("vtr_tta", sources, tmp_path, num_frames=2, size=16)
    file = tmp_path / "clean/video1.pt"
    before = file.read_bytes()
    for content in (b"", before[: len(before) // 2]):
        file.write_bytes(content)
        assert export("vtr_tta", sources, tmp_path, num_frames=2, size=16).written == 3
        assert file.read_bytes() == before
    export("vtr_tta", sources, tmp_path, num_frames=3, size=24)
    assert loaded(tmp_path / "clean", "video1").shape == (3, 3, 24, 24)


def test_leftovers_of_a_killed_run_are_removed(sources: Path, tmp_path: Path) -> None:
    leftover = tmp_path / "clean" / ".video1.part-0123456789ab.pt"
    leftover.parent.mkdir()
    leftover.write_bytes(b"half")
    export("vtr_tta", sources, tmp_path, num_frames=2, size=16)
    assert not leftover.exists()


TIERS: list[tiers.Storage] = [
    tiers.stored_video("lossless"),
    tiers.stored_frames(4),
    tiers.UNSTORED,
]


def test_every_storage_tier_gives_the_same_frames_or_says_why_it_gives_none(sources: Path, tmp_path: Path) -> None:
    videos = []
    for place, tier in enumerate(TIERS):
        folder, out = tmp_path / str(place), tmp_path / f"out{place}"
        source = clips.source_row(sources.parent / "0.mp4")
        row = clips.made_row("mlvp/gaussian_noise", tier, source, folder, severity=5)
        manifest = folder / "videos.parquet"
        files.write(manifest, VIDEOS, [replace(row, path=row.path and Path(row.path).name)], {"root": "."})
        if tier["tier"] == "frames":
            with pytest.raises(ManifestError, match="frames/4 only, not 12"):
                export("vtr_tta", manifest, out)
        export("vtr_tta", manifest, out, num_frames=4, size=32)
        (file,) = out.rglob("*.pt")
        assert file.parent.name == "gaussian_5"
        videos.append(torch.load(file, weights_only=True)["video"])
        if row.path is not None:
            stored = Path(row.path)
            stored.write_bytes(stored.read_bytes() + b"x")
            for expected in ("changed since it was made", "the file is missing"):
                (problem,) = export("vtr_tta", manifest, tmp_path / "none", num_frames=4, size=32).failed
                assert expected in str(problem)
                stored.unlink(missing_ok=True)
            assert not list((tmp_path / "none").rglob("*.pt"))
    assert torch.equal(videos[0], videos[1])
    assert torch.equal(videos[0], videos[2])


FILE_NAMES = ["plain", "..", ".", "l\nine", "q\"u,o'te", "影片", "-rf", "$(x)"]
RENAMED = {"../../up": ".._.._up", "=cmd|' /C calc'!A0": "=cmd|' _C calc'!A0", "@SUM(1/2)": "@SUM(1_2)"}
"""Names that the loaders look for with another one."""
OF_OTHER_CASE = ["Clip", "clip", "caf\u00e9", "cafe\u0301"]  # one file to some file systems
IN_NO_FILE = ["a/b", "a_b", "nul\0", "x" * 300, "", *OF_OTHER_CASE, ".x.part-0123456789ab"]


def test_every_id_has_the_file_that_the_loaders_look_for_or_none(sources: Path, tmp_path: Path) -> None:
    row = next(row for row in files.read_rows(sources, SOURCES) if row.item_id == "video1")
    named = {**{name: name for name in FILE_NAMES}, **RENAMED}
    path = beside(sources, [replace(row, item_id=name) for name in (*named, *IN_NO_FILE)])
    out = tmp_path / "deep" / "out"
    done = export("vtr_tta", path, out, num_frames=1, size=8)
    assert (done.written, len(done.failed)) == (len(named), len(IN_NO_FILE))
    assert {problem for _, problem in done.failed} == {
        "no file can have the name that the loader looks for, or another id has it"
    }
    held = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert {file.parent for file in held} == {out / "clean"}
    assert {torch.load(file, weights_only=True)["video_id"]: file.name.removesuffix(".pt") for file in held} == named


def text_row(item_id: str, text: str, accepted: bool = True, number: int = 0) -> TextRow:
    return clips.text_row(
        caption_recipes.make(suite_registry.get("mm_robustness/word_swap"), 3),
        caption_id=f"{item_id}#{number}",
        item_id=item_id,
        backend="rules",
        text=text,
        similarity=0.95 if accepted else 0.1,
        accepted=accepted,
        recipe_id="",
    )


def test_captions_are_pairs_in_the_order_of_the_split(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, order = tmp_path / "captions.parquet", tmp_path / "split.csv"
    files.write(path, TEXTS, [text_row("v1", "swapped", True), text_row("v2", "too far", False)])
    order.write_text("key,video_id,sentence\n1,v2,x\n2,v1,y\n")
    arguments = ["export", str(path), "--format", "vtr_tta", "-o", str(tmp_path / "out")]
    assert main(arguments) == 1
    assert "--order" in capsys.readouterr().err
    assert main([*arguments, "--order", str(order)]) == 0
    pairs = json.loads((tmp_path / "out" / "word_swap_3.json").read_text())
    assert pairs == [["v2", "as it was"], ["v1", "swapped"]]
    order.write_text("key,video_id,sentence\n1,v3,x\n1,v2,x\n")
    with pytest.raises(ManifestError, match="1 of the 2 videos .* no caption word_swap_3 .*: 'v3'"):
        export("vtr_tta", path, tmp_path, "captions", order=order)


SPLITS = {
    "msrvtt.csv": 'key,vid_key,video_id,sentence\nret0,m,v2,"one, two"\nret1,m,v1,three\n',
    "msvd.txt": "v2\r\nv1\n\n",
    "lsmdc.csv": "v2\t1\t2\t1\t2\tone, two\nv1\t1\t2\t1\t2\tthree\n"
    "1012_Unbreakable_00.05.16.065-00.05.21.941\t1\t2\t1\t2\tnot loaded\n",
    "activitynet.jsonl": '{"clip_id": "v2", "text": "one"}\n{"clip_id": "v1", "text": "two"}\n',
}


@pytest.mark.parametrize("name", SPLITS)
def test_the_split_s_own_file_gives_the_order(tmp_path: Path, name: str) -> None:
    path, order = tmp_path / "captions.parquet", tmp_path / name
    rows = [text_row("v1", "été"), *(text_row("v2", f"caption {number}", number=number) for number in (10, 9, 2))]
    files.write(path, TEXTS, rows)
    order.write_text(SPLITS[name])
    assert str(export("vtr_tta", path, tmp_path, "captions", order=order)).startswith("1 file written, 0 failed")
    written = (tmp_path / "word_swap_3.json").read_bytes()
    assert written.isascii()  # the loader opens it in its machine's encoding
    assert json.loads(written) == [["v2", "caption 2"], ["v1", "été"]]


@pytest.mark.parametrize("text", ["", "id,text\nv1,x\n", "\xff", None])
def test_a_file_that_lists_no_split_is_refused(tmp_path: Path, text: str | None) -> None:
    path, order = tmp_path / "captions.parquet", tmp_path / "split.csv"
    files.write(path, TEXTS, [text_row("v1", "x")])
    if text is not None:
        order.write_bytes(text.encode("latin-1"))
    with pytest.raises(ManifestError, match="split.csv"):
        export("vtr_tta", path, tmp_path, "captions", order=order)
