"""Style transfer: formal, casual, passive, active."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from perturbations.base.rng import generator, seeded_globals
from perturbations.models.checkpoints import find_weights, pretrained
from perturbations.models.role_registry import Canary, Model, libraries, load
from perturbations.text import formality, voice

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Generator = np.random.Generator
Styler = Callable[[str, str, Generator], str]


# Styleformer's models, and the task each was trained to do.
_T5 = {
    "formal": ("prithivida/informal_to_formal_styletransfer", "transfer Casual to Formal: "),
    "casual": ("prithivida/formal_to_informal_styletransfer", "transfer Formal to Casual: "),
    "passive": ("prithivida/active_to_passive_styletransfer", "transfer Active to Passive: "),
    "active": ("prithivida/passive_to_active_styletransfer", "transfer Passive to Active: "),
}
_ADEQUACY = "prithivida/parrot_adequacy_model"

_CANDIDATES = 5
_ADEQUATE = 0.95
_SAMPLING = {"max_new_tokens": 64, "top_k": 50, "top_p": 0.95}


def rules() -> Styler:
    """Grammar rules and word lists. They edit less than a model: a sentence without a clear match stays as it is."""
    tagger, inflector = load("tagger", "offline"), load("inflector", "offline")
    rewrite = {
        "formal": formality.formal,
        "casual": formality.casual,
        "passive": voice.passive,
        "active": voice.active,
    }

    def restyle(text: str, style: str, rng: Generator) -> str:
        return rewrite[style](text, tagger=tagger, inflector=inflector)

    return restyle


def t5(names: Mapping[str, str] | None = None, adequacy: str = _ADEQUACY) -> Styler:
    """Styleformer's T5 models (Qiu et al., Sec. 2; Schiappa et al., App. A.2), each loaded at its first use.

    They sample; an adequacy model picks the candidate, as in Styleformer. A caption without an adequate candidate stays
    as it is.
    """
    from transformers import AutoModelForSeq2SeqLM, AutoModelForSequenceClassification, AutoTokenizer

    @cache
    def transfer(style: str) -> tuple[Any, PreTrainedTokenizerBase]:
        name = (names or {}).get(style, _T5[style][0])
        return pretrained(AutoModelForSeq2SeqLM, name).eval(), pretrained(AutoTokenizer, name)

    @cache
    def judge() -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
        return pretrained(AutoModelForSequenceClassification, adequacy).eval(), pretrained(AutoTokenizer, adequacy)

    def restyle(text: str, style: str, rng: Generator) -> str:
        if not text.strip():
            return text
        model, tokenizer = transfer(style)
        tokens = tokenizer(_T5[style][1] + text, return_tensors="pt", truncation=True)
        with seeded_globals(rng):
            output = model.generate(**tokens, do_sample=True, num_return_sequences=_CANDIDATES, **_SAMPLING)
        candidates = tokenizer.batch_decode(output, skip_special_tokens=True)
        scores = [_adequacy(*judge(), text, candidate) for candidate in candidates]
        best = int(np.argmax(scores))
        return str(candidates[best]) if candidates[best].strip() and scores[best] >= _ADEQUATE else text

    return restyle


def _adequacy(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, text: str, candidate: str) -> float:
    """The probability of the model's last class, entailment, for the two texts."""
    import torch

    with torch.inference_mode():
        logits = model(**tokenizer(text, candidate, return_tensors="pt", truncation=True)).logits[0]
    return float(logits.softmax(dim=-1)[-1])


def _styled(styler: Styler, sentence: str) -> str:
    return styler(sentence, "passive", generator(0, "", "", "canary"))


MODELS = (
    Model(
        role="styler",
        backends=("offline",),
        name="grammar-rules",
        weights="none",
        licence="as the package",
        load=rules,
        needs=(libraries("textblob", "lemminflect"),),
        canary=Canary(
            sentence="a man plays a guitar",
            answer=_styled,
            holds=lambda answer, sentence: answer == "a guitar is played by a man",
            expected="its passive",
        ),
    ),
    Model(
        role="styler",
        name="prithivida/styletransfer",
        licence="Apache-2.0",
        load=t5,
        needs=(
            libraries("torch", "transformers"),
            partial(find_weights, *(name for name, _ in _T5.values()), _ADEQUACY),
        ),
        # Its judge leaves a sentence as it is where no candidate is adequate.
        canary=Canary(
            sentence="a man plays a guitar",
            answer=_styled,
            holds=lambda answer, sentence: "guitar" in answer,
            expected="a sentence about a guitar",
        ),
    ),
)
