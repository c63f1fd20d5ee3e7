"""Nearest neighbours of a word in a word embedding."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from perturbations.base.errors import BackendError
from perturbations.models.role_registry import Canary, Model, libraries
from perturbations.models.text_similarity import find_minilm, minilm_folder

_Neighbours = Callable[[str], tuple[str, ...]]

_NEAREST = 30


def minilm() -> _Neighbours:
    """Nearest whole words in MiniLM's table of input embeddings."""
    from safetensors import safe_open

    folder = minilm_folder()
    vocabulary = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    # Word pieces ("##ing"), special tokens and single letters are not words.
    words = sorted(word for word in vocabulary if word.isascii() and word.isalpha() and len(word) > 2)
    with safe_open(folder / "model.safetensors", framework="numpy") as weights:
        table = weights.get_tensor("embeddings.word_embeddings.weight")
    return _nearest(words, table[[vocabulary[word] for word in words]])


def glove(path: Path | None = None) -> _Neighbours:
    """Nearest words in GloVe (Schiappa et al., App. A.2), from the text file that PERTURB_GLOVE names.

    Raises `BackendError` when there is no such file.
    """
    words, vectors = [], []
    with _find_glove(path).open(encoding="utf-8") as lines:
        for line in lines:
            word, *numbers = line.rstrip("\n").split(" ")
            if word.isascii() and word.isalpha():
                words.append(word)
                vectors.append(np.array(numbers, np.float32))
    return _nearest(words, np.stack(vectors))


def _find_glove(path: Path | None = None) -> Path:
    """The file of GloVe's vectors, in PERTURB_GLOVE unless it is named. Raises `BackendError` when there is none."""
    path = path or Path(os.environ.get("PERTURB_GLOVE", "glove.6B.300d.txt"))
    if path.is_file():
        return path
    raise BackendError(
        f"no GloVe vectors in {path}: download glove.6B.zip from nlp.stanford.edu, unpack it, and name the file in "
        "PERTURB_GLOVE, or use the backend `offline`"
    )


def _nearest(words: Sequence[str], vectors: NDArray[np.float32]) -> _Neighbours:
    rows = {word: row for row, word in enumerate(words)}
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    @cache
    def nearest(word: str) -> tuple[str, ...]:
        if word not in rows:
            return ()
        order = np.argsort(-(unit @ unit[rows[word]]), kind="stable")
        return tuple(words[at] for at in order[: _NEAREST + 1] if words[at] != word)

    return nearest


_CANARY = Canary(
    sentence="woman",
    answer=lambda neighbours, word: neighbours(word),
    holds=lambda answer, word: len(answer) > 0 and word not in answer and all(near.isalpha() for near in answer),
    expected="other words",
)

MODELS = (
    Model(
        role="neighbours",
        backends=("offline",),
        name="minilm-input-embeddings",
        weights="bundled with the extra text",
        licence="Apache-2.0",
        load=minilm,
        needs=(libraries("safetensors"), find_minilm),
        canary=_CANARY,
    ),
    Model(
        role="neighbours",
        name="glove.6B.300d",
        weights="nlp.stanford.edu",
        licence="PDDL-1.0",
        load=glove,
        needs=(_find_glove,),
        canary=_CANARY,
    ),
)
