"""Pictures as items: what is read, refused and made of them, and the adapters that list them."""

from __future__ import annotations

import io
import json
import tarfile
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import clips
import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml
from export_readers import Searcher, export, exported_module, known_scores
from page_rows import DRAWN, OF_VIDEOS, rows_of, saved
from PIL import Image

from perturbations.api.clip_opening import open_clip
from perturbations.base import limits, shown
from perturbations.base.errors import ConfigError, MediaError
from perturbations.cli.main import main
from perturbations.config import file as config_file
from perturbations.corpus import corpus_card, tally
from perturbations.corpus.plan import items as reading
from perturbations.corpus.plan import recipe, resources, tiers, video_files
from perturbations.corpus.plan.clip_lists import ListedClip
from perturbations.corpus.store import first_bytes
from perturbations.datasets.adapter_registry import Dataset
from perturbations.manifest import sets
from perturbations.media import decoding, encoding, probing, stills
from perturbations.media.clip import MediaClip, Timing
from perturbations.media.profiles import PICTURES
from perturbations.suites import suite_registry

pytestmark = pytest.mark.usefixtures("in_this_process")


# --- reading ----------------------------------------------------------------------------------------------------------


def test_a_picture_is_one_frame_and_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # shown after a quarter turn clockwise
    path = saved(tmp_path / "a name's ü.png", Image.fromarray(DRAWN), exif=exif)
    (frame,) = decoding.decode(MediaClip(path))
    assert np.array_equal(frame.image, np.rot90(DRAWN, -1))
    info = probing.probe(path)
    assert (info.width, info.height, info.rotation, info.codec) == (24, 40, 90, "png")
    assert list(decoding.decode(MediaClip(path), only={1})) == []
    clips = [ListedClip(item_id=name, source_video_id=name, path=str(path), bytes=9) for name in "ab"]
    assert resources.mean_pixels(clips, None) == 24 * 40, "known before a run"
    with pytest.raises(MediaError, match="one frame, not 2"):
        encoding.encode([frame] * 2, tmp_path / "b.png", PICTURES["png"], Timing(Fraction(1), Fraction(1)))


@pytest.mark.parametrize(
    ("name", "picture", "losses"),
    [
        ("grey.png", Image.fromarray(DRAWN[:, :, 0]), ()),
        ("palette.png", Image.fromarray(DRAWN).quantize(), ()),
        ("alpha.png", Image.fromarray(np.dstack([DRAWN, DRAWN[:, :, 0]])), ("alpha",)),
        ("alpha.webp", Image.fromarray(np.dstack([DRAWN, DRAWN[:, :, 0]])), ("alpha",)),
    ],
)
def test_what_is_converted_is_said(tmp_path: Path, name: str, picture: Image.Image, losses: tuple[str, ...]) -> None:
    path = saved(tmp_path / name, picture, lossless=True, exact=True)
    assert np.array_equal(stills.read(path), np.asarray(picture.convert("RGB")))
    assert probing.probe(path).losses == losses


def sixteen_bits(path: Path) -> None:
    Image.fromarray(DRAWN[:, :, 0].astype(np.uint16) * 257).save(path)


def animated(path: Path) -> None:
    Image.fromarray(DRAWN).save(path, save_all=True, append_images=[Image.fromarray(255 - DRAWN)])


def cut_short(path: Path) -> None:
    Image.fromarray(DRAWN).save(path)
    path.write_bytes(path.read_bytes()[:-40])


@pytest.mark.parametrize(
    ("name", "make", "reason"),
    [
        ("a.png", sixteen_bits, "16 bits"),
        ("a.png", animated, "animated"),
        ("a.webp", animated, "animated"),
        ("a.jpg", lambda path: Image.fromarray(DRAWN).convert("CMYK").save(path), "CMYK"),
        ("a.jpg", cut_short, "truncated"),
        ("a.png", cut_short, "cannot be decoded"),
        ("a.webp", cut_short, "cannot be decoded|not a picture"),
        ("a.jpg", lambda path: path.write_bytes(b""), "empty"),
        ("a.jpg", lambda path: path.write_bytes(b"\0\0\0\x18ftypmp42"), "not a picture"),
        ("a.jpg", lambda path: path.mkdir(), "not a regular file"),
        ("a.jpg", lambda path: None, "no such file"),
    ],
)
def test_what_is_no_whole_picture_of_8_bits_of_rgb_is_quarantined(
    tmp_path: Path, name: str, make: Callable[[Path], object], reason: str
) -> None:
    path = tmp_path / name
    make(path)
    (row,) = clips.source_rows("d", [ListedClip(item_id="a", source_video_id="a", path=str(path))])
    assert row.status == "quarantined"
    listed = ListedClip(item_id="a", source_video_id="a", path=str(path), bytes=0)
    assert list(first_bytes.unreadable([listed])) == [str(path)], "seen before the first job"
    with pytest.raises(MediaError, match=reason):
        stills.read(path)


def test_a_picture_is_held_to_the_limit_of_pixels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path / "a.png", Image.fromarray(DRAWN))
    monkeypatch.setattr(limits, "current", lambda: {**limits.DEFAULTS, "frame_pixels": 24 * 40 - 1})
    with pytest.raises(MediaError, match="frame_pixels"):
        probing.probe(path)


# --- corpora ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["png", "jpeg", "recipe"])
def test_a_perturbed_picture_is_stored_as_a_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    storage = tiers.UNSTORED if name == "recipe" else tiers.stored_video(name)
    source, row = rows_of(tmp_path, storage, monkeypatch)
    assert (source.frame_count, source.fps, source.duration_s) == (1, 0, 0)
    assert (row.status, row.frame_count, row.audio, row.storage.rpartition("/")[2]) == ("complete", 1, None, name)
    frames = open_clip(row)
    intended = open_clip(rows_of(tmp_path, tiers.UNSTORED, monkeypatch)[1])
    if name == "jpeg":
        assert row.path is not None
        ours, theirs = Path(row.path).read_bytes(), io.BytesIO()
        assert np.array_equal(frames[0], np.asarray(Image.open(io.BytesIO(ours))))
        assert 20 < (row.storage_psnr_db or 0) < 60
        Image.fromarray(intended[0]).save(theirs, "JPEG", quality=95)
        assert Image.open(io.BytesIO(ours)).quantization == Image.open(theirs).quantization  # type: ignore[attr-defined]
    else:
        assert np.array_equal(frames, intended)


def config(adapter: str, suites: dict[str, Any], **storage: str) -> Any:
    dataset = {"adapter": adapter, "annotations": "a.json", "videos": "v"}
    return config_file.parse({"datasets": {"own": dataset}, "suites": suites, "storage": {"tier": "video", **storage}})


def test_perturbations_of_time_are_refused_by_name_before_a_job() -> None:
    wanted = config("coco", {"mlvp": {"perturbations": ["fog", "motion_blur", "h264_compression"]}})
    with pytest.raises(ConfigError, match=r"h264_compression, motion_blur need several frames.*list only fog"):
        recipe.from_config(wanted, "own", "mlvp", "motion_blur", 1)
    assert recipe.from_config(wanted, "own", "mlvp", "fog", 1).storage == tiers.stored_video("png")
    refused = {entry.name for entry in suite_registry.perturbations("mlvp", "video") if not entry.applies_to_one_frame}
    assert {"event_insertion", "temporal_scrambling", "video_defocus"} < refused
    assert all(entry.applies_to_one_frame for entry in suite_registry.perturbations("mm_robustness", "video"))


@pytest.mark.parametrize(("profile", "stored"), [("high", "png"), ("lossless", "png"), ("released", "jpeg")])
def test_the_released_code_stores_jpeg(profile: str, stored: str) -> None:
    wanted = config("flickr30k", {"mm_robustness": {}}, profile=profile)
    wanted_recipe = recipe.from_config(wanted, "own", "mm_robustness", "fog", 1)
    assert wanted_recipe.storage == tiers.stored_video(stored)
    assert recipe.parse(wanted_recipe.text) == wanted_recipe


# --- adapters ---------------------------------------------------------------------------------------------------------


def karpathy(name: str, split: str = "test", captions: int = 5, **more: str) -> dict[str, Any]:
    sentences = [{"raw": f" caption {number} of {name} ", "tokens": []} for number in range(captions)]
    return {"filename": name, "split": split, "sentences": sentences, **more}


def listing_of(folder: Path, adapter: str, document: object, **keys: Any) -> tuple[Dataset, Any]:
    path = folder / "annotations.json"
    path.write_text(json.dumps(document))
    (folder / "videos").mkdir(exist_ok=True)
    dataset = Dataset(adapter=adapter, annotations=path, videos=folder / "videos", **keys)
    return dataset, reading.read("d", dataset)


def test_a_picture_is_no_clip_of_a_dataset_of_videos(tmp_path: Path) -> None:
    rows = [{"item_id": name, "caption": "a cat"} for name in ("a", "b")]
    dataset, listing = listing_of(tmp_path, "pictures", rows)
    for name in ("a.jpg", "b.webp"):
        (tmp_path / "videos" / name).touch()
    assert [Path(located.path).name for located in video_files.locate(dataset, listing)[0]] == ["a.jpg", "b.webp"]
    named = {"columns": {"video": "item_id"}}
    dataset, listing = listing_of(tmp_path, "folder", [{"item_id": "a.jpg", "caption": "a cat"}], **named)
    located, (missing,) = video_files.locate(dataset, listing)
    assert located == []
    assert "is a picture: the adapter `pictures` reads it" in missing.reason


# --- a project of one's own ------------------------------------------------------------------------------------------


def coco_itself(names: list[str]) -> dict[str, Any]:
    return {
        "images": [{"id": number, "file_name": name} for number, name in enumerate(names)],
        "annotations": [{"image_id": number, "id": number, "caption": "a dog"} for number in range(len(names))],
    }


def karpathys(dataset: str) -> Callable[[list[str]], Any]:
    return lambda names: {"images": [karpathy(name) for name in names], "dataset": dataset}


@pytest.mark.parametrize(
    ("adapter", "document", "captions"),
    [
        ("pictures", lambda names: [{"item_id": name[:-4], "caption": "a dog"} for name in names], 1),
        ("coco", coco_itself, 1),
        ("coco", karpathys("coco"), 5),
        ("flickr30k", karpathys("flickr30k"), 5),
    ],
)
def test_init_configures_pictures(
    adapter: str,
    document: Callable[[list[str]], Any],
    captions: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shots").mkdir()
    for name in ("one.jpg", "more.png"):
        saved(tmp_path / "shots" / name, Image.fromarray(DRAWN))
    sixteen_bits(tmp_path / "shots/deep.png")
    Path("x.json").write_text(json.dumps(document(["one.jpg", "deep.png", "gone.jpg"])))
    assert main(["init", "study", "--pictures", "shots", "--captions", "x.json"]) == 0
    printed = capsys.readouterr().out
    for text in (
        *(
            f"1 picture with {captions} caption",
            "2 left out",
            "shots/deep.png: a picture of 16 bits",
            "'gone': missing",
        ),
        *("pictures without a caption, which are left out: 'more.png'", "storage: png"),
        "snakemake --cores 2 mm_robustness_study",
    ):
        assert text in printed, printed
    own = config_file.parse(yaml.safe_load(Path("study/config.yaml").read_text()))
    assert (own.datasets["study"].adapter, own.max_failed_items_of("study")) == (adapter, 2)
    for entry in suite_registry.perturbations("mm_robustness", "video"):
        assert recipe.from_config(own, "study", "mm_robustness", entry.name, 5).storage == tiers.stored_video("png")


def test_init_refuses_a_split_of_another_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.json").write_text(json.dumps(karpathys("flickr8k")(["one.jpg"])))
    assert main(["init", "study", "--pictures", ".", "--captions", "x.json"]) == 1
    assert "'flickr8k', not coco or flickr30k" in capsys.readouterr().err
    assert not Path("study").exists()


# --- words -----------------------------------------------------------------------------------------------------------


def test_a_card_of_pictures_speaks_of_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, row = rows_of(tmp_path, tiers.stored_video("png"), monkeypatch)
    card = corpus_card.card(
        suite_registry.suite("mm_robustness"), tally.Tally().counted([row]), sets.of_sources([], Counter(), 1), {}
    )
    assert "1 of 0 pictures; perturbations: 1" in card
    assert not OF_VIDEOS.findall(card), card


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Video clips, and a clip's `video`", "Pictures, and a picture's `image`"),
        ("video-text-retrieval of Clips", "image-text-retrieval of Pictures"),
        ("in `videos/a`, video/png, clip_id", "in `videos/a`, video/png, clip_id"),
    ],
)
def test_a_sentence_about_clips_is_one_about_pictures(text: str, expected: str) -> None:
    assert shown.in_words_of(text, pictures=True) == expected
    assert shown.in_words_of(text, pictures=False) == text


# --- exports ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["png", "jpeg"])
def test_exports_carry_pictures_as_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, profile: str) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    monkeypatch.chdir(tree)
    _, row = rows_of(tree, tiers.stored_video(profile), monkeypatch)
    hub, tars, tasks = (tmp_path / name for name in ("hub", "tars", "tasks"))
    manifest = tree / "manifests/pictures/mm_robustness/videos.parquet"
    assert str(export("hub", manifest, hub, clean=True)).startswith("2 pictures written, 0 failed")
    (exported,) = (hub / "data").glob("pixelate_3/videos/*")
    assert exported.suffix == Path(row.path or "").suffix
    assert "`image`" in (hub / "README.md").read_text()
    export("webdataset", manifest, tars, clean=True)
    frames = open_clip(row)[0]
    for path in sorted(tars.rglob("*.tar")):
        with tarfile.open(path) as shard:
            (member,) = (name for name in shard.getnames() if name.endswith(".png"))
            held = shard.extractfile(member)
            assert held is not None
            if "pixelate" in path.name:
                assert np.array_equal(np.asarray(Image.open(held)), frames)
    export("mteb", manifest, tasks, clean=True)
    described = json.loads((tasks / "tasks.json").read_text())
    assert [task["category"] for task in described["tasks"]] == ["i2t", "t2i"]
    for text in (described["description"], *(f"{task['name']} {task['description']}" for task in described["tasks"])):
        assert not OF_VIDEOS.findall(text), text
    (held_file,) = (tasks / "data").glob("pixelate_3-videos-*.parquet")
    cell = pq.read_table(held_file).to_pylist()[0]["image"]
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(cell["bytes"]))), frames)


def test_a_shard_has_one_column_of_pictures_whatever_case_their_endings_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    monkeypatch.chdir(tree)
    rows_of(tree, tiers.stored_video("png"), monkeypatch, "PHOTO.PNG")
    manifest = tree / "manifests/pictures/mm_robustness/videos.parquet"
    export("webdataset", manifest, tmp_path / "tars", clean=True)
    for path in (tmp_path / "tars").rglob("*.tar"):
        with tarfile.open(path) as shard:
            assert {name.partition(".")[2] for name in shard.getnames()} == {"json", "png", "txt"}


def test_mteb_evaluates_pictures_as_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mteb: ModuleType) -> None:
    """Its loader decodes the cells, and a model that knows each picture's captions finds all of them."""
    tree, tasks = tmp_path / "tree", tmp_path / "tasks"
    tree.mkdir()
    monkeypatch.chdir(tree)
    _, row = rows_of(tree, tiers.stored_video("png"), monkeypatch)
    manifest = tree / "manifests/pictures/mm_robustness/videos.parquet"
    export("mteb", manifest, tasks, clean=True)
    benchmark = exported_module(tasks).benchmark()
    model = Searcher(known_scores(0, 2**40), "image")
    evaluated = mteb.evaluate(model, benchmark, cache=None, encode_kwargs={}).task_results
    assert [result.task_name[-3:] for result in evaluated] == ["I2T", "T2I"]
    for scores in (scores for result in evaluated for scores in result.scores["test"]):
        assert scores["r_at_5"] == 1
    (task, *_) = benchmark.tasks
    task.load_data()
    (held,) = task.dataset["pixelate_3"]["test"]["queries"]
    assert np.array_equal(np.asarray(held["image"]), open_clip(row)[0])
