"""How results differ from the published runs that a preset follows: one list, and any of it means "not comparable"."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from perturbations.engine.comparability import split_differences
from perturbations.evaluation.planning import CONTINUAL
from perturbations.evaluation.protocols import registry as protocols
from perturbations.evaluation.protocols.registry import EvaluationProtocol
from perturbations.evaluation.rows import backends_of
from perturbations.evaluation.stated import FEATURES, backbone_of, changed_parameters
from perturbations.suites.published import SplitHashes, values
from perturbations.tta.methods import registry as methods

_COMPARED = {"setting": "the setting", "num_frames": "the number of frames per clip"}
_OF_ADAPTATION = {"steps": "the number of steps", "batch_size": "the batch size"}


def departures(
    protocol: EvaluationProtocol, rows: Iterable[Mapping[str, Any]], replaced: Sequence[str] = ()
) -> list[str]:
    """Why rows of results do not compare with a preset's tables; empty where nothing recorded speaks against.

    `replaced` are the preset's keys for which the configuration had other values. Whether the weights are the paper's
    is not recorded: the reader knows.
    """
    reasons = [f"the configuration has other values for {', '.join(replaced)}"] if replaced else []
    stated = {
        (key.method, key.changed, key.seed)
        for cell in values(protocol)
        if (key := protocols.papers()[protocol.paper].stated(cell).key) is not None
    }
    for row in rows:
        reasons += _of_dataset(protocol, row)
        reasons += _of_backend(backends_of(row["backend"]))
        if row["setting"] != FEATURES:
            reasons += _of_run(protocol, row)
            reasons += _of_method(row, stated)
    return list(dict.fromkeys(reasons))


def _of_dataset(protocol: EvaluationProtocol, row: Mapping[str, Any]) -> Iterator[str]:
    """The dataset is known by its adapter and by what was listed, never by the name that the user gave it."""
    claimed = row["dataset"] if row["setting"] == FEATURES else None  # of features nothing else is known
    adapter, missing = row["adapter"] or claimed, int(row["missing_queries"])
    listed = int(row["queries"]) + missing
    if adapter is None:
        yield "the adapter of the dataset is not recorded"
    elif adapter not in protocol.datasets:
        yield f"the dataset's adapter is {adapter}, and the tables are of {', '.join(protocol.datasets)}"
    else:
        yield from split_differences(adapter, listed, SplitHashes(listed=row["listed_sha256"]))
    if missing:
        yield f"{missing:,} of {listed:,} queries are missing"


def _of_backend(backends: Mapping[str, str]) -> Iterator[str]:
    if backends.get("retrieval") == FEATURES:
        yield "features were given: neither the model nor the frames are recorded"
    if backends.get("retrieval") == "demo_encoder":
        yield "the model is a small encoder that the workflow trained on synthetic scenes"
    if corpus := backends.get("corpus"):
        yield corpus


def _of_run(protocol: EvaluationProtocol, row: Mapping[str, Any]) -> Iterator[str]:
    """The model's setting and precision, and how it was run."""
    known = methods.methods().get(row["method"])
    compared = _COMPARED | (_OF_ADAPTATION if known is not None and known.adapts else {})
    for name, what in compared.items():
        own = row[name].removesuffix(CONTINUAL) if name == "setting" else row[name]
        if name in protocol.evaluation and own != protocol.evaluation[name]:
            value = "not recorded" if own is None else own
            yield f"{what} is {value}, and the preset's is {protocol.evaluation[name]}"
    if row["precision"] not in (None, "float32"):
        yield f"the precision is {row['precision']}, and the papers' models are float32"
    if row["continual"]:
        yield "methods keep what they learned from one scenario to the next (continual)"
    if backbone_of(row) is None:
        yield "the architecture of the model is not recorded"


def _of_method(row: Mapping[str, Any], stated: Iterable[tuple[object, ...]]) -> Iterator[str]:
    """Parameters and seeds that no cell of the preset states."""
    known = methods.methods().get(row["method"])
    if known is None:
        return
    changed = changed_parameters(row["method"], row["direction"], row["parameters"])
    if changed is None:
        yield f"the parameters of {known.title} are not recorded"
        return
    key = tuple(sorted(changed.items()))
    published = {(own, seed) for method, own, seed in stated if method == row["method"]}
    if changed and key not in {own for own, _ in published}:
        values_of = ", ".join(f"{name} {value}" for name, value in key)
        yield f"{known.title} has other parameters than the published ones: {values_of}"
    if known.adapts and published and not {row["seed"], None} & {seed for _, seed in published}:
        yield f"the seed is {row['seed']}, which is none of the preset's"
