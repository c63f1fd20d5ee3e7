"""The pretrained backends of the main-object pipeline, on small random models of the same classes."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import socket
import sys
import types
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import needs
import numpy as np
import pytest
import tiny_models
from tiny_models import torch, transformers

from perturbations.base import checkpoints
from perturbations.base.errors import ConfigError
from perturbations.models import captioner, nouns, owlv2, yolo_world

CPU: dict[str, Any] = {"revision": None, "device": "cpu", "dtype": "float32"}


def picture(seed: int, height: int, width: int) -> np.ndarray:
    """Smooth enough to survive resizing, different for each seed."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)
    rows, columns = np.arange(height) * 4 // height, np.arange(width) * 4 // width
    return np.ascontiguousarray(coarse[rows][:, columns])


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **settings: Any) -> Any:
        pytest.fail("a backend reached for the network")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)


# ---- captioner


@pytest.fixture(scope="module")
def qwen_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.save_qwen(tmp_path_factory.mktemp("qwen") / "tiny-qwen")


@pytest.fixture(scope="module")
def qwen(qwen_folder: Path) -> captioner.Captioner:
    return captioner.load(str(qwen_folder), **CPU)


CLIPS = [
    [picture(1, 120, 160)],
    [picture(seed, 90, 170) for seed in (2, 3, 4)],
    [picture(seed, 200, 100) for seed in (5, 6)],
]


def test_captions_depend_on_the_order_of_frames_and_not_on_the_batch(qwen: captioner.Captioner) -> None:
    together = qwen.describe(CLIPS)
    assert qwen.describe(CLIPS) == together
    assert [qwen.describe([clip])[0] for clip in CLIPS] == together
    assert qwen.describe(CLIPS[::-1]) == together[::-1]
    assert len(set(together)) == len(CLIPS)
    assert all(text == text.strip() and "\n" not in text for text in together)
    forward = [picture(seed, 90, 170) for seed in (2, 3, 4)]
    captions = qwen.describe([forward, forward[::-1], [forward[0], forward[2], forward[1]]])
    assert len(set(captions)) == 3


def test_generation_is_plain_greedy(qwen: captioner.Captioner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each token is the likeliest: no sampling, and no penalty from the checkpoint's settings."""
    model = qwen._model
    seen: dict[str, Any] = {}
    generate = model.generate

    def recorded(**inputs: Any) -> Any:
        result = generate(**inputs, output_logits=True, return_dict_in_generate=True)
        seen.update(sequences=result.sequences, logits=torch.stack(result.logits, 1), inputs=inputs)
        return result.sequences

    monkeypatch.setattr(model, "generate", recorded)
    qwen.describe(CLIPS)
    prompt_length = seen["inputs"]["input_ids"].shape[1]
    answers = seen["sequences"][:, prompt_length:]
    assert 1 <= answers.shape[1] <= captioner.MAX_NEW_TOKENS
    ends = torch.tensor(model.generation_config.eos_token_id)
    for answer, logits in zip(answers, seen["logits"], strict=True):
        over = torch.isin(answer, ends).nonzero()
        length = int(over[0]) + 1 if len(over) else len(answer)
        assert torch.equal(answer[:length], logits[:length].argmax(-1))


def test_left_padding_and_one_place_for_every_patch(qwen: captioner.Captioner, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def generate(**inputs: Any) -> Any:
        seen.update(inputs)
        answers = [
            "  A man. \n\nMore<|im_end|><|endoftext|>",
            "\nB!\nC<|im_end|>",
            "<|im_end|><|endoftext|><|endoftext|><|endoftext|>",
        ]
        tokens = qwen._tokenizer(answers, padding=True, padding_side="right", return_tensors="pt")["input_ids"]
        return torch.cat([inputs["input_ids"], tokens], dim=1)

    monkeypatch.setattr(qwen._model, "generate", generate)
    assert qwen.describe(CLIPS) == ["A man.", "B!", ""]
    mask = seen["attention_mask"].numpy()
    assert (np.diff(mask, axis=1) >= 0).all()
    assert (mask.sum(1) < mask.shape[1]).any()
    grid = seen["video_grid_thw"]
    assert grid[:, 0].tolist() == [1, 2, 1]
    places = (seen["input_ids"] == qwen._model.config.video_token_id).sum(1)
    assert places.tolist() == (grid.prod(1) // 4).tolist()
    assert len(seen["pixel_values_videos"]) == grid.prod(1).sum()
    assert (seen["mm_token_type_ids"] == 2).sum(1).tolist() == places.tolist()
    # A patch spans two frames, which are a second apart.
    assert seen["second_per_grid_ts"].tolist() == [2.0, 2.0, 2.0]


def test_the_prompt_follows_the_chat_template(qwen: captioner.Captioner) -> None:
    assert qwen._prompt == (
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
        f"<|vision_start|><|video_pad|><|vision_end|>{captioner.PROMPT}<|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.parametrize("count", [1, 2, 3])
def test_video_patches_hold_a_frame_and_the_next(qwen: captioner.Captioner, count: int) -> None:
    """Against the layout written out: time, blocks of 2 x 2 patches, then channel, moment, row, column."""
    frames = [picture(seed, 336, 392) for seed in range(count)]  # a size that resizing keeps
    patches, grid = qwen._video(frames)
    times, rows, columns = (count + 1) // 2, 336 // 14, 392 // 14
    assert grid == [times, rows, columns]
    assert patches.dtype == np.float32
    processor = qwen._image_processor
    pixels = np.stack(frames + frames[-1:] * (count % 2)).astype(np.float64) / 255
    pixels = (pixels - processor.image_mean) / processor.image_std
    expected = (
        pixels.reshape(times, 2, rows // 2, 2, 14, columns // 2, 2, 14, 3)
        .transpose(0, 2, 5, 3, 6, 8, 1, 4, 7)
        .reshape(len(patches), -1)
    )
    np.testing.assert_allclose(patches, expected, atol=1e-5)


def test_video_patches_are_the_video_processors(qwen: captioner.Captioner) -> None:
    needs.library("torchvision")
    from transformers import Qwen2VLVideoProcessor

    frames = [picture(seed, 336, 392) for seed in range(3)]
    expected = Qwen2VLVideoProcessor()(videos=[np.stack(frames)], do_resize=False, return_tensors="np")
    patches, grid = qwen._video(frames)
    assert expected["video_grid_thw"].tolist() == [grid]
    np.testing.assert_allclose(patches, expected["pixel_values_videos"], atol=1e-5)


@pytest.mark.parametrize(("height", "width"), [(3, 3), (3, 40), (1, 40), (517, 31), (1081, 1917)])
def test_frames_of_any_size_stay_within_the_pixel_limits(qwen: captioner.Captioner, height: int, width: int) -> None:
    patches, (times, rows, columns) = qwen._video([picture(1, height, width)])
    assert times == 1
    assert len(patches) == rows * columns
    assert captioner.MIN_FRAME_PIXELS <= rows * columns * 14 * 14 <= captioner.MAX_FRAME_PIXELS
    assert (rows < columns) == (height < width)


def test_clips_of_no_or_too_many_frames_are_refused(qwen: captioner.Captioner) -> None:
    for frames in ([], [picture(1, 30, 30)] * 17):
        with pytest.raises(ValueError, match=f"clip of {len(frames)} frames"):
            qwen.describe([frames])
    assert qwen.describe([]) == []


def test_captioner_in_bfloat16_says_so(qwen_folder: Path) -> None:
    loaded = captioner.load(str(qwen_folder), **{**CPU, "dtype": "bfloat16"})
    assert loaded.identity["dtype"] == "bfloat16"
    assert {str(weight.dtype) for weight in loaded._model.parameters()} == {"torch.bfloat16"}
    assert loaded.describe(CLIPS[:1]) == loaded.describe(CLIPS[:1])


def test_a_template_without_videos_is_refused(qwen_folder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(qwen_folder, tmp_path / "words-only"))
    (folder / "chat_template.json").write_text(json.dumps({"chat_template": "{{ messages[0]['role'] }}"}))
    with pytest.raises(ConfigError, match="no place for a video"):
        captioner.load(str(folder), **CPU)
    (folder / "chat_template.json").unlink()
    with pytest.raises(ConfigError, match="no chat template"):
        captioner.load(str(folder), **CPU)


# ---- OWLv2


@pytest.fixture(scope="module")
def owl_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.save_owlv2(tmp_path_factory.mktemp("owl") / "tiny-owlv2")


@pytest.fixture(scope="module")
def owl(owl_folder: Path) -> owlv2.OpenVocabularyDetector:
    return owlv2.load(str(owl_folder), **CPU)


SIZES = [(37, 53), (64, 31), (33, 33), (3, 47), (241, 1), (97, 61)]
IMAGES = [picture(seed, *size) for seed, size in enumerate(SIZES)]
QUERIES = [["dog"], ["man", "car", "tree"], [], ["cat", "sky"], ["a"], ["grass", "person", "ball", "hat", "boat"]]


def labels(results: list[list[Any]]) -> list[list[str]]:
    return [[detection.label for detection in detections] for detections in results]


def assert_same(actual: list[list[Any]], expected: list[list[Any]]) -> None:
    assert labels(actual) == labels(expected)
    for a, b in zip(chain(*actual), chain(*expected), strict=True):
        np.testing.assert_allclose(a.box, b.box, atol=1e-3)
        assert a.score == pytest.approx(b.score, abs=1e-5)
        np.testing.assert_allclose(a.embedding, b.embedding, atol=1e-5)


def test_detections_do_not_depend_on_who_shares_the_batch(owl: owlv2.OpenVocabularyDetector, owl_folder: Path) -> None:
    together = owl.detect(IMAGES, QUERIES)
    assert sum(len(detections) for detections in together) >= 8
    alone = [owl.detect([image], [words])[0] for image, words in zip(IMAGES, QUERIES, strict=True)]
    assert_same(together, alone)
    assert_same(owl.detect(IMAGES[::-1], QUERIES[::-1])[::-1], together)
    pairs = owlv2.load(str(owl_folder), **CPU, batch_size=2)
    assert_same(pairs.detect(IMAGES, QUERIES), together)
    assert pairs.identity["batch_size"] == "2"


def test_each_image_is_asked_its_own_words(owl: owlv2.OpenVocabularyDetector) -> None:
    image = IMAGES[0]
    dogs, boats, both = owl.detect([image] * 3, [["dog"], ["boat"], ["dog", "boat"]])
    assert {d.label for d in dogs} == {"dog"}
    assert {d.label for d in boats} == {"boat"}
    best = max([*dogs, *boats], key=lambda d: d.score)
    assert (both[0].label, both[0].score) == (best.label, pytest.approx(best.score, abs=1e-5))


def test_what_a_detection_promises(owl: owlv2.OpenVocabularyDetector) -> None:
    results = owl.detect(IMAGES, QUERIES)
    assert len(results) == len(IMAGES)
    assert results[2] == []
    assert any(len(detections) == 3 for detections in results)
    for (height, width), words, detections in zip(SIZES, QUERIES, results, strict=True):
        scores = [d.score for d in detections]
        assert len(scores) <= 3
        assert scores == sorted(scores, reverse=True)
        assert all(0.1 <= score <= 1 for score in scores)
        for d in detections:
            x0, y0, x1, y1 = d.box
            assert 0 <= x0 < x1 <= width
            assert 0 <= y0 < y1 <= height
            assert all(type(number) is float for number in (*d.box, d.score))
            assert d.label in words
            assert d.embedding.dtype == np.float32
            assert d.embedding.shape == (24,)
            assert np.linalg.norm(d.embedding) == pytest.approx(1, abs=1e-5)


def test_embeddings_are_of_the_crop(owl: owlv2.OpenVocabularyDetector) -> None:
    detections = owl.detect(IMAGES[:1], QUERIES[:1])[0]
    for d in detections:
        x0, y0, x1, y1 = d.box
        pixels = IMAGES[0][int(y0) : int(np.ceil(y1)), int(x0) : int(np.ceil(x1))]
        np.testing.assert_allclose(owl.embed([pixels])[0], d.embedding, atol=1e-5)
    assert owl.embed([]).shape == (0, 24)
    different = owl.embed([picture(1, 20, 20), picture(2, 20, 20)])
    assert different[0] @ different[1] < 0.999


@pytest.mark.parametrize(("height", "width"), [(3, 47), (1, 47), (47, 3), (60, 45)])
def test_images_are_seen_as_squares_with_black_below_or_beside(
    owl: owlv2.OpenVocabularyDetector, height: int, width: int
) -> None:
    image = picture(4, height, width)
    square = np.zeros((max(height, width),) * 2 + (3,), np.uint8)
    square[:height, :width] = image
    np.testing.assert_allclose(owl.embed([image]), owl.embed([square]), atol=1e-5)


def answer(owl: owlv2.OpenVocabularyDetector, monkeypatch: pytest.MonkeyPatch, boxes: Any, scores: Any) -> None:
    """Let the model find these (x0, y0, x1, y1) in the padded square, 0 to 1, for its first query."""
    corners = torch.tensor(boxes, dtype=torch.float32)
    centers = torch.cat([(corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]], dim=1)
    logits = torch.logit(torch.tensor(scores, dtype=torch.float64)).float()[:, None]
    output = types.SimpleNamespace(logits=logits[None], pred_boxes=centers[None])
    monkeypatch.setattr(owl._model, "forward", lambda **_: output)


@pytest.mark.parametrize(("height", "width"), [(37, 53), (240, 320), (531, 77), (101, 101)])
def test_a_known_box_in_the_padded_square_comes_back_in_pixels(
    owl: owlv2.OpenVocabularyDetector, monkeypatch: pytest.MonkeyPatch, height: int, width: int
) -> None:
    rng = np.random.default_rng(height)
    low = rng.uniform(0, 0.4, (3, 2)) * (width, height)
    high = rng.uniform(0.5, 1, (3, 2)) * (width, height)
    pixels = np.concatenate([low, high], axis=1)
    answer(owl, monkeypatch, pixels / max(height, width), [0.9, 0.8, 0.7])
    detections = owl.detect([picture(0, height, width)], [["dog"]])[0]
    np.testing.assert_allclose([d.box for d in detections], pixels, atol=1e-3)


@pytest.mark.parametrize(
    ("boxes", "scores", "kept"),
    [
        (
            [
                [0.1, 0.6, 0.9, 0.9],  # in the padding
                [-0.2, -0.1, 0.5, 0.7],  # over three edges
                [0.5, 0.1, 0.505, 0.4],  # narrower than a pixel
                [0.3, 0.1, np.nan, 0.4],
                [0.25, 0.125, 0.75, 0.25],
                [1.01, 0.1, 1.2, 0.3],  # right of the image
            ],
            [0.9, 0.8, 0.7, 0.6, 0.5, 0.4],
            [1, 4],
        ),
        ([[n / 20, 0.1, n / 20 + 0.4, 0.5] for n in range(6)], [0.3, 0.6, 0.6, 0.2, 0.6, 0.9], [5, 1, 2]),
        ([[0.1, 0.1, 0.6, 0.4]] * 3, [0.0999, 0.1001, 0.05], [1]),
    ],
    ids=["inside", "the three best, equals in order", "a tenth"],
)
def test_boxes_are_cut_to_the_image_and_the_best_are_kept(
    owl: owlv2.OpenVocabularyDetector, monkeypatch: pytest.MonkeyPatch, boxes: Any, scores: Any, kept: list[int]
) -> None:
    answer(owl, monkeypatch, boxes, scores)
    detections = owl.detect([picture(0, 40, 80)], [["dog"]])[0]  # the square's lower half is padding
    assert [d.score for d in detections] == pytest.approx([scores[at] for at in kept], abs=1e-6)
    expected = np.clip(80 * np.array(boxes)[kept], 0, (80, 40, 80, 40))
    np.testing.assert_allclose([d.box for d in detections], expected, atol=1e-3)


def test_the_threshold_is_reached_at_a_tenth(
    owl: owlv2.OpenVocabularyDetector, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(owl, monkeypatch, [[0.1, 0.1, 0.6, 0.6]] * 3, [0.5] * 3)
    tenth = torch.tensor(0.1)
    monkeypatch.setattr(torch, "sigmoid", lambda logits: torch.full_like(logits, float(tenth)))
    assert len(owl.detect(IMAGES[:1], [["dog"]])[0]) == 3


def test_owlv2_in_bfloat16(owl: owlv2.OpenVocabularyDetector, owl_folder: Path) -> None:
    half = owlv2.load(str(owl_folder), **{**CPU, "dtype": "bfloat16"})
    assert half.identity["dtype"] == "bfloat16"
    detections = list(chain(*half.detect(IMAGES, QUERIES)))
    assert len(detections) >= 8
    for d in detections:
        assert d.embedding.dtype == np.float32
        assert np.linalg.norm(d.embedding) == pytest.approx(1, abs=1e-5)
    best, reference = half.detect(IMAGES[:1], QUERIES[:1])[0][0], owl.detect(IMAGES[:1], QUERIES[:1])[0][0]
    assert best.score == pytest.approx(reference.score, abs=0.05)
    np.testing.assert_allclose(best.box, reference.box, atol=3)


def test_long_words_are_cut_and_lists_of_different_lengths_refused(owl: owlv2.OpenVocabularyDetector) -> None:
    assert owl.detect(IMAGES[:1], [["extraordinarilylongword"]])[0]
    with pytest.raises(ValueError, match="2 images, but 1 lists"):
        owl.detect(IMAGES[:2], [["dog"]])
    assert owl.detect([], []) == []


# ---- loading


def test_one_load_reads_the_weights_once(owl_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reading = MagicMock(wraps=transformers.Owlv2ForObjectDetection.from_pretrained)
    monkeypatch.setattr(transformers.Owlv2ForObjectDetection, "from_pretrained", reading)
    detector = owlv2.load(str(owl_folder), **CPU)
    for _ in range(2):
        detector.detect(IMAGES[:2], QUERIES[:2])
    reading.assert_called_once()
    wanted = {"local_files_only": True, "trust_remote_code": False, "use_safetensors": True}
    assert wanted.items() <= reading.call_args.kwargs.items()


@pytest.fixture
def owl_copy(owl_folder: Path, tmp_path: Path) -> Path:
    """A copy of the model's folder, to be changed."""
    return Path(shutil.copytree(owl_folder, tmp_path / owl_folder.name))


def test_torch_is_told_to_repeat_its_results() -> None:
    torch.set_num_threads(2)
    torch.use_deterministic_algorithms(False)
    checkpoints.runtime("cpu", "float32")
    assert torch.get_num_threads() == 1
    assert torch.are_deterministic_algorithms_enabled()


def test_a_folders_revision_is_the_hash_of_its_weights(owl: owlv2.OpenVocabularyDetector, owl_copy: Path) -> None:
    known = owl.identity
    assert set(known) == {"name", "revision", "dtype", "device", "transformers", "batch_size"}
    assert (known["name"], known["device"], known["dtype"]) == ("tiny-owlv2", "cpu", "float32")
    assert known["revision"].startswith("sha256:")
    assert checkpoints.find_checkpoint(str(owl_copy), known["revision"]).revision == known["revision"]
    weights = owl_copy / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    with pytest.raises(ConfigError, match="has revision sha256:.*the configuration says sha256:"):
        checkpoints.find_checkpoint(str(owl_copy), known["revision"])


def test_a_hub_models_revision_is_its_commit(owl_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub")
    commit = "0123456789abcdef0123456789abcdef01234567"
    repository = tmp_path / "models--some--owl"
    shutil.copytree(owl_folder, repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    original = hub.snapshot_download
    monkeypatch.setattr(hub, "snapshot_download", lambda *a, **k: original(*a, **k, cache_dir=tmp_path))
    for revision in (None, "main", commit):
        detector = owlv2.load("some/owl", **{**CPU, "revision": revision})
        assert (detector.identity["name"], detector.identity["revision"]) == ("some/owl", commit)
    with pytest.raises(ConfigError, match="hf download some/owl --revision v9"):
        owlv2.load("some/owl", **{**CPU, "revision": "v9"})


@pytest.mark.parametrize("module", [owlv2, captioner])
def test_a_missing_model_says_how_to_fetch_it(module: Any) -> None:
    with pytest.raises(ConfigError, match=r"'nobody/nothing' is not on this machine.*hf download nobody/nothing"):
        module.load("nobody/nothing", **CPU)
    with pytest.raises(ConfigError, match="'/no/such/folder' is not on this machine.*no such folder"):
        module.load("/no/such/folder", **CPU)


def test_weights_that_miss_tensors_are_damaged_or_of_another_kind_are_refused(
    owl_copy: Path, qwen_folder: Path
) -> None:
    torch_files = pytest.importorskip("safetensors.torch")
    tensors = torch_files.load_file(owl_copy / "model.safetensors")
    del tensors["class_head.dense0.weight"]
    torch_files.save_file(tensors, owl_copy / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ConfigError, match="1 weights are missing, class_head.dense0.weight"):
        owlv2.load(str(owl_copy), **CPU)
    weights = owl_copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:500])
    with pytest.raises(ConfigError, match="cannot be loaded as Owlv2ForObjectDetection"):
        owlv2.load(str(owl_copy), **CPU)
    with pytest.raises(ConfigError, match="it is 'qwen2_5_vl', not 'owlv2'"):
        owlv2.load(str(qwen_folder), **CPU)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("model.safetensors", r"holds no \*.safetensors"),
        ("tokenizer.json", "cannot be loaded as a tokenizer: neither tokenizer.json nor vocab.json"),
        ("*processor_config.json", "cannot be loaded as Owlv2ImageProcessorPil"),
        ("config.json", "cannot be loaded as a model: config.json does not say"),
    ],
)
def test_a_folder_that_misses_files_is_refused(owl_copy: Path, names: str, message: str) -> None:
    torch.save({}, owl_copy / "pytorch_model.bin")  # no weights: a pickle
    gone = list(owl_copy.glob(names))
    assert gone
    for path in gone:
        path.unlink()
    with pytest.raises(ConfigError, match=message):
        owlv2.load(str(owl_copy), **CPU)


@pytest.mark.parametrize(
    ("device", "dtype", "message"),
    [
        ("cpu", "float64", "'float64' is unknown; allowed: float32, bfloat16, float16"),
        ("gpu", "float32", "'gpu' is unknown; allowed: cpu, cuda, cuda:N"),
        ("cuda:x", "float32", "'cuda:x' is unknown"),
        ("cpu:0", "float32", "'cpu:0' is unknown"),
        ("cuda:99", "float32", "'cuda:99' is not available"),
    ],
)
def test_unknown_devices_and_types_are_refused(device: str, dtype: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        checkpoints.runtime(device, dtype)


def test_a_missing_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ConfigError, match="transformers cannot be imported.*pip install transformers"):
        checkpoints.library("transformers")


# ---- nouns

# word -> part of speech, lemma, dependency, steps to its head
GRAMMAR = {
    "the": ("DET", "the", "det", 1),
    "a": ("DET", "a", "det", 1),
    "dogs": ("NOUN", "dog", "nsubj", 1),
    "man": ("NOUN", "man", "nsubj", 1),
    "chase": ("VERB", "chase", "ROOT", 0),
    "runs": ("VERB", "run", "ROOT", 0),
    "ball": ("NOUN", "ball", "dobj", -2),
    "balls": ("NOUN", "ball", "dep", -1),
    "kites": ("NOUN", "kite", "dep", -1),
    "dog": ("NOUN", "dog", "nsubj", 1),
}


@pytest.fixture(scope="module")
def spacy_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    spacy = pytest.importorskip("spacy")

    @spacy.Language.component("grammar_of_the_tests")
    def grammar(doc: Any) -> Any:
        words = [GRAMMAR.get(token.lower_, ("PUNCT", token.text, "punct", -1)) for token in doc]
        filled = spacy.tokens.Doc(
            doc.vocab,
            words=[token.text for token in doc],
            spaces=[bool(token.whitespace_) for token in doc],
            pos=[pos for pos, _, _, _ in words],
            lemmas=[lemma for _, lemma, _, _ in words],
            deps=[dep for _, _, dep, _ in words],
            heads=[min(max(n + step, 0), len(words) - 1) for n, (_, _, _, step) in enumerate(words)],
        )
        return filled

    pipeline = spacy.blank("en")
    pipeline.add_pipe("grammar_of_the_tests")
    folder = tmp_path_factory.mktemp("spacy") / "tiny_english"
    pipeline.to_disk(folder)
    return folder


def test_keywords_are_roots_of_noun_chunks_and_the_pipeline_is_named(spacy_folder: Path) -> None:
    loaded = nouns.load(str(spacy_folder))
    captions = ["The Dogs chase a ball", "runs", "A man runs", "Balls kites balls", "", "Dogs chase the DOGS"]
    assert loaded.keywords(captions) == [["dogs", "ball"], [], ["man"], ["ball", "kite"], [], ["dogs"]]
    assert loaded.keywords([]) == []
    assert [loaded.keywords([caption])[0] for caption in captions] == loaded.keywords(captions)
    known = nouns.load(str(spacy_folder)).identity
    assert known["name"] == "tiny_english"
    assert known["revision"].startswith("sha256:")
    assert known["spacy"] == importlib.import_module("spacy").__version__


def test_a_missing_spacy_pipeline_or_one_without_a_parser_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("spacy")
    with pytest.raises(ConfigError, match="'xx_no_such_sm' is not on this machine.*spacy download xx_no_such_sm"):
        nouns.load("xx_no_such_sm")
    spacy = pytest.importorskip("spacy")
    for language in ("en", "xx"):
        spacy.blank(language).to_disk(tmp_path / language)
        with pytest.raises(ConfigError, match="finds no noun chunks"):
            nouns.load(str(tmp_path / language))


# ---- YOLO-World


class WordFeatures:
    """A text encoder of YOLO-World that needs no weights: 512 features drawn per word."""

    def tokenize(self, words: list[str]) -> torch.Tensor:
        return torch.tensor([list(word.encode().ljust(16)) for word in words])

    def encode_text(self, tokens: torch.Tensor) -> torch.Tensor:
        drawn = [torch.randn(512, generator=torch.Generator().manual_seed(int((row**2).sum()))) for row in tokens]
        return torch.nn.functional.normalize(torch.stack(drawn), dim=-1)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Random weights of YOLO-World's smallest architecture, as ultralytics stores them, and features for any word."""
    folder = tmp_path_factory.mktemp("yolo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("YOLO_CONFIG_DIR", str(folder))
        # `load` sets these, which ultralytics reads when it is imported.
        for name, value in (("OFFLINE", "true"), ("AUTOINSTALL", "false")):
            patch.setenv(f"YOLO_{name}", value)
        patch.setenv("ULTRALYTICS_SAFE_LOAD", "true")
        needs.ultralytics(patch)
        from ultralytics import YOLOWorld

        encoders = types.ModuleType("ultralytics.nn.text_model")  # which imports CLIP
        encoders.build_text_model = lambda *arguments, **settings: WordFeatures()  # type: ignore[attr-defined]
        patch.setitem(sys.modules, encoders.__name__, encoders)
        torch.manual_seed(0)
        model = YOLOWorld("yolov8s-worldv2.yaml")
        for head in model.model.model[-1].cv4:
            # As they begin, no score comes near the threshold, and all are alike.
            head.bias.data.zero_()
            head.logit_scale.data.fill_(6)
        model.save(str(folder / "tiny-world.pt"))
        yield folder / "tiny-world.pt"


def mean_color(images: Any) -> Any:
    return np.stack([image.reshape(-1, 3).mean(0) + 1 for image in images]).astype(np.float32)


def load_world(weights: Path, **settings: Any) -> yolo_world.WorldDetector:
    revision = checkpoints.files_sha256([weights], weights.parent)
    return yolo_world.load(str(weights), **{**CPU, "revision": revision}, embed=mean_color, **settings)


def test_yolo_world_detects_in_any_batch_what_ultralytics_does(weights: Path) -> None:
    detector = load_world(weights, batch_size=2)
    images = [picture(n, 40 + n, 60) for n in range(4)]
    queries = [["dog"], ["cat", "hat"], [], ["dog"]]
    results = detector.detect(images, queries)
    for image, words, detections in zip(images, queries, results, strict=True):
        assert bool(detections) == bool(words)
        if not words:
            continue
        detector._model.set_classes(words)
        (direct,) = detector._model.predict(image[:, :, ::-1], conf=0.1, rect=False, verbose=False)
        best = direct.boxes[int(direct.boxes.conf.argmax())]
        assert (detections[0].label, detections[0].score) == (words[int(best.cls)], pytest.approx(float(best.conf)))
        for found in detections:
            x0, y0, x1, y1 = found.box
            assert 0 <= x0 < x1 <= image.shape[1]
            assert 0 <= y0 < y1 <= image.shape[0]
            assert np.linalg.norm(found.embedding) == pytest.approx(1, abs=1e-5)


def test_yolo_world_says_what_it_is(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And it may not install or download."""
    for name in ("YOLO_OFFLINE", "YOLO_AUTOINSTALL", "ULTRALYTICS_SAFE_LOAD"):
        monkeypatch.setenv(name, "")
    known = load_world(weights).identity
    assert known["name"] == "tiny-world.pt"
    assert known["revision"] == checkpoints.files_sha256([weights], weights.parent)
    assert (known["dtype"], known["device"]) == ("float32", "cpu")
    assert (os.environ["YOLO_OFFLINE"], os.environ["YOLO_AUTOINSTALL"]) == ("true", "false")
    assert os.environ["ULTRALYTICS_SAFE_LOAD"] == "true"


def test_yolo_world_weights_are_pinned_before_they_are_unpickled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ultralytics", None)
    path = tmp_path / "tiny-world.pt"
    path.write_bytes(b"weights")
    for revision in (None, "sha256:0"):
        with pytest.raises(ConfigError, match="has|have revision sha256:"):
            yolo_world.load(str(path), **{**CPU, "revision": revision}, embed=mean_color)
    with pytest.raises(ConfigError, match="'yolov8s-worldv2.pt' are not a file on this machine"):
        yolo_world.load("yolov8s-worldv2.pt", **CPU, embed=mean_color)
    with pytest.raises(ConfigError, match="ultralytics cannot be imported.*pip install ultralytics"):
        load_world(path)


def test_yolo_world_without_its_text_encoder(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(*arguments: Any, **settings: Any) -> None:
        raise ConnectionError("no route")

    monkeypatch.setattr(sys.modules["ultralytics.nn.text_model"], "build_text_model", no_network)
    with pytest.raises(ConfigError, match="text encoder cannot be loaded .no route"):
        load_world(weights)
