"""What a published cell states of its runs, and how a result differs from it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from perturbations.base.shown import plural
from perturbations.evaluation.published.protocols import EvaluationProtocol, papers
from perturbations.evaluation.result_rows import CLEAN_SCENARIO, COMPOSED, FEATURES, ScenarioKey, backends_of
from perturbations.suites import suite_registry
from perturbations.suites.published_cells import SKIPPED, SPLITS, Published, other_items
from perturbations.tta.methods import method_registry as methods

RUN_KEY = (
    *("dataset", "stated_model", "pooling", "backbone", "trained", "stated_method", "changed", "seed", "gallery"),
    *("frames", "shortlist", "batch_size"),
)
"""The columns of a cell that say which run it is of, beside its scenarios and sizes."""


Part = tuple[str, tuple[tuple[int | None, float | None], ...], tuple[ScenarioKey, ...]]
"""A retrieval in one direction: the numbers of queries and items, of which a result has one pair (None is a number that
the paper leaves open, a float the mean of galleries of several sizes), and the scenarios that it is a mean over."""


def parts_of(cell: Published) -> tuple[Part, ...]:
    """The retrievals of a cell."""
    return _parts(cell.parts or "[]")


@cache
def _parts(text: str) -> tuple[Part, ...]:
    return tuple(
        (
            part["direction"],
            tuple((queries, items) for queries, items in part["sizes"]),
            tuple(ScenarioKey(*run)._replace(side=part["side"]) for run in part["runs"]),
        )
        for part in json.loads(text)
    )


def _plain(name: str) -> str:
    """A name of a model or a method as features may be called: without case, spaces and signs."""
    return re.sub(r"[^a-z0-9,]", "", name.lower())


def is_method(cell: Published, row: Mapping[str, Any]) -> bool:
    """Whether a result is of the method that a cell states, or of the way to use a composed query."""
    return _plain(str(row["method"])) == _plain(cell.stated_method)


def order_matters(cell: Published) -> bool:
    """Whether the order of queries and their batches change a result: where the method learns, or draws a mix."""
    known = methods.methods().get(cell.stated_method)
    mixed = any(run.mix is not None for *_, runs in parts_of(cell) for run in runs)
    return mixed or (known is not None and (known.adapts or any(own in known.own for own in methods.HSM)))


def _differs(subject: str, ours: object, wanted: object, other: str = "the table's is") -> Iterator[str]:
    """A sentence where a fact is not the wanted one. A fact that is not recorded is equal to nothing."""
    if ours != wanted:
        yield f"{subject} is {'not recorded' if ours is None else ours}, and {other} {wanted}"


def differences(cell: Published, row: Mapping[str, Any]) -> Iterator[str]:
    """How a row of results, of the cell's method and of one of its directions, is of another run than the cell states.

    Which of the cell's scenarios it is of is not compared, and neither are the numbers of queries and items. A fact
    that is not recorded is equal to nothing that a paper states.
    """
    given = row["setting"] == FEATURES
    adapter = row["adapter"] or (row["dataset"] if given else None)
    yield from _differs("the dataset's adapter", adapter, cell.dataset, "the tables are of")
    yield from _differs("the gallery", row["gallery_name"], cell.gallery)
    yield from _as_stored(cell, row) if cell.frames else _of_method(cell, row, given=given)
    if cell.stated_model:
        yield from _of_model(cell, row, given=given)


def _of_method(cell: Published, row: Mapping[str, Any], *, given: bool) -> Iterator[str]:
    """Parameters as they took effect, and where the order of queries matters, order, batches and seed."""
    known = methods.methods().get(cell.stated_method)
    stated: dict[str, methods.MethodValue] = json.loads(cell.changed)
    title = cell.stated_method if known is None else known.title
    if known is None or given:  # features are compared as they are
        if stated:
            yield f"{title} has the published parameters, and the table's are others"
        return
    if row["code"] is not None:
        yield f"{title} is another one than this package's"
    if row["parameters"] is None:
        yield f"the parameters of {title} are not recorded"
    else:
        written = {name: own for name, own in json.loads(row["parameters"]).items() if own is not None}
        ours, published, wanted = (
            methods.effective(known.name, own, str(row["direction"]), int(row["gallery"]))
            for own in (written, {}, stated)
        )
        if ours != wanted:
            changed = (f"{name} {own}" for name, own in sorted(ours.items()) if own != published.get(name))
            other = ", ".join(changed) or "those of the paper's text"
            yield f"{title} has other parameters than the published ones: {other}"
    if order_matters(cell):
        yield from _differs("the batch size", row["batch_size"], cell.batch_size)
        if row["order"] is None:
            yield "the order of queries is not recorded"
        if cell.seed is not None:
            yield from _differs("the seed", row["seed"], cell.seed)


def _of_model(cell: Published, row: Mapping[str, Any], *, given: bool) -> Iterator[str]:
    if given:
        name = str(row["model"]).partition("@")[0]
        if _plain(name) != _plain(cell.stated_model):
            yield f"the features are called {name}, and the table's model is {cell.stated_model}"
        return
    if not cell.pooling:
        yield f"the table's model is {cell.stated_model}, whose features `perturb score` takes"
        return
    backbone, wanted = row["architecture"], cell.backbone or cell.stated_model
    # Where the paper names no architecture, the family counts.
    if cell.backbone or backbone is None or backbone.split()[0] != wanted.split()[0].lower():
        yield from _differs("the architecture", backbone, wanted)
    if cell.frames:  # composed: any pooling of single frames is the mean
        return
    if row["pooling"] != cell.pooling:
        how = row["pooling"] or "a way that is not recorded"
        yield f"frames are pooled by {how}, and the table's model is {cell.stated_model}"
    if cell.trained:
        yield from _differs("the setting", row["setting"], cell.trained)


def _as_stored(cell: Published, row: Mapping[str, Any]) -> Iterator[str]:
    """Composed results are of the clips' frames that a cell states, and of galleries as released."""
    known = json.loads(row["parameters"] or "{}")
    if "two_stage" in cell.stated_method:
        yield from _differs("the number of clips that the first stage keeps", known.get("shortlist"), cell.shortlist)
    yield from _differs("the use of frames", known.get("frames"), cell.frames)
    if row["setting"] != FEATURES:
        shortened = json.loads(cell.changed or "{}").get("pre_caption", False)
        yield from _differs("the shortening of texts", known.get("pre_caption", False), shortened)


def sizes_differ(part: Part, row: Mapping[str, Any]) -> Iterator[str]:
    """How a row's numbers of queries and of gallery items differ from those that a part states.

    A missing query may lack its item, or its several items, in the gallery too. Of galleries of several sizes the mean
    counts, rounded as the part states it.
    """
    direction, sizes, _ = part
    missing, listed = int(row["missing_queries"]), int(row["queries"]) + int(row["missing_queries"])
    items = int(row["gallery"]) if row["gallery_mean"] is None else float(row["gallery_mean"])
    for wanted, held in sizes:
        lacking = 0 if not missing or not held else math.ceil(missing * max(1.0, held / listed))
        shown = round(items, 0 if isinstance(held, int) else 1)
        if wanted in (None, listed) and (held is None or held - lacking <= shown <= held):
            return
    queries, galleries = (
        " or ".join(dict.fromkeys(f"{size[place]:,}" for size in sizes if size[place] is not None))
        for place in range(2)
    )
    if all(wanted not in (None, listed) for wanted, _ in sizes):
        yield f"{listed:,} queries are listed in {direction}, and the published split has {queries}"
    else:
        yield f"the gallery of {direction} has {items:,} items, and the published one {galleries}"


def counted(paper: str, run: ScenarioKey, rows: Mapping[ScenarioKey, Mapping[str, Any]]) -> Mapping[str, Any]:
    """The row whose queries and items count for a scenario: its own.

    Where the paper's own fidelity gate leaves out captions (Qiu et al., Sec. 5.3) it is the clean one.
    """
    is_of_paper = run.mix is None and papers()[paper].get("suite") == run.suite
    if is_of_paper and suite_registry.get(f"{run.suite}/{run.perturbation}").gated:
        return rows.get(CLEAN_SCENARIO, rows[run])
    return rows[run]


def departures(protocol: EvaluationProtocol, row: Mapping[str, Any], missing: int) -> Iterator[str]:
    """What a row says beside its key: the listed items, the corpus, the model's backend, and how it was run."""
    adapter, listed = row["adapter"] or row["dataset"], int(row["queries"]) + int(row["missing_queries"])
    if missing > SKIPPED.get((adapter, row["gallery_name"]), 0):
        yield f"missing: {missing:,} of {plural(listed, 'query')}"
    if row["setting"] == FEATURES:
        yield "features were given: neither the model nor the frames are recorded"
        return
    sizes = [items for items, captions in SPLITS.get(adapter, {}).items() if listed in (items, captions)]
    yield from (text for items in sizes if (text := other_items(adapter, items, listed=row["listed_sha256"])))
    backends = backends_of(row["backend"])
    if backends.get("retrieval") == "demo_encoder":
        yield "the model is a small encoder that the workflow trained on synthetic scenes"
    elif "retrieval" not in backends:
        yield "the model's backend is not recorded"
    if corpus := backends.get("corpus"):
        yield corpus
    method = methods.methods().get(row["method"])
    if method is not None and method.needs_bank and row["banks_sha256"] is None:
        yield f"the bank of {method.title} is not recorded"
    compared = {} if '"middle"' in (row["parameters"] or "") else {"num_frames": "the number of frames per clip"}
    compared |= {"steps": "the number of steps"} if method is not None and method.adapts else {}
    for name, what in compared.items():
        if (wanted := protocol.evaluation.get(name)) is not None:
            yield from _differs(what, row[name], wanted, "the preset's is")
    if row["direction"] != COMPOSED:  # whose features are float32
        yield from _differs("the precision", row["precision"], "float32", "the papers' models are")
