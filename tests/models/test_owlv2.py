"""OWLv2 and the loading of weights, on small random models of the same classes."""

from __future__ import annotations

import shutil
import sys
import types
from itertools import chain
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
import tiny_models
from looping import each
from tiny_models import CPU, picture, torch, transformers

from perturbations.base.errors import ConfigError
from perturbations.models import captioner, checkpoints, owlv2

pytestmark = pytest.mark.usefixtures("no_network")

# ---- OWLv2


@pytest.fixture(scope="module")
def owl_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.save_owlv2(tmp_path_factory.mktemp("owl") / "tiny-owlv2")


@pytest.fixture(scope="module")
def owl(owl_folder: Path) -> owlv2.OpenVocabularyDetector:
    return owlv2.load(str(owl_folder), **CPU)


SIZES = [(37, 53), (64, 31), (33, 33), (3, 47), (241, 1), (97, 61)]
IMAGES = [picture(seed, *size) for seed, size in enumerate(SIZES)]
QUERIES = [["dog"], ["man", "car", "tree"], []]


def assert_same(actual: list[list[Any]], expected: list[list[Any]]) -> None:
    assert list(map(len, actual)) == list(map(len, expected))
    for a, b in zip(chain(*actual), chain(*expected), strict=True):
        assert a.label == b.label
        np.testing.assert_allclose(a.box, b.box, atol=1e-3)
        assert a.score == pytest.approx(b.score, abs=1e-5)
        np.testing.assert_allclose(a.embedding, b.embedding, atol=1e-5)


@each("words", QUERIES)
def test_detections_do_not_depend_on_who_shares_the_batch(
    owl: owlv2.OpenVocabularyDetector, owl_folder: Path, words: list[str]
) -> None:
    together = owl.detect(IMAGES, words)
    assert bool(sum(map(len, together))) == bool(words)
    assert_same(together, [owl.detect([image], words)[0] for image in IMAGES])
    pairs = owlv2.load(str(owl_folder), **CPU, batch_size=2)
    assert_same(pairs.detect(IMAGES, words), together)
    assert pairs.identity["batch_size"] == "2"


def test_an_image_is_asked_for_each_word(owl: owlv2.OpenVocabularyDetector) -> None:
    dogs, boats, both = (owl.detect(IMAGES[:1], words)[0] for words in (["dog"], ["boat"], ["dog", "boat"]))
    assert {d.label for d in dogs} == {"dog"}
    assert {d.label for d in boats} == {"boat"}
    best = max([*dogs, *boats], key=lambda d: d.score)
    assert (both[0].label, both[0].score) == (best.label, pytest.approx(best.score, abs=1e-5))


def test_what_a_detection_promises(owl: owlv2.OpenVocabularyDetector) -> None:
    words = ["grass", "person", "ball", "hat", "boat"]
    results = owl.detect(IMAGES, words)
    assert any(len(detections) == 3 for detections in results)
    for (height, width), detections in zip(SIZES, results, strict=True):
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
    detections = owl.detect(IMAGES[:1], QUERIES[0])[0]
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
    detections = owl.detect([picture(0, height, width)], ["dog"])[0]
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
    detections = owl.detect([picture(0, 40, 80)], ["dog"])[0]  # the square's lower half is padding
    assert [d.score for d in detections] == pytest.approx([scores[at] for at in kept], abs=1e-6)
    expected = np.clip(80 * np.array(boxes)[kept], 0, (80, 40, 80, 40))
    np.testing.assert_allclose([d.box for d in detections], expected, atol=1e-3)


def test_the_threshold_is_reached_at_a_tenth(
    owl: owlv2.OpenVocabularyDetector, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(owl, monkeypatch, [[0.1, 0.1, 0.6, 0.6]] * 3, [0.5] * 3)
    tenth = torch.tensor(0.1)
    monkeypatch.setattr(torch, "sigmoid", lambda logits: torch.full_like(logits, float(tenth)))
    assert len(owl.detect(IMAGES[:1], ["dog"])[0]) == 3


def test_owlv2_in_bfloat16(owl: owlv2.OpenVocabularyDetector, owl_folder: Path) -> None:
    half = owlv2.load(str(owl_folder), **{**CPU, "dtype": "bfloat16"})
    assert half.identity["dtype"] == "bfloat16"
    detections = list(chain(*half.detect(IMAGES, QUERIES[1])))
    assert len(detections) >= 8
    for d in detections:
        assert d.embedding.dtype == np.float32
        assert np.linalg.norm(d.embedding) == pytest.approx(1, abs=1e-5)
    best, reference = half.detect(IMAGES[:1], QUERIES[0])[0][0], owl.detect(IMAGES[:1], QUERIES[0])[0][0]
    assert best.score == pytest.approx(reference.score, abs=0.05)
    np.testing.assert_allclose(best.box, reference.box, atol=3)


def test_long_words_are_cut(owl: owlv2.OpenVocabularyDetector) -> None:
    assert owl.detect(IMAGES[:1], ["extraordinarilylongword"])[0]
    assert owl.detect([], ["dog"]) == []


# ---- loading


def test_one_load_reads_the_weights_once(owl_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reading = MagicMock(wraps=transformers.Owlv2ForObjectDetection.from_pretrained)
    monkeypatch.setattr(transformers.Owlv2ForObjectDetection, "from_pretrained", reading)
    detector = owlv2.load(str(owl_folder), **CPU)
    for _ in range(2):
        detector.detect(IMAGES[:2], QUERIES[0])
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


def test_weights_that_miss_tensors_are_damaged_or_of_another_kind_are_refused(owl_copy: Path, tmp_path: Path) -> None:
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
        owlv2.load(str(tiny_models.save_qwen(tmp_path / "tiny-qwen")), **CPU)


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
