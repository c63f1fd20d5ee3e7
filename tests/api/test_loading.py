"""Corpora as sequences and datasets, from anywhere, and perturbations as transforms of other libraries' videos."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import clips
import numpy as np
import pytest
import small_corpus
from copies import ROOT
from looping import each
from small_corpus import ITEMS

torch = pytest.importorskip("torch")

import perturbations
from perturbations import Corpus, Transform, open_clip, perturb, read_manifest
from perturbations.api.torch_data import ClipDataset
from perturbations.base.errors import ManifestError, MediaError, UnknownPerturbationError
from perturbations.corpus import verification
from perturbations.manifest import files
from perturbations.manifest.rows import SOURCES
from perturbations.suites import suite_registry

pytestmark = pytest.mark.usefixtures("in_this_process")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_corpus.make(tmp_path_factory.mktemp("tree"))


@pytest.fixture
def corpus(tree: Path) -> Corpus:
    return Corpus(tree / "manifests/data/mlvp")


# --- paths ------------------------------------------------------------------------------------------------------------


def fingerprints(manifest: Path) -> list[int]:
    return [int(open_clip(row).sum()) for row in read_manifest(manifest).itertuples()]


def test_rows_open_anywhere_and_after_a_move(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Path("manifests/data/mlvp/videos.parquet")
    expected = fingerprints(tree / place)
    monkeypatch.chdir(tmp_path)
    assert fingerprints(Path(os.path.relpath(tree, tmp_path)) / place) == expected
    shutil.copytree(tree, tmp_path / "copy")
    (tmp_path / "copy").rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path / "moved/manifests/data/mlvp")
    assert fingerprints(Path("videos.parquet")) == expected
    rows = read_manifest("videos.parquet")
    assert rows["path"].dropna().str.startswith(str(tmp_path / "moved/corpora")).all()
    assert rows["source_path"].str.startswith(str(tmp_path / "moved/clean")).all()


def test_links_to_manifests_lead_to_the_tree(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    shutil.copytree(tree / "manifests", tmp_path / "disk")
    (tmp_path / "tree/manifests").symlink_to(tmp_path / "disk")
    (tmp_path / "tree/corpora").mkdir()
    rows = read_manifest(tmp_path / "tree/manifests/data/mlvp/videos.parquet")
    assert rows["path"].dropna().str.startswith(str(tmp_path / "tree")).all()
    (tmp_path / "videos.parquet").symlink_to(tree / "manifests/data/mlvp/videos.parquet")
    rows = read_manifest(tmp_path / "videos.parquet")
    assert rows["path"].dropna().str.startswith(str(tree)).all()
    (tmp_path / "work").mkdir()
    (tmp_path / "work/link").symlink_to(tree / "manifests/data/mlvp")
    clip = Corpus(tmp_path / "work/link")[0]
    assert len(clip.captions) == 2
    assert clip.clean is not None
    assert verification.check_manifest(tmp_path / "work/link/mixed_types.parquet").findings == []


# --- the corpus -------------------------------------------------------------------------------------------------------


def test_a_corpus_is_the_rows_with_frames_captions_and_clean_clips(corpus: Corpus, tree: Path) -> None:
    table = read_manifest(tree / "manifests/data/mlvp/videos.parquet")
    assert len(corpus) == len(table) == 3 * len(ITEMS)
    for clip, row in zip(corpus, table.itertuples(), strict=True):
        assert (clip.item_id, clip.perturbation, clip.severity) == (row.item_id, row.perturbation, row.severity)
        assert (clip.width, clip.storage, clip.recipe_id) == (row.width, row.storage, row.recipe_id)
        np.testing.assert_array_equal(clip.frames(), open_clip(row))
        place = ITEMS.index(clip.item_id)
        assert clip.captions == tuple(f'"{number}" of item {place}\n影' for number in (0, 1))
        assert clip.clean is not None
        assert clip.clean.perturbation == "clean"
        assert len(clip.clean.frames()) == clip.source_frame_count
        assert not np.array_equal(clip.clean.frames(), clip.frames())
    np.testing.assert_array_equal(corpus[0].frames([1, 0]), corpus[0].frames()[[1, 0]])
    assert corpus[0].sampled(2).shape == (2, 48, 64, 3)


def test_a_corpus_is_filtered(corpus: Corpus) -> None:
    assert corpus.perturbations == ["fog", "gaussian_noise"]
    assert corpus.severities == [1, 3]
    assert corpus.items == sorted(ITEMS)
    with pytest.raises(ValueError, match=r"no perturbation 'fogg'; this corpus has fog, .*; did you mean fog\?"):
        corpus.where(perturbation="fogg")
    with pytest.raises(ValueError, match=r"no perturbation 'mlvp/fog'; .*did you mean fog\?"):
        corpus.where(perturbation="mlvp/fog")
    assert len(corpus.where(perturbation="snow")) == 0  # it has none, others may
    for absent in (5, [1, 5], np.int64(5)):
        with pytest.raises(ValueError, match="no severity 5; these clips have 1, 3"):
            corpus.where(severity=absent)
    for wrong in ("5", 3.0, True, [3, "1"]):
        with pytest.raises(TypeError, match="severity is a whole number, not"):
            corpus.where(severity=wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="item_id is a text, not int: 7"):
        corpus.where(item=7)  # type: ignore[arg-type]
    noisy = corpus.where(perturbation="gaussian_noise", severity=3)
    assert {(clip.perturbation, clip.severity) for clip in noisy} == {("gaussian_noise", 3)}
    assert len(noisy) == len(ITEMS)
    assert len(corpus.where(severity=[1, 3], item=ITEMS[1])) == 3
    assert len(corpus.filter(lambda clip: clip.storage == "recipe")) == len(ITEMS)
    assert len(corpus[:2]) == 2
    assert corpus[-1].item_id == corpus.items[-1]
    assert [clip.item_id for clip in noisy.clean] == sorted(ITEMS)


def test_an_item_is_found_by_either_form_of_its_letters(tmp_path: Path) -> None:
    """macOS decomposes what it stores."""
    rows = [clips.made_up_source(name) for name in ("cafe\u0301", "na\u00efve", "plain")]
    files.write(tmp_path / "sources.parquet", SOURCES, rows, {"root": "."})
    corpus = Corpus(tmp_path)
    for name in ("caf\u00e9", "cafe\u0301"):
        assert corpus.where(item=name).items == ["cafe\u0301"]
    assert corpus.where(item=["nai\u0308ve", "plain"]).items == ["na\u00efve", "plain"]


def test_a_file_that_is_gone_damaged_or_another_is_named(tree: Path, tmp_path: Path) -> None:
    shutil.copytree(tree, tmp_path / "tree")
    stored = Corpus(tmp_path / "tree/manifests/data/mlvp").where(perturbation="gaussian_noise", item="video1")[0]
    path = Path(stored.path)
    whole, other = path.read_bytes(), next(file for file in path.parent.glob("*.mp4") if file != path).read_bytes()
    assert len(whole) != len(other)
    path.write_bytes(other)
    with pytest.raises(MediaError, match=re.escape(str(path)) + " is not the file that the row describes"):
        stored.frames()
    path.write_bytes(bytes(len(whole)))
    with pytest.raises(MediaError, match=re.escape(str(path)) + ": "):
        stored.sampled(2)
    path.unlink()
    with pytest.raises(MediaError, match=re.escape(str(path)) + ": no such file"):
        stored.frames()


def test_a_corpus_takes_what_numpy_and_pandas_hold(corpus: Corpus, tree: Path) -> None:
    table = read_manifest(tree / "manifests/data/mlvp/videos.parquet")
    assert len(corpus.where(severity=table["severity"].max())) == len(corpus.where(severity=3)) == len(ITEMS)
    assert len(corpus.where(severity=table["severity"].unique())) == len(corpus)
    assert len(corpus.where(item=iter(ITEMS[:2]))) == 2 * len(corpus.where(item=ITEMS[0]))
    for name in ("fog", "gaussian_noise"):  # rendered, stored
        clip = corpus.where(perturbation=name, item="video1")[0]
        few = clip.frames([3, 1])
        for places in (np.array([3, 1]), torch.tensor([3, 1]), iter([3, 1])):
            np.testing.assert_array_equal(clip.frames(places), few)
        with pytest.raises(TypeError):
            clip.frames([1.5])  # type: ignore[list-item]
        with pytest.raises(ValueError, match="indices names no frame"):
            clip.frames([])
        with pytest.raises(ValueError, match="at least one frame, not 0"):
            clip.sampled(0)


def test_corpora_of_clean_clips_and_of_mixes(tree: Path) -> None:
    sources = Corpus(tree / "manifests/data")
    assert (len(sources), sources.perturbations, sources.severities) == (len(ITEMS), ["clean"], [0])
    assert [row.item_id for row in sources.incomplete] == ["bad"]
    assert sources[0].clean is not None
    assert sources[0].clean.row == sources[0].row
    mixed = Corpus(tree / "manifests/data/mlvp/mixed_types.parquet")
    assert {clip.share for clip in mixed} == {0.2, 0.4, 0.6, 0.8}
    assert "clean" in mixed.perturbations
    assert all(clip.frames().shape[1:] == (48, 64, 3) for clip in mixed)


def test_pairs_are_perturbed_videos_with_perturbed_captions(corpus: Corpus, tree: Path, tmp_path: Path) -> None:
    pairs = corpus.pairs
    assert len(pairs) == len(pairs.pairs) == 2 * 2 * (2 * len(ITEMS) - 1)  # the gate rejected one caption
    assert pairs.path == Corpus(tree / "manifests/data/mlvp/multimodal.parquet").path
    assert (pairs.perturbations, pairs.text_perturbations) == (["fog", "gaussian_noise"], ["typos", "word_swap"])
    videos = {(clip.item_id, clip.perturbation, clip.severity): clip for clip in corpus}
    for pair in pairs:
        assert pair.caption_id != "c1"
        assert pair.source_text in pair.captions
        prefix = {"typos": "typos", "word_swap": "swapped"}[pair.text_perturbation]
        assert pair.text == f"{prefix} {pair.source_text}"
        video = videos[pair.item_id, pair.perturbation, pair.severity]
        assert (pair.frames_sha256, video.text) == (video.frames_sha256, None)
    chosen = pairs.where(perturbation="fog", text_perturbation=["typos"], item=ITEMS[2])
    assert [pair.caption_id for pair in chosen] == ["c12", "c2"]
    np.testing.assert_array_equal(chosen[0].frames(), videos[ITEMS[2], "fog", 1].frames())
    assert len(corpus.where(text_perturbation="typos")) == 0
    batch = next(iter(torch.utils.data.DataLoader(chosen.dataset(2), batch_size=2)))
    assert batch["text"] == [pair.text for pair in chosen]
    assert (batch["text_perturbation"], batch["text_severity"].tolist()) == (["typos"] * 2, [3, 3])
    assert "text" not in corpus.dataset(2)[0]
    with pytest.raises(ManifestError, match=r"no multimodal\.parquet beside"):
        _ = Corpus(tree / "manifests/data").pairs
    alone = tmp_path / "manifests/data/mlvp"
    alone.mkdir(parents=True)
    shutil.copy(pairs.path, alone)
    assert Corpus(alone).text_perturbations == ["typos", "word_swap"]


def test_a_corpus_without_neighbours_has_no_captions_and_no_clean_clips(tree: Path, tmp_path: Path) -> None:
    shutil.copytree(tree / "manifests/data/mlvp", tmp_path / "manifests/data/mlvp")
    corpus = Corpus(tmp_path / "manifests/data/mlvp")
    assert (corpus[0].captions, corpus[0].clean) == ((), None)
    with pytest.raises(ManifestError, match="no sources.parquet beside or above"):
        _ = corpus.clean
    with pytest.raises(MediaError, match="no such file"):
        corpus.where(perturbation="gaussian_noise")[0].frames()


def test_what_is_no_corpus_is_refused(tree: Path, tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="neither videos.parquet nor sources.parquet"):
        Corpus(tmp_path)
    with pytest.raises(ManifestError, match="is a manifest of texts"):
        Corpus(tree / "manifests/data/mm_robustness/captions.parquet")
    with pytest.raises(ManifestError, match="no such manifest"):
        Corpus(tmp_path / "videos.parquet")
    files.write(tmp_path / "sources.parquet", SOURCES, [], {"root": "."})
    assert list(Corpus(tmp_path)) == []


def test_all_frames_without_a_number_and_no_unknown_attributes(corpus: Corpus) -> None:
    with pytest.raises(AttributeError, match="neither a clip nor its row has 'colour'"):
        _ = corpus[0].colour
    assert pickle.loads(pickle.dumps(corpus[0])) == corpus[0]
    sample = ClipDataset(corpus)[0]
    np.testing.assert_array_equal(sample["video"].permute(0, 2, 3, 1).numpy(), corpus[0].frames())


def half(video: Any) -> Any:
    return video[:, :, ::2, ::2]


@pytest.mark.parametrize("start", [None, "fork", "spawn"])
def test_a_data_loader_gives_batches(corpus: Corpus, start: str | None) -> None:
    dataset = corpus.where(perturbation=["gaussian_noise", "fog"], severity=1).dataset(2, half)
    assert isinstance(dataset, torch.utils.data.Dataset)
    workers = {"num_workers": 1, "multiprocessing_context": start} if start else {}
    batches = list(torch.utils.data.DataLoader(dataset, batch_size=4, **workers))
    assert sum(len(batch["item"]) for batch in batches) == len(dataset) == 2 * len(ITEMS)
    assert batches[0]["video"].shape == (4, 2, 3, 24, 32)
    assert batches[0]["video"].dtype == torch.uint8
    clip = dataset.corpus[0]
    expected = clip.sampled(2).transpose(0, 3, 1, 2)[:, :, ::2, ::2]
    np.testing.assert_array_equal(batches[0]["video"][0].numpy(), expected)
    assert batches[0]["item"][0] == clip.item_id
    assert batches[0]["severity"].tolist() == [1, 1, 1, 1]
    assert batches[0]["caption"][0] == clip.captions[0]


# --- transforms -------------------------------------------------------------------------------------------------------

FRAMES = clips.noise(4, 24, 32)
AXES = {"TCHW": (0, 3, 1, 2), "CTHW": (3, 0, 1, 2), "THWC": (0, 1, 2, 3)}


def tensor(layout: str) -> torch.Tensor:
    return torch.from_numpy(FRAMES.copy()).permute(AXES[layout])


@pytest.mark.parametrize("layout", AXES)
def test_a_transform_keeps_type_and_layout(layout: Any) -> None:
    expected = perturb(FRAMES, "mlvp/fog", 3, seed=7, item_id="v", fps=25, dataset="d")
    transform = Transform("mlvp/fog", 3, seed=7, dataset="d", layout=layout)
    for video, kind in ((FRAMES.transpose(AXES[layout]), np.ndarray), (tensor(layout), torch.Tensor)):
        changed = transform(video, "v")
        assert isinstance(changed, kind)
        np.testing.assert_array_equal(np.asarray(changed), expected.transpose(AXES[layout]))


def test_the_layout_of_tensors_and_arrays_is_theirs_and_floats_are_bytes() -> None:
    expected = perturb(FRAMES, "mlvp/gaussian_noise", 2, seed=0, item_id="v", fps=25)
    transform = Transform("mlvp/gaussian_noise", 2)
    np.testing.assert_array_equal(transform(FRAMES, "v"), expected)
    np.testing.assert_array_equal(transform(tensor("TCHW"), "v").permute(0, 2, 3, 1).numpy(), expected)
    assert not np.array_equal(transform(FRAMES, "another"), expected)
    # PyTorchVideo's `EncodedVideo.get_clip` gives float32 from 0 to 255.
    expected = perturb(FRAMES, "mlvp/fog", 1, seed=0, item_id="7", fps=25)
    sample = {"video": tensor("CTHW").float(), "video_index": np.int64(7), "label": 3}
    changed = Transform("mlvp/fog", 1, layout="CTHW", id_key="video_index")(sample)
    assert changed["video"].dtype == torch.float32
    np.testing.assert_array_equal(changed["video"].permute(1, 2, 3, 0).numpy(), expected)
    assert {**changed, "video": None} == {"video": None, "video_index": 7, "label": 3}
    np.testing.assert_array_equal(Transform("mlvp/fog", 1)(FRAMES, 7), expected)


def test_a_transform_keeps_classes_and_severity_0_is_a_copy() -> None:
    assert type(Transform("mlvp/fog", 1)(tensor("TCHW").as_subclass(Video), "v")) is Video
    copy = Transform("mlvp/fog", 0)(FRAMES, "v")
    np.testing.assert_array_equal(copy, FRAMES)
    assert not np.shares_memory(copy, FRAMES)
    transform = pickle.loads(pickle.dumps(Transform("mlvp/fog", 2)))
    np.testing.assert_array_equal(transform(FRAMES, "v"), Transform("mlvp/fog", 2)(FRAMES, "v"))


class Video(torch.Tensor):
    """As torchvision's `tv_tensors.Video`: a tensor that says what it is."""


@each(
    ("given", "message"),
    [
        ((FRAMES.astype(np.int64), "v"), "from 0 to 255, not int64"),
        ((FRAMES.astype(np.int64), "v"), r"give video.astype\(numpy.uint8\)"),
        ((FRAMES / 255, "v"), r"of values from 0 to 1, give \(255 \* video\).round\(\).astype\(numpy.uint8\)"),
        ((tensor("TCHW") / 255, "v"), r"give \(255 \* video\).round\(\).to\(torch.uint8\)"),
        ((tensor("TCHW")[:, :1], "v"), r"of grey, give video\[:, \[0, 0, 0\]\]"),
        ((FRAMES + 0.5, "v"), "whole numbers from 0 to 255"),
        ((np.full(FRAMES.shape, np.nan), "v"), "whole numbers from 0 to 255"),
        ((FRAMES - 300.0, "v"), "whole numbers from 0 to 255"),
        ((tensor("THWC"), "v"), r"not uint8 \(4, 24, 32, 3\); `layout`"),
        ((torch.zeros(2, 3, 8, 8, dtype=torch.bfloat16), "v"), "not torch.bfloat16"),
        ((FRAMES,), "give the clip's id"),
        (({"video": FRAMES},), "the sample has no 'item_id'"),
        (({"item_id": "v"},), "the sample has no 'video'"),
        ((FRAMES[0], "v"), r"give video\[None\]"),
        ((list(FRAMES), "v"), r"not list: of frames, give np.stack\(frames\)"),
        ((None, "v"), "not NoneType"),
        *((({"video": FRAMES, "item_id": item},), "a text or a whole number") for item in (b"v", ["v"], 1.5, True)),
    ],
)
def test_bad_videos_are_refused(given: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Transform("mlvp/fog", 1)(*given)


def test_one_picture_says_what_a_video_is_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    image = pytest.importorskip("PIL.Image").fromarray(FRAMES[0])
    monkeypatch.delitem(sys.modules, "torch")
    with pytest.raises(ValueError, match="not Image: of frames, give np.stack"):
        Transform("mlvp/fog", 1)(image, "v")


@pytest.mark.parametrize(
    ("key", "severity", "settings", "error", "message"),
    [
        *(("mlvp/fog", 1, {"seed": seed}, ValueError, "a seed is a whole number from 0") for seed in (-1, 2**63, 0.5)),
        *(("mlvp/fog", severity, {}, UnknownPerturbationError, "no severity") for severity in (3.0, True, 9)),
        ("mm_robustness/word_swap", 1, {}, UnknownPerturbationError, "perturbs captions"),
        ("mlvp/fog", 1, {"layout": "HWC"}, ValueError, "no layout 'HWC'"),
        ("mlvp/event_insertion", 1, {}, ValueError, "call `perturb` with `donors`"),
    ],
)
def test_transforms_that_there_are_not_are_refused(
    key: str, severity: Any, settings: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Transform(key, severity, **settings)


def test_severities_of_tables_are_whole_numbers_too() -> None:
    severity, seed = np.array([3, 7], np.int64)
    expected = perturb(FRAMES, "mlvp/fog", 3, seed=7, item_id="v", fps=25.0)
    np.testing.assert_array_equal(perturb(FRAMES, "mlvp/fog", severity, seed=seed, item_id="v", fps=25.0), expected)
    np.testing.assert_array_equal(Transform("mlvp/fog", severity, seed=7)(FRAMES, "v"), expected)
    text = perturbations.perturb_text("a dog runs", "mm_robustness/keyboard", severity, seed=seed, item_id="c")
    assert text == perturbations.perturb_text("a dog runs", "mm_robustness/keyboard", 3, seed=7, item_id="c")


# --- the documentation ------------------------------------------------------------------------------------------------

PAGE = ROOT / "docs/how-to/python.md"


def printed(program: str, folder: Path) -> str:
    """In a process of its own: a loader has workers, which begin the program again where they are spawned."""
    environment = {**os.environ, "MPLBACKEND": "agg"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_page_s_examples_work(tree: Path, tmp_path: Path) -> None:
    shutil.copytree(tree, tmp_path, dirs_exist_ok=True)
    (tmp_path / "manifests/data").rename(tmp_path / "manifests/msrvtt")
    section = PAGE.read_text(encoding="utf-8").partition("## A corpus")[2].partition("## Tables")[0]
    pair = re.search(r'where\(perturbation="(\w+)", text_perturbation="(\w+)"\)', section)
    combined = suite_registry.suite("msrvtt_p").combined
    assert pair is not None
    assert combined is not None
    assert (pair[1] in combined.video, pair[2] in combined.text) == (True, True), "what no run makes"
    in_tree = {
        "msrvtt/msrvtt_p": "msrvtt/mlvp",
        "[1, 2]": "[1, 3]",
        pair[0]: 'where(perturbation="fog", text_perturbation="typos")',
    }
    for text, here in in_tree.items():
        section = section.replace(text, here)
    examples = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    assert len(examples) == 4
    program = "\n".join(
        [*examples, "assert sample['video'].shape == foggy.shape", "assert not torch.equal(foggy, sample['video'])"]
    )
    shown = printed(program, tmp_path)
    assert "torch.Size([2, 4, 3, 48, 48])" in shown
    assert shown.count(" fog 1 ") == len(ITEMS)


def test_the_notebook_s_cells_run(tree: Path, tmp_path: Path) -> None:
    shutil.copytree(tree, tmp_path, dirs_exist_ok=True)
    (tmp_path / "manifests/data").rename(tmp_path / "manifests/demo")
    cells = json.loads(PAGE.parents[1].joinpath("corpus.ipynb").read_text(encoding="utf-8"))["cells"]
    program = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    program += "\nassert len(clips) == 1 and set(recalls) == {'fog', 'gaussian_noise'}, recalls"
    printed(program.replace("max(corpus.severities)", "1"), tmp_path)
    assert len(cells) == 10
