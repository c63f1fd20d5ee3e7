"""Tiny, randomly initialised models of the classes that the pretrained backends load, saved as a hub has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
transformers.logging.disable_progress_bar()
tokenizers = pytest.importorskip("tokenizers")

WORDS = ["a", "man", "cat", "dog", "ball", "is", "playing", "with", "in", "the", "park", "video", "describe", "main"]
WORDS += ["objects", "of", "this", "and", "their", "actions"]


def word_tokenizer(folder: Path, specials: dict[str, str], extra: list[str]) -> Any:
    """A tokenizer of whole words."""
    names = [*dict.fromkeys([*specials.values(), *extra, "<unk>", *WORDS])]
    model = tokenizers.models.WordLevel({name: index for index, name in enumerate(names)}, unk_token="<unk>")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens([*dict.fromkeys([*specials.values(), *extra])])
    if "bos_token" in specials:
        tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
            single=f"{specials['bos_token']} $A {specials['eos_token']}",
            special_tokens=[(name, names.index(name)) for name in (specials["bos_token"], specials["eos_token"])],
        )
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **{"unk_token": "<unk>", **specials})
    fast.save_pretrained(folder)
    return fast


def clip_tokenizer(folder: Path) -> Any:
    # The id 0 is the padding's: OWLv2 takes a row that begins with it for no query.
    return word_tokenizer(
        folder, {"pad_token": "<pad>", "bos_token": "<|startoftext|>", "eos_token": "<|endoftext|>"}, []
    )


def tower(**changed: int) -> dict[str, int]:
    return {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        **changed,
    }


def ended_tokenizer(folder: Path) -> Any:
    """A tokenizer of CLIP whose end is not the id 2: for that one, CLIP reads the largest id of a text."""
    ends = {"bos_token": "<|startoftext|>", "eos_token": "<|endoftext|>"}
    return word_tokenizer(folder, {"pad_token": "<pad>", "unk_token": "<unk>", **ends}, [])


def save_clip(folder: Path, seed: int = 0) -> Path:
    tokenizer = ended_tokenizer(folder)
    torch.manual_seed(seed)
    config = transformers.CLIPConfig(
        text_config=tower(
            vocab_size=len(tokenizer),
            max_position_embeddings=12,
            eos_token_id=tokenizer.eos_token_id,
            bos_token_id=tokenizer.bos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        ),
        vision_config=tower(image_size=32, patch_size=8),
        projection_dim=16,
    )
    transformers.CLIPModel(config).save_pretrained(folder)
    _save_clip_processor(folder)
    return folder


def _text_tower(tokenizer: Any, **changed: int) -> dict[str, int]:
    ids = {name: getattr(tokenizer, name) for name in ("pad_token_id", "bos_token_id", "eos_token_id")}
    return tower(vocab_size=len(tokenizer), max_position_embeddings=12, **ids, **changed)


def save_metaclip_2(folder: Path, seed: int = 0) -> Path:
    tokenizer = ended_tokenizer(folder)
    torch.manual_seed(seed)
    config = transformers.MetaClip2Config(
        text_config=_text_tower(tokenizer), vision_config=tower(image_size=32, patch_size=8), projection_dim=16
    )
    transformers.MetaClip2Model(config).save_pretrained(folder)
    _save_clip_processor(folder)
    return folder


def save_xclip(folder: Path, seed: int = 0, num_frames: int = 3) -> Path:
    tokenizer = ended_tokenizer(folder)
    torch.manual_seed(seed)
    mit = {"mit_hidden_size": 16, "mit_intermediate_size": 24, "mit_num_attention_heads": 2, "num_frames": num_frames}
    config = transformers.XCLIPConfig(
        text_config=_text_tower(tokenizer),
        vision_config=tower(image_size=32, patch_size=8, **mit),
        projection_dim=16,
        prompt_num_attention_heads=2,
    )
    _drawn(transformers.XCLIPModel(config)).save_pretrained(folder)
    _save_clip_processor(folder)
    return folder


def save_videoprism(folder: Path, seed: int = 0, num_frames: int = 3) -> Path:
    tokenizer = ended_tokenizer(folder)
    torch.manual_seed(seed)
    layers = {"num_spatial_layers": 1, "num_temporal_layers": 1, "num_auxiliary_layers": 1}
    vision = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 2, "image_size": 32} | layers
    config = transformers.VideoPrismConfig(
        text_config=_text_tower(tokenizer),
        vision_config={**vision, "num_frames": num_frames, "tubelet_size": [1, 8, 8]},
    )
    _drawn(transformers.VideoPrismClipModel(config)).save_pretrained(folder)
    settings = {"size": {"height": 32, "width": 32}, "do_normalize": False, "resample": 3}
    (folder / "video_preprocessor_config.json").write_text(json.dumps(settings))
    return folder


def _drawn(model: Any) -> Any:
    """Weights that are not the near-zero ones of a new model, which gives different videos the same features."""
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    return model


def _save_clip_processor(folder: Path) -> None:
    size, crop = {"shortest_edge": 32}, {"height": 32, "width": 32}
    transformers.CLIPImageProcessorPil(size=size, crop_size=crop).save_pretrained(folder)


def save_siglip(folder: Path, seed: int = 0) -> Path:
    tokenizer = ended_tokenizer(folder)
    torch.manual_seed(seed)
    config = transformers.SiglipConfig(
        text_config=_text_tower(tokenizer, projection_size=32), vision_config=tower(image_size=32, patch_size=8)
    )
    transformers.SiglipModel(config).save_pretrained(folder)
    transformers.SiglipImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(folder)
    return folder


def save_blip(folder: Path, seed: int = 0) -> Path:
    tokenizer = ended_tokenizer(folder)
    torch.manual_seed(seed)
    config = transformers.BlipConfig(
        text_config=_text_tower(tokenizer, encoder_hidden_size=32),
        vision_config=tower(image_size=32, patch_size=8),
        projection_dim=16,
        image_text_hidden_size=16,
    )
    model = transformers.BlipForImageTextRetrieval(config)
    for parameter in model.parameters():  # BLIP's own start is so near to zero that all images look the same
        torch.nn.init.normal_(parameter, std=0.1)
    model.save_pretrained(folder)
    transformers.BlipImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(folder)
    return folder


def save_altclip(folder: Path, seed: int = 0) -> Path:
    tokenizer = ended_tokenizer(folder)
    torch.manual_seed(seed)
    config = transformers.AltCLIPConfig(
        text_config=_text_tower(tokenizer, project_dim=16),
        vision_config=tower(image_size=32, patch_size=8),
        projection_dim=16,
    )
    transformers.AltCLIPModel(config).save_pretrained(folder)
    size, crop = {"shortest_edge": 32}, {"height": 32, "width": 32}
    transformers.CLIPImageProcessorPil(size=size, crop_size=crop).save_pretrained(folder)
    return folder


def save_chinese_clip(folder: Path, seed: int = 0) -> Path:
    tokenizer = ended_tokenizer(folder)
    torch.manual_seed(seed)
    config = transformers.ChineseCLIPConfig(
        text_config=_text_tower(tokenizer), vision_config=tower(image_size=32, patch_size=8), projection_dim=16
    )
    transformers.ChineseCLIPModel(config).save_pretrained(folder)
    size = {"height": 32, "width": 32}  # as the published folders: both sides are resized
    transformers.ChineseCLIPImageProcessorPil(size=size, do_center_crop=False).save_pretrained(folder)
    return folder


VIT_B16 = {"image_size": 224, "patch_size": 16, "num_attention_heads": 12, "hidden_size": 48}
"""A ViT-B/16 but for its width and depth: 197 tokens, 12 heads."""


def save_clip_b16(folder: Path, seed: int = 0) -> Path:
    """CLIP ViT-B/16 as OpenAI's is published: byte pairs; a text ends with the largest id, while the file says 2."""
    letters = [chr(value) for value in range(ord("!"), ord("~") + 1)]
    names = [*letters, *(f"{letter}</w>" for letter in letters), "ma", "man</w>", "<|startoftext|>", "<|endoftext|>"]
    vocabulary = {name: place for place, name in enumerate(names)}
    tokenizer = transformers.CLIPTokenizer(vocabulary, [("m", "a"), ("ma", "n</w>")], model_max_length=12)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(seed)
    text = tower(vocab_size=len(names), max_position_embeddings=12, eos_token_id=2, bos_token_id=0, pad_token_id=1)
    config = transformers.CLIPConfig(
        text_config={**text, "hidden_act": "quick_gelu"},
        vision_config={**tower(**VIT_B16), "hidden_act": "quick_gelu"},
        projection_dim=16,
    )
    transformers.CLIPModel(config).save_pretrained(folder)
    size, crop = {"shortest_edge": 224}, {"height": 224, "width": 224}
    transformers.CLIPImageProcessorPil(size=size, crop_size=crop).save_pretrained(folder)
    return folder


def save_blip_b16(folder: Path, seed: int = 0) -> Path:
    """BLIP's retrieval model with a ViT-B/16 and BERT's word pieces."""
    letters = [chr(value) for value in range(ord("a"), ord("z") + 1)]
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "man", *letters, *(f"##{letter}" for letter in letters)]
    vocabulary = {name: place for place, name in enumerate(pieces)}
    tokenizer = transformers.BertTokenizer(vocabulary, model_max_length=12)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(seed)
    text = tower(vocab_size=len(pieces), max_position_embeddings=12, encoder_hidden_size=48)
    ids = {"bos_token_id": 2, "eos_token_id": 3, "sep_token_id": 3, "pad_token_id": 0}
    config = transformers.BlipConfig(
        text_config={**text, **ids}, vision_config=tower(**VIT_B16), projection_dim=16, image_text_hidden_size=16
    )
    model = transformers.BlipForImageTextRetrieval(config)
    for parameter in model.parameters():  # BLIP's own start is so near to zero that all images look the same
        torch.nn.init.normal_(parameter, std=0.1)
    model.save_pretrained(folder)
    transformers.BlipImageProcessorPil(size={"height": 224, "width": 224}).save_pretrained(folder)
    return folder


def save_owlv2(folder: Path, seed: int = 0) -> Path:
    tokenizer = clip_tokenizer(folder)
    torch.manual_seed(seed)
    config = transformers.Owlv2Config(
        text_config=tower(
            vocab_size=len(tokenizer),
            max_position_embeddings=8,
            eos_token_id=tokenizer.eos_token_id,
            bos_token_id=tokenizer.bos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        ),
        vision_config=tower(image_size=48, patch_size=8),
        projection_dim=32,
    )
    model = transformers.Owlv2ForObjectDetection(config)
    for parameter in model.parameters():  # far from zero, so that scores and boxes differ from place to place
        torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    transformers.Owlv2ImageProcessorPil(size={"height": 48, "width": 48}).save_pretrained(folder)
    return folder


# The template that Qwen2.5-VL's tokenizers carry, without what only tools and ids need.
CHAT = (
    "{% for message in messages %}{% if loop.first and message['role'] != 'system' %}<|im_start|>system\n"
    "You are a helpful assistant.<|im_end|>\n{% endif %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}<|im_end|>\n{% else %}"
    "{% for content in message['content'] %}{% if content['type'] == 'image' or 'image' in content %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% elif content['type'] == 'video' or 'video' in content %}"
    "<|vision_start|><|video_pad|><|vision_end|>{% elif 'text' in content %}{{ content['text'] }}{% endif %}"
    "{% endfor %}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def save_qwen(folder: Path, seed: int = 0) -> Path:
    extra = ["<|im_start|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
    tokenizer = word_tokenizer(folder, {"pad_token": "<|endoftext|>", "eos_token": "<|im_end|>"}, extra)
    tokenizer.chat_template = CHAT
    tokenizer.save_pretrained(folder)
    ids = {name: tokenizer.convert_tokens_to_ids(name) for name in extra}
    torch.manual_seed(seed)
    config = transformers.Qwen2_5_VLConfig(
        text_config=tower(
            vocab_size=len(tokenizer),
            num_key_value_heads=1,
            max_position_embeddings=4096,
            eos_token_id=tokenizer.eos_token_id,
            bos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
        | {"rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3], "rope_type": "default"}},
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_heads": 2,
            "out_hidden_size": 32,
            "patch_size": 14,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "window_size": 112,
            "fullatt_block_indexes": [1],
        },
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
    )
    model = transformers.Qwen2_5_VLForConditionalGeneration(config)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    # As the published checkpoint does: without an explicit wish it would sample.
    model.generation_config.update(do_sample=True, temperature=0.7, top_p=0.8, repetition_penalty=1.05)
    model.save_pretrained(folder)
    transformers.Qwen2VLImageProcessorPil().save_pretrained(folder)
    return folder


def save_nouns(folder: Path) -> Path:
    """A spaCy pipeline that tags by a list; its parser knows nothing."""
    spacy = pytest.importorskip("spacy")
    pipeline = spacy.blank("en")
    parser = pipeline.add_pipe("parser")
    for label in ("nsubj", "ROOT", "det"):
        parser.add_label(label)
    ruler = pipeline.add_pipe("attribute_ruler")
    pipeline.initialize()
    for word in WORDS:
        ruler.add([[{"LOWER": word}]], {"POS": "NOUN", "LEMMA": word})
    pipeline.to_disk(folder)
    return folder


def save_adain(folder: Path, seed: int = 0) -> dict[str, str]:
    """Random networks of AdaIN's own size under the names of the published files: settings of the configuration."""
    from perturbations.base import storage
    from perturbations.models import adain

    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(seed)
    files = {}
    for role, name, network in (
        ("encoder", "vgg_normalised.pth", adain.encoder()),
        ("decoder", "decoder.pth", adain.decoder()),
    ):
        state = network.state_dict()
        for parameter in state.values():
            if parameter.dim() == 4:
                torch.nn.init.kaiming_normal_(parameter)
        if role == "encoder":  # the published file goes on to relu5_1
            state["31.weight"] = torch.zeros(512, 512, 3, 3)
        torch.save(state, folder / name)
        files |= {role: str(folder / name), f"{role}_sha256": storage.sha256(folder / name)}
    return files


def pictures(count: int, height: int = 60, width: int = 80, seed: int = 0) -> list[np.ndarray]:
    return list(np.random.default_rng(seed).integers(0, 256, (count, height, width, 3), dtype=np.uint8))
