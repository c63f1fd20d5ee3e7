"""A causal language model of transformers that writes short answers: the most probable words, and yes or no."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from perturbations.base.errors import ConfigError
from perturbations.models.checkpoints import (
    Checkpoint,
    find_checkpoint,
    identity,
    library,
    load_model,
    load_part,
    read_config,
    runtime,
)
from perturbations.models.role_registry import Model

if TYPE_CHECKING:
    import torch
    from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase

_MAX_NEW_TOKENS = 48
_YES, _NO = ("yes", "Yes", " yes", " Yes"), ("no", "No", " no", " No")


@dataclass(frozen=True, eq=False)
class LanguageModel:
    """A loaded language model. Each prompt is read alone, so that no answer depends on other prompts.

    Attributes:
        identity: name, revision, dtype, device and library version, for the manifest.
    """

    _model: Any  # its `generate` does not type-check
    _tokenizer: PreTrainedTokenizerBase
    identity: dict[str, str]

    @property
    def source(self) -> str:
        """The text that rows record: the name, and where the weights are from."""
        return f"llm {self.identity['name']} {self.identity['revision']}"

    def answer(self, prompt: str) -> str:
        """The most probable continuation of a prompt, up to the end of its first line; empty where there is none."""
        torch = library("torch")
        inputs = self._inputs(prompt)
        with torch.inference_mode():
            output = self._model.generate(**inputs)
        written = output[0, inputs["input_ids"].shape[1] :]
        return str(self._tokenizer.decode(written, skip_special_tokens=True)).strip().partition("\n")[0].strip()

    def says_yes(self, prompt: str) -> bool:
        """Whether "yes" is a more probable first word than "no"; if both are equal, "no"."""
        torch = library("torch")
        with torch.inference_mode():
            logits = self._model(**self._inputs(prompt)).logits[0, -1]
        yes, no = self._first_tokens(_YES), self._first_tokens(_NO)
        shared = yes & no  # such as the mark of a word's start
        if not yes - shared or not no - shared:
            raise ConfigError(f"{self.identity['name']}: its tokenizer cannot tell yes from no by the first token")
        return bool(logits[sorted(yes - shared)].max() > logits[sorted(no - shared)].max())

    def perplexity(self, text: str) -> float | None:
        """The exponential of the mean negative logarithm of the tokens' probabilities, each after those before it.

        The first token follows the tokenizer's beginning or end of a text, where it has one. None for a text of fewer
        than two tokens.
        """
        torch = library("torch")
        tokenizer = self._tokenizer
        start = tokenizer.eos_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
        ids = [*([] if start is None else [start]), *tokenizer(text, add_special_tokens=False)["input_ids"]]
        if len(ids) < 2:
            return None
        tokens = torch.tensor([ids], device=self._model.device)
        with torch.inference_mode():
            logits = self._model(input_ids=tokens).logits[0, :-1].float()
        return float(torch.nn.functional.cross_entropy(logits, tokens[0, 1:]).exp())

    def _first_tokens(self, words: Sequence[str]) -> set[int]:
        encoded = (self._tokenizer(word, add_special_tokens=False)["input_ids"] for word in words)
        return {int(cast("list[int]", ids)[0]) for ids in encoded if ids}

    def _inputs(self, prompt: str) -> dict[str, torch.Tensor]:
        if self._tokenizer.chat_template:
            message = [{"role": "user", "content": prompt}]
            text = str(self._tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False))
            encoded = self._tokenizer(text, add_special_tokens=False, return_tensors="pt")
        else:
            encoded = self._tokenizer(prompt, return_tensors="pt")
        return {name: encoded[name].to(self._model.device) for name in ("input_ids", "attention_mask")}


def load(model: str, *, revision: str | None = None, device: str = "cpu", dtype: str = "float32") -> LanguageModel:
    """The causal language model of this hub name or folder, on this device.

    Arguments are as of `owlv2.load`.

    Raises:
        ConfigError: a library, the checkpoint or the device is missing, or it is no causal language model.
    """
    torch_device, torch_dtype = runtime(device, dtype)
    transformers = library("transformers")
    checkpoint = find_checkpoint(model, revision)
    loaded = load_model(_model_class(checkpoint), checkpoint, device=torch_device, dtype=torch_dtype)
    tokenizer = load_part(transformers.AutoTokenizer, checkpoint)
    if not len(tokenizer):
        raise ConfigError(f"model {checkpoint.name!r} in {checkpoint.folder} has no tokenizer")
    loaded.generation_config = greedy(loaded, tokenizer, _MAX_NEW_TOKENS)
    return LanguageModel(loaded, tokenizer, identity(loaded, checkpoint))


def _model_class(checkpoint: Checkpoint) -> type[PreTrainedModel]:
    transformers = library("transformers")
    kind = str(read_config(checkpoint)["model_type"])
    known = transformers.CONFIG_MAPPING
    classes = transformers.MODEL_FOR_CAUSAL_LM_MAPPING
    if kind not in known or known[kind] not in classes:
        raise ConfigError(
            f"model {checkpoint.name!r} in {checkpoint.folder} is {kind[:100]!r}, which transformers does not know as "
            "a causal language model"
        )
    return cast("type[PreTrainedModel]", classes[known[kind]])


def greedy(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, max_new_tokens: int) -> GenerationConfig:
    """New settings for generation, because the checkpoint's settings may sample, and penalize repetition.

    A penalty counts the padding token, which may end an answer, so that the length of the other texts of a batch would
    decide when it stops.
    """
    saved = model.generation_config
    end = tokenizer.eos_token_id if saved is None or saved.eos_token_id is None else saved.eos_token_id
    padding = tokenizer.pad_token_id if saved is None or saved.pad_token_id is None else saved.pad_token_id
    first = end[0] if isinstance(end, list) else end
    settings: GenerationConfig = library("transformers").GenerationConfig(
        max_new_tokens=max_new_tokens,
        do_sample=False,
        num_beams=1,
        repetition_penalty=1.0,
        eos_token_id=end,
        pad_token_id=first if padding is None else padding,
    )
    return settings


MODELS = (
    Model(
        role="instruction writer",
        name="any causal language model",
        weights="model hub, or a folder",
        licence="the model's own",
        load=load,
        of="splits",
    ),
)
