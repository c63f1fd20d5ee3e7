"""Models of an evaluation: what prepares their inputs, and folders whose recall would be at chance without an error."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from looping import each

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
safetensors_torch = pytest.importorskip("safetensors.torch")

import tiny_models
from evaluation_job import CAPTIONS, five_clips, job, run
from tta_models import pooling_state, tiny_clip

from perturbations import tta
from perturbations.base.errors import ConfigError
from perturbations.evaluation import backbones
from perturbations.evaluation.models import encoder_loading, openai_names, preprocessing
from perturbations.manifest.rows import CompleteSource
from perturbations.tta import inputs, towers

SAVED: dict[str, Callable[[Path], Path]] = {
    "clip": tiny_models.save_clip,
    "siglip": tiny_models.save_siglip,
    "blip": tiny_models.save_blip,
    "altclip": tiny_models.save_altclip,
    "chinese_clip": tiny_models.save_chinese_clip,
    "metaclip_2": tiny_models.save_metaclip_2,
    "xclip": tiny_models.save_xclip,
    "videoprism": tiny_models.save_videoprism,
}
PUBLISHED = {"clip_b16": tiny_models.save_clip_b16, "blip_b16": tiny_models.save_blip_b16}
"""Models with ViT-B/16's patches, and the tokenizers of the published folders."""
PROCESSORS = {
    "clip": "clip.image_processing_pil_clip.CLIPImageProcessorPil",
    "siglip": "siglip.image_processing_pil_siglip.SiglipImageProcessorPil",
    "blip": "blip.image_processing_pil_blip.BlipImageProcessorPil",
    "altclip": "clip.image_processing_pil_clip.CLIPImageProcessorPil",
    "chinese_clip": "chinese_clip.image_processing_pil_chinese_clip.ChineseCLIPImageProcessorPil",
    "metaclip_2": "clip.image_processing_pil_clip.CLIPImageProcessorPil",
    "xclip": "clip.image_processing_pil_clip.CLIPImageProcessorPil",
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    return {kind: save(root / kind) for kind, save in (SAVED | PUBLISHED).items()}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[CompleteSource]:
    return five_clips(tmp_path_factory.mktemp("clips"))


def load(folder: Path, checkpoint: Path | None = None) -> encoder_loading.LoadedBackbone:
    return encoder_loading.load(str(folder), num_frames=3, checkpoint=checkpoint)


def test_every_supported_architecture_is_tested() -> None:
    assert set(SAVED) == {*PROCESSORS, "videoprism"} == set(backbones.backbones())  # its processor needs torchvision


@pytest.mark.parametrize("kind", PROCESSORS)
def test_inputs_are_those_of_the_folders_own_processors(kind: str, folders: dict[str, Path]) -> None:
    loaded = load(folders[kind])
    module, _, name = PROCESSORS[kind].rpartition(".")
    processor = getattr(importlib.import_module(f"transformers.models.{module}"), name).from_pretrained(folders[kind])
    for height, width in ((48, 64), (64, 48), (33, 101), (16, 16), (8, 40)):
        stack = np.random.default_rng(0).integers(0, 256, (2, height, width, 3), dtype=np.uint8)
        expected = processor(list(stack), return_tensors="np")["pixel_values"]
        pixels = inputs.frames(loaded.images.batch(loaded.images.resized(stack)[None]), torch.device("cpu"))[0].numpy()
        assert pixels.shape == expected.shape
        # Levels may round differently by one.
        assert np.abs(pixels - expected).max() <= 1.01 / 255 / min(loaded.images.std)
    tokens = loaded.texts.tokens(["a man", "a cat is playing"])
    ends = (["input_ids"], loaded.texts.most_tokens) if kind == "siglip" else (["input_ids", "attention_mask"], 6)
    assert (list(tokens), tokens["input_ids"].shape[1]) == ends
    assert encoder_loading.check(loaded)["device"] == "cpu"


@pytest.mark.parametrize("kind", ["xclip", "videoprism"])
def test_a_whole_videos_feature_is_the_librarys(kind: str, folders: dict[str, Path], tmp_path: Path) -> None:
    """The order of frames counts, as many frames are demanded as it sees, and X-Pool is refused."""
    loaded = load(folders[kind])
    model = transformers.AutoModel.from_pretrained(folders[kind]).eval()
    videos = torch.randn(10, 3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    tokens = loaded.texts.tokens(["a man", "a cat is playing"])
    with torch.no_grad():
        ours = loaded.model.encode_frames(videos)
        expected = model.get_video_features(videos).pooler_output.flatten(1)
        texts = loaded.model.encode_texts(tokens["input_ids"], tokens["attention_mask"])
        assert torch.allclose(texts, model.get_text_features(**tokens).pooler_output)
    assert ours.shape == (10, 1, expected.shape[1])
    assert torch.allclose(ours[:, 0], expected, atol=1e-5)
    assert not torch.allclose(loaded.model.encode_frames(videos.flip(1)), ours, atol=1e-5)
    assert encoder_loading.check(loaded)["device"] == "cpu"
    other = SAVED[kind](tmp_path / "other", num_frames=5)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="num_frames is 3, and other sees 5 frames .* set num_frames to 5"):
        load(other)
    with pytest.raises(ConfigError, match="one feature per video"):
        tta.xpool(model, pooling_state())


@pytest.mark.parametrize("direction", ["v2t", "t2v"])
@pytest.mark.parametrize("kind", [*SAVED, *PUBLISHED])
def test_every_architecture_goes_through_the_whole_runner(
    kind: str,
    direction: str,
    folders: dict[str, Path],
    rows: list[CompleteSource],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    methods = ["none", "tcr"]
    if kind in PUBLISHED:
        methods = ["none", "sar", "hatvtr"]
        monkeypatch.setattr(towers, "SMALLEST_WIDTH", 1)  # CLIP takes the pass of large towers
        assert load(folders[kind]).images.size == 224
    results, ranks = run(job(direction, methods), folders[kind], rows, tmp_path)
    steps = [(row.method, row.updates + row.empty, row.non_finite) for row in results]
    assert steps == [("none", 0, 0), *((name, 3, 0) for name in methods[1:])]
    assert len({row.queries_sha256 for row in results}) == 1
    assert len(ranks) == len(methods) * len(CAPTIONS)


@pytest.mark.parametrize("kind", SAVED)
def test_a_backbone_can_do_what_its_entry_says(
    kind: str, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = backbones.backbone(kind, "here")
    model = getattr(transformers, declared.model_class).from_pretrained(folders[kind])
    model.config.vision_config.hidden_act = "quick_gelu"
    monkeypatch.setattr(towers, "SMALLEST_WIDTH", 1)
    assert towers.is_plain_clip(model) == ("a faster pass" in declared.also)


def remove(*names: str) -> Callable[[Path], object]:
    return lambda folder: [(folder / name).unlink() for name in names]


def changed(name: str, **values: object) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        held = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(held | values))

    return change


def with_words(*words: str) -> Callable[[Path], object]:
    """A tokenizer of other words, with the same special tokens."""

    def change(folder: Path) -> None:
        before, tiny_models.WORDS = tiny_models.WORDS, list(words)
        try:
            tiny_models.ended_tokenizer(folder)
        finally:
            tiny_models.WORDS = before

    return change


IMAGES = "preprocessor_config.json"


@each(
    ("damage", "message"),
    [
        (remove("tokenizer.json"), "holds no tokenizer"),
        (with_words(), "gives different texts the same ids"),
        (with_words(*(f"word{place}" for place in range(40))), "has the id 43, the model 24 embeddings"),
        (tiny_models.clip_tokenizer, r"does not end a text with the token that the model reads \(3\)"),
        (remove(IMAGES), "holds no preprocessor_config.json"),
        (lambda folder: (folder / IMAGES).write_text("{"), f"{IMAGES} cannot be read"),
        (changed(IMAGES, image_mean=None), "image_mean: None, not three numbers"),
        (changed(IMAGES, image_std=[1, 0, 1]), r"image_std: \(1.0, 0.0, 1.0\)"),
        (changed(IMAGES, do_rescale=False), "do_rescale: false"),
        (changed(IMAGES, rescale_factor=1.0), "rescale_factor: 1.0"),
        (changed(IMAGES, resample=0), "resample: 0"),
        (changed(IMAGES, size={"shortest_edge": 40}), "size: .*40.*which is not supported"),
        (changed(IMAGES, size=16, crop_size=16), "images of 16 pixels, the model needs 32"),
    ],
)
def test_parts_that_do_not_fit_each_other_are_refused(
    damage: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    folder = tiny_models.save_clip(tmp_path / "clip")
    damage(folder)
    with pytest.raises(ConfigError, match=message):
        load(folder)


def test_a_processor_inside_that_of_the_whole_model(tmp_path: Path) -> None:
    folder = tiny_models.save_siglip(tmp_path / "siglip")
    expected = load(folder).images
    held = json.loads((folder / IMAGES).read_text())
    (folder / IMAGES).unlink()
    (folder / "processor_config.json").write_text(json.dumps({"image_processor": held}))
    assert load(folder).images == expected == preprocessing.Images(32, False, "bicubic", (0.5,) * 3, (0.5,) * 3)


def test_captions_that_the_tokenizer_cannot_tell_apart_are_refused(folders: dict[str, Path]) -> None:
    texts = load(folders["clip"]).texts
    preprocessing.check_distinct(texts, ["a man", "a cat", "a cat"])
    preprocessing.check_distinct(texts, ["一 二", "一 二"])  # one caption, twice
    with pytest.raises(ConfigError, match="2 different captions the same ids"):
        preprocessing.check_distinct(texts, ["一 二", "三 四"])


def test_a_model_without_a_difference_between_inputs_is_refused(tmp_path: Path) -> None:
    folder = tiny_models.save_clip(tmp_path / "clip")
    weights = safetensors_torch.load_file(folder / "model.safetensors")
    for name, message in (("visual_projection.weight", "different images"), ("text_projection.weight", "NaN")):
        value = float("nan") if message == "NaN" else 0.0
        spoiled = {**weights, name: torch.full_like(weights[name], value)}
        safetensors_torch.save_file(spoiled, folder / "model.safetensors", {"format": "pt"})
        with pytest.raises(ConfigError, match=message):
            encoder_loading.check(load(folder))


# --- CLIP4Clip's checkpoints, and folders of torch files -------------------------------------------------------------


def openai_state(model: Any) -> dict[str, Any]:
    """The weights of a CLIP as OpenAI's code names and joins them."""
    held = dict(model.state_dict())
    state = {"logit_scale": held["logit_scale"], "input_resolution": torch.tensor(32)}
    state["visual.proj"], state["text_projection"] = (
        held[f"{name}_projection.weight"].T.contiguous() for name in ("visual", "text")
    )
    for there, here in (("visual.", "vision_model."), ("", "text_model.")):
        embeddings = f"{here}embeddings."
        state[f"{there}positional_embedding"] = held[f"{embeddings}position_embedding.weight"]
        for what in ("weight", "bias"):
            for layer in range(2):
                old, new = f"{here}encoder.layers.{layer}.", f"{there}transformer.resblocks.{layer}."
                parts = [held[f"{old}self_attn.{part}_proj.{what}"] for part in "qkv"]
                state[f"{new}attn.in_proj_{what}"] = torch.cat(parts)
                names = {"self_attn.out_proj": "attn.out_proj", "mlp.fc1": "mlp.c_fc", "mlp.fc2": "mlp.c_proj"}
                for name, other in (names | {"layer_norm1": "ln_1", "layer_norm2": "ln_2"}).items():
                    state[f"{new}{other}.{what}"] = held[f"{old}{name}.{what}"]
    for what in ("weight", "bias"):
        state[f"visual.ln_pre.{what}"] = held[f"vision_model.pre_layrnorm.{what}"]
        state[f"visual.ln_post.{what}"] = held[f"vision_model.post_layernorm.{what}"]
        state[f"ln_final.{what}"] = held[f"text_model.final_layer_norm.{what}"]
    state["visual.class_embedding"] = held["vision_model.embeddings.class_embedding"]
    state["visual.conv1.weight"] = held["vision_model.embeddings.patch_embedding.weight"]
    state["token_embedding.weight"] = held["text_model.embeddings.token_embedding.weight"]
    return state


def test_openais_names_become_those_of_transformers() -> None:
    model = tiny_clip(3)
    renamed = openai_names.renamed(openai_state(model))
    expected = {name: value for name, value in model.state_dict().items() if not name.endswith("position_ids")}
    assert set(renamed) == set(expected)
    assert all(torch.equal(renamed[name], value) for name, value in expected.items())


def test_a_checkpoint_of_clip4clip_is_loaded(tmp_path: Path) -> None:
    """Its files are called pytorch_model.bin.<epoch> and hold half-precision weights under OpenAI's names."""
    tiny_clip(0).save_pretrained(tmp_path / "clip")
    other = tiny_clip(5)
    path = tmp_path / "pytorch_model.bin.4"
    torch.save({f"clip.{name}": value for name, value in openai_state(other).items()}, path)
    encoder = encoder_loading.load_encoder("clip4clip", str(tmp_path / "clip"), checkpoint=path)
    weight = next(encoder.vision.parameters())
    assert torch.equal(weight, next(other.vision_model.parameters()))
    torch.save({**torch.load(path, weights_only=True), "transformerClip.a": torch.zeros(1)}, path)
    with pytest.raises(ConfigError, match="only the mean is supported"):
        encoder_loading.load_encoder("clip4clip", str(tmp_path / "clip"), checkpoint=path)


def test_openais_weights_in_a_model_of_another_activation_are_refused() -> None:
    model = tiny_clip(0)
    model.config.text_config.hidden_act = "gelu"
    with pytest.raises(
        ConfigError, match="its activation is quick_gelu, but the pretrained model has gelu, quick_gelu"
    ):
        encoder_loading.load_clip(model, openai_state(tiny_clip(0)))


def test_a_folder_of_torch_files_says_how_to_convert_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tiny_models.save_clip(tmp_path / "clip")
    expected = load(folder).sha256
    weights = safetensors_torch.load_file(folder / "model.safetensors")
    torch.save(weights, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match=r"holds no \*.safetensors file; convert pytorch_model.bin once") as raised:
        load(folder)
    program = re.search(r'python -c "(.*)"', str(raised.value))
    assert program is not None
    monkeypatch.chdir(folder)
    exec(program[1], {})
    assert load(folder).sha256 == expected
