"""Whether results compare with a preset's tables: each is asked for what the cells that it may stand beside need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from perturbations.base.shown import plural
from perturbations.engine.comparability import split_differences
from perturbations.evaluation.protocols.registry import EvaluationProtocol
from perturbations.evaluation.rows import ScenarioKey, backends_of
from perturbations.evaluation.stated import FEATURES, StatedPart, differences, is_method, parts_of, sizes_differ
from perturbations.suites.published import SPLITS, Published, SplitHashes, values
from perturbations.tta.methods import registry as methods


class Verdict(NamedTuple):
    """Whether any result compares (`is_sound`), and what speaks against others; neither where none is of the tables."""

    is_sound: bool
    reasons: tuple[str, ...]


def verdict(protocol: EvaluationProtocol, rows: Iterable[Mapping[str, Any]]) -> Verdict:
    """What speaks against comparing rows of results with a preset's tables.

    Rows of methods, directions and scenarios that the tables do not have are not judged. The others are judged by the
    cell that they differ from least. Whether the weights are the paper's is not recorded: the reader knows.
    """
    asking: dict[tuple[str, ScenarioKey], list[tuple[Published, StatedPart]]] = {}
    for cell in values(protocol):
        for part in parts_of(cell.parts or "[]"):
            for run in part.runs:
                asking.setdefault((part.direction, run), []).append((cell, part))
    is_sound, reasons = False, dict[str, None]()
    for row in rows:
        scenario = ScenarioKey(**{name: row[name] for name in ScenarioKey._fields})
        against = [
            [*differences(cell, row), *sizes_differ(part, row)]
            for cell, part in asking.get((row["direction"], scenario), ())
            if is_method(cell, row)
        ]
        if against:
            nearest = min(against, key=len)
            own = [*nearest, *_recorded(protocol, row)]
            is_sound = is_sound or not own
            reasons |= dict.fromkeys(own)
    return Verdict(is_sound, tuple(reasons))


def _recorded(protocol: EvaluationProtocol, row: Mapping[str, Any]) -> Iterator[str]:
    """What the row says beside its key: the listed items, the corpus, the model's backend, and how it was run."""
    missing = int(row["missing_queries"])
    listed = int(row["queries"]) + missing
    adapter = row["adapter"] or row["dataset"]
    if adapter in protocol.datasets and listed in SPLITS.get(adapter, ()):
        yield from split_differences(adapter, listed, SplitHashes(listed=row["listed_sha256"]))
    if missing:
        yield f"missing: {missing:,} of {plural(listed, 'query')}"
    backends = backends_of(row["backend"])
    if row["setting"] == FEATURES:
        yield "features were given: neither the model nor the frames are recorded"
        return
    if backends.get("retrieval") == "demo_encoder":
        yield "the model is a small encoder that the workflow trained on synthetic scenes"
    if corpus := backends.get("corpus"):
        yield corpus
    known = methods.methods().get(row["method"])
    compared = {"num_frames": "the number of frames per clip"}
    compared |= {"steps": "the number of steps"} if known is not None and known.adapts else {}
    for name, what in compared.items():
        wanted = protocol.evaluation.get(name)
        if wanted is not None and row[name] != wanted and '"middle"' not in (row["parameters"] or ""):
            value = "not recorded" if row[name] is None else row[name]
            yield f"{what} is {value}, and the preset's is {wanted}"
    if row["precision"] not in (None, "float32"):
        yield f"the precision is {row['precision']}, and the papers' models are float32"
