"""The roles of models in caption perturbations, and the player of each role per backend.

`pretrained` is what the papers used: weights from a model hub. `offline` works without any download. A role may have
the same player in both.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from perturbations.errors import BackendError

BACKENDS = ("offline", "pretrained")


@dataclass(frozen=True)
class Player:
    """A model that plays a role: the name that rows record, and `module:function` that loads it."""

    name: str
    loader: str


_MODELS = "perturbations.models"
_INFLECTOR = Player("lemminflect", f"{_MODELS}.text_inflection:lemminflect")
_WORDNET = Player("wordnet-3.0", f"{_MODELS}.text_wordnet:synonyms")
_AMBIGUOUS = Player("wordnet-3.0", f"{_MODELS}.text_wordnet:ambiguous_words")

ROLES: dict[str, dict[str, Player]] = {
    "tagger": {
        "offline": Player("textblob", f"{_MODELS}.text_tagger:caption_tagger"),
        "pretrained": Player("nltk/averaged_perceptron_tagger_eng", f"{_MODELS}.text_tagger:perceptron"),
    },
    "inflector": {"offline": _INFLECTOR, "pretrained": _INFLECTOR},
    "wordnet": {"offline": _WORDNET, "pretrained": _WORDNET},
    "ambiguous": {"offline": _AMBIGUOUS, "pretrained": _AMBIGUOUS},
    "neighbours": {
        "offline": Player("minilm-input-embeddings", f"{_MODELS}.text_neighbours:minilm"),
        "pretrained": Player("glove.6B.300d", f"{_MODELS}.text_neighbours:glove"),
    },
    "masked_lm": {
        "offline": Player("ngram-fill", f"{_MODELS}.text_masked_lm:ngram_fill"),
        "pretrained": Player("bert-base-uncased", f"{_MODELS}.text_masked_lm:bert"),
    },
    "translator": {
        "offline": Player("apertium-eng-spa", f"{_MODELS}.text_translator:apertium"),
        "pretrained": Player("facebook/wmt19-en-de", f"{_MODELS}.text_translator:wmt19"),
    },
    "styler": {
        "offline": Player("grammar-rules", f"{_MODELS}.text_style:rules"),
        "pretrained": Player("prithivida/styletransfer", f"{_MODELS}.text_style:t5"),
    },
    "similarity": {
        "offline": Player("all-minilm-l6-v2", f"{_MODELS}.text_similarity:minilm"),
        "pretrained": Player("paraphrase-mpnet-base-v2", f"{_MODELS}.text_similarity:mpnet"),
    },
}


def stand_ins() -> set[str]:
    """The names of offline players that differ from the papers'."""
    offline, pretrained = ({players[backend].name for players in ROLES.values()} for backend in BACKENDS)
    return offline - pretrained


@cache
def load(role: str, backend: str) -> Any:
    """The player of a role, loaded once per process.

    Raises `BackendError` for an unknown backend, and when a library, program or weight file is missing.
    """
    if backend not in BACKENDS:
        raise BackendError(f"no backend '{backend}'; choose one of {list(BACKENDS)}")
    module, _, function = ROLES[role][backend].loader.partition(":")
    try:
        return getattr(importlib.import_module(module), function)()
    except ImportError as error:
        raise BackendError(
            f"the {backend} backend of '{role}' ({ROLES[role][backend].name}) needs {error.name}: "
            "install the extra `perturbations[text]`"
        ) from error


def names(roles: Iterable[str], backend: str) -> str:
    """The players of the roles, as rows record them; "rules" when there are no roles."""
    return " + ".join(dict.fromkeys(ROLES[role][backend].name for role in roles)) or "rules"
