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
CPU: dict[str, Any] = {"revision": None, "device": "cpu", "dtype": "float32"}


def word_tokenizer(folder: Path, specials: dict[str, str]) -> Any:
    """A tokenizer of whole words."""
    names = [*dict.fromkeys([*specials.values(), "<unk>", *WORDS])]
    model = tokenizers.models.WordLevel({name: index for index, name in enumerate(names)}, unk_token="<unk>")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens([*specials.values()])
    if "bos_token" in specials:
        tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
            single=f"{specials['bos_token']} $A {specials['eos_token']}",
            special_tokens=[(name, names.index(name)) for name in (specials["bos_token"], specials["eos_token"])],
        )
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **{"unk_token": "<unk>", **specials})
    fast.save_pretrained(folder)
    return fast


_ENDS = {"bos_token": "<|startoftext|>", "eos_token": "<|endoftext|>"}


def clip_tokenizer(folder: Path) -> Any:
    return word_tokenizer(folder, {"pad_token": "<pad>", **_ENDS})


def tower(**changed: int) -> dict[str, int]:
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
    return {**sizes, **changed}


def ended_tokenizer(folder: Path) -> Any:
    """A tokenizer of CLIP whose end is not the id 2: for that one, CLIP reads the largest id of a text."""
    return word_tokenizer(folder, {"pad_token": "<pad>", "unk_token": "<unk>", **_ENDS})


def _text_tower(tokenizer: Any, **changed: int) -> dict[str, int]:
    ids = {name: getattr(tokenizer, name) for name in ("pad_token_id", "bos_token_id", "eos_token_id")}
    return tower(vocab_size=len(tokenizer), max_position_embeddings=12, **ids, **changed)


def _save(
    folder: Path, seed: int, kind: str, model: str = "Model", drawn: bool = False, text: Any = None, **config: Any
) -> Path:
    """A model of two towers with its tokenizer: `kind` is how its classes' names begin, `model` how its own ends."""
    tokenizer = ended_tokenizer(folder)
    torch.manual_seed(seed)
    config = {"vision_config": tower(image_size=32, patch_size=8), **config}
    settings = getattr(transformers, f"{kind}Config")(text_config=_text_tower(tokenizer, **(text or {})), **config)
    network = getattr(transformers, f"{kind}{model}")(settings)
    (_drawn(network) if drawn else network).save_pretrained(folder)
    return folder


def save_clip(folder: Path, seed: int = 0, kind: str = "CLIP", **text: int) -> Path:
    """A CLIP, or another of its build."""
    return _save_clip_processor(_save(folder, seed, kind, text=text, projection_dim=16))


def save_metaclip_2(folder: Path, seed: int = 0) -> Path:
    return save_clip(folder, seed, "MetaClip2")


def save_groupvit(folder: Path, seed: int = 0) -> Path:
    groups = {"depths": [1, 1], "num_group_tokens": [4, 0], "num_output_groups": [4, 0]}
    vision = tower(image_size=32, patch_size=8) | groups
    sizes = {"projection_dim": 16, "projection_intermediate_dim": 32}
    return _save_clip_processor(_save(folder, seed, "GroupViT", drawn=True, vision_config=vision, **sizes))


def save_xclip(folder: Path, seed: int = 0, num_frames: int = 3) -> Path:
    mit = {"mit_hidden_size": 16, "mit_intermediate_size": 24, "mit_num_attention_heads": 2, "num_frames": num_frames}
    vision = tower(image_size=32, patch_size=8, **mit)
    sizes = {"projection_dim": 16, "prompt_num_attention_heads": 2}
    return _save_clip_processor(_save(folder, seed, "XCLIP", drawn=True, vision_config=vision, **sizes))


def save_videoprism(folder: Path, seed: int = 0, num_frames: int = 3) -> Path:
    layers = {"num_spatial_layers": 1, "num_temporal_layers": 1, "num_auxiliary_layers": 1}
    vision = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 2, "image_size": 32} | layers
    vision |= {"num_frames": num_frames, "tubelet_size": [1, 8, 8]}
    _save(folder, seed, "VideoPrism", "ClipModel", drawn=True, vision_config=vision)
    settings = {"size": {"height": 32, "width": 32}, "do_normalize": False, "resample": 3}
    (folder / "video_preprocessor_config.json").write_text(json.dumps(settings))
    return folder


def _drawn(model: Any) -> Any:
    """Weights that are not the near-zero ones of a new model, which gives different videos the same features."""
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    return model


def _save_clip_processor(folder: Path, side: int = 32) -> Path:
    size, crop = {"shortest_edge": side}, {"height": side, "width": side}
    transformers.CLIPImageProcessorPil(size=size, crop_size=crop).save_pretrained(folder)
    return folder


def save_siglip(folder: Path, seed: int = 0) -> Path:
    _save(folder, seed, "Siglip", text={"projection_size": 32})
    transformers.SiglipImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(folder)
    return folder


def save_blip(folder: Path, seed: int = 0) -> Path:
    sizes = {"projection_dim": 16, "image_text_hidden_size": 16}
    _save(folder, seed, "Blip", "ForImageTextRetrieval", True, {"encoder_hidden_size": 32}, **sizes)
    transformers.BlipImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(folder)
    return folder


def save_altclip(folder: Path, seed: int = 0) -> Path:
    return save_clip(folder, seed, "AltCLIP", project_dim=16)


def save_chinese_clip(folder: Path, seed: int = 0) -> Path:
    save_clip(folder, seed, "ChineseCLIP")
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
    return _save_clip_processor(folder, 224)


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
    _drawn(transformers.BlipForImageTextRetrieval(config)).save_pretrained(folder)
    transformers.BlipImageProcessorPil(size={"height": 224, "width": 224}).save_pretrained(folder)
    return folder


def save_owlv2(folder: Path) -> Path:
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    vocab = ["!", *letters, *(letter + "</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    tokenizer = transformers.CLIPTokenizer(
        vocab={token: number for number, token in enumerate(vocab)}, merges=[], pad_token="!", model_max_length=16
    )
    ids = {"vocab_size": len(vocab), "bos_token_id": len(vocab) - 2, "eos_token_id": len(vocab) - 1}
    config = transformers.Owlv2Config(
        text_config=tower(hidden_size=16, intermediate_size=24, max_position_embeddings=16, **ids),
        vision_config=tower(hidden_size=24, intermediate_size=32, image_size=32, patch_size=8),
        projection_dim=16,
    )
    torch.manual_seed(3)
    model = transformers.Owlv2ForObjectDetection(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim > 1 and "embedding" not in name:
                weight.normal_(0, 0.5)
        # Scores on both sides of the threshold.
        model.class_head.logit_shift.weight.mul_(0.2)
        model.class_head.logit_shift.bias.fill_(-1.0)
        # Boxes of some size, most of them inside.
        model.box_head.dense2.weight.mul_(0.2)
        model.box_head.dense2.bias.copy_(torch.tensor([-0.5, -0.5, 1.0, 1.0]))
    model.save_pretrained(folder)
    processor = transformers.Owlv2Processor(
        transformers.Owlv2ImageProcessorPil(size={"height": 32, "width": 32}), tokenizer
    )
    processor.save_pretrained(folder)
    return folder


_BYTES = [chr(b) for b in (*range(33, 127), *range(161, 173), *range(174, 256))] + [chr(256 + n) for n in range(68)]
_QWEN_NAMES = ("endoftext", "im_start", "im_end", "vision_start", "vision_end", "image_pad", "video_pad")
_QWEN_TOKENS = [f"<|{name}|>" for name in _QWEN_NAMES]
_QWEN_TEMPLATE = (
    "{% for message in messages %}{% if loop.first and message['role'] != 'system' %}<|im_start|>system\n"
    "You are a helpful assistant.<|im_end|>\n{% endif %}<|im_start|>{{ message['role'] }}\n"
    "{% for content in message['content'] %}{% if content['type'] == 'image' %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% elif content['type'] == 'video' %}"
    "<|vision_start|><|video_pad|><|vision_end|>{% else %}{{ content['text'] }}{% endif %}{% endfor %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def _byte_tokenizer(special: list[str]) -> Any:
    """Qwen's tokenizer, of bytes and these tokens."""
    return transformers.Qwen2Tokenizer(
        vocab={token: number for number, token in enumerate([*_BYTES, *special])},
        merges=[],
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        extra_special_tokens=special,
    )


def save_qwen(folder: Path) -> Path:
    tokenizer = _byte_tokenizer(_QWEN_TOKENS)
    numbers = {token: tokenizer.convert_tokens_to_ids(token) for token in _QWEN_TOKENS}
    config = transformers.Qwen2_5_VLConfig(
        text_config={
            **tower(vocab_size=len(_BYTES) + len(_QWEN_TOKENS), num_key_value_heads=1),
            "initializer_range": 0.4,
            "rope_parameters": {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 10000.0},
            "bos_token_id": numbers["<|endoftext|>"],
            "eos_token_id": numbers["<|im_end|>"],
        },
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_heads": 2,
            "out_hidden_size": 32,
            "fullatt_block_indexes": [1],
            "tokens_per_second": 2,
            "initializer_range": 0.4,
        },
        image_token_id=numbers["<|image_pad|>"],
        video_token_id=numbers["<|video_pad|>"],
        vision_start_token_id=numbers["<|vision_start|>"],
        vision_end_token_id=numbers["<|vision_end|>"],
    )
    torch.manual_seed(5)
    model = transformers.Qwen2_5_VLForConditionalGeneration(config)
    # As in the released checkpoint, but so strong that results would show it.
    model.generation_config = transformers.GenerationConfig(
        do_sample=True,
        temperature=2.0,
        top_k=1,
        repetition_penalty=20.0,
        bos_token_id=numbers["<|endoftext|>"],
        pad_token_id=numbers["<|endoftext|>"],
        eos_token_id=[numbers["<|im_end|>"], numbers["<|endoftext|>"]],
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "chat_template.json").write_text(json.dumps({"chat_template": _QWEN_TEMPLATE}))
    released = {
        "image_processor_type": "Qwen2VLImageProcessor",
        "processor_class": "Qwen2_5_VLProcessor",
        "min_pixels": 3136,
        "max_pixels": 12845056,
        "patch_size": 14,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "image_mean": [0.48145466, 0.4578275, 0.40821073],
        "image_std": [0.26862954, 0.26130258, 0.27577711],
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(released))
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


def language_model(folder: Path) -> Path:
    """A random model of two layers, and a tokenizer of bytes, in a folder."""
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokenizer = _byte_tokenizer(special)
    sizes = tower(vocab_size=len(_BYTES) + len(special), num_key_value_heads=1)
    config = transformers.Qwen2Config(**sizes, initializer_range=0.4, eos_token_id=tokenizer.eos_token_id)
    torch.manual_seed(5)
    model = transformers.Qwen2ForCausalLM(config)
    model.generation_config = transformers.GenerationConfig(do_sample=True, temperature=2.0, repetition_penalty=20.0)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def picture(seed: int, height: int, width: int) -> np.ndarray:
    """Smooth enough to survive resizing, different for each seed."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)
    rows, columns = np.arange(height) * 4 // height, np.arange(width) * 4 // width
    return np.ascontiguousarray(coarse[rows][:, columns])
