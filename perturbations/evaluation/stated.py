"""What a published cell states of its runs, and how a result differs from it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from perturbations.base.shown import plural
from perturbations.evaluation.protocols.registry import EvaluationProtocol, papers
from perturbations.evaluation.rows import CLEAN_SCENARIO, FEATURES, WHOLE_GALLERY, ScenarioKey, backends_of
from perturbations.suites import registry
from perturbations.suites.published import HASHES, SPLITS, Published
from perturbations.tta.methods import registry as methods

RUN_KEY = (
    *("dataset", "stated_model", "pooling", "backbone", "trained", "stated_method", "changed", "seed", "gallery"),
    *("frames", "shortlist", "batch_size"),
)
"""The columns of a cell that say which run it is of, beside its scenarios and sizes."""


Part = tuple[str, tuple[tuple[int | None, int | None], ...], tuple[ScenarioKey, ...]]
"""A retrieval in one direction: the numbers of queries and items, of which a result has one pair (None is a number that
the paper leaves open), and the scenarios that it is a mean over."""


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
    """Whether the order of queries and their batches change a result: of what learns, remembers, or draws a mix."""
    known = methods.methods().get(cell.stated_method)
    mixed = any(run.mix is not None for *_, runs in parts_of(cell) for run in runs)
    return mixed or (known is not None and (known.adapts or any(own in known.own for own in methods.HSM)))


def differences(cell: Published, row: Mapping[str, Any]) -> Iterator[str]:
    """How a row of results, of the cell's method and of one of its directions, is of another run than the cell states.

    Which of the cell's scenarios it is of is not compared, and neither are the numbers of queries and items. A fact
    that is not recorded is equal to nothing that a paper states.
    """
    given = row["setting"] == FEATURES
    adapter = row["adapter"] or (row["dataset"] if given else None)
    if adapter is None:
        yield "the adapter of the dataset is not recorded"
    elif adapter != cell.dataset:
        yield f"the dataset's adapter is {adapter}, and the tables are of {cell.dataset}"
    if (gallery := row["gallery_name"] or WHOLE_GALLERY) != cell.gallery:
        yield f"the gallery is {gallery}, and the table's is {cell.gallery}"
    yield from _as_stored(cell, row) if cell.frames else _of_method(cell, row, given=given)
    if cell.stated_model:
        yield from _of_model(cell, row, given=given)


def _of_method(cell: Published, row: Mapping[str, Any], *, given: bool) -> Iterator[str]:
    """Parameters, and where the order of queries matters, batches and seed."""
    known = methods.methods().get(cell.stated_method)
    stated: dict[str, object] = json.loads(cell.changed)
    title = cell.stated_method if known is None else known.title
    if known is None or given:  # features are compared as they are
        if stated:
            yield f"{title} has the published parameters, and the table's are others"
        return
    if row["parameters"] is None:
        yield f"the parameters of {title} are not recorded"
    else:
        published = methods.effective(known.name, {}, str(row["direction"]))
        changed = {name: own for name, own in json.loads(row["parameters"]).items() if own != published.get(name)}
        if changed != stated:
            other = ", ".join(f"{name} {own}" for name, own in sorted(changed.items())) or "those of the paper's text"
            yield f"{title} has other parameters than the published ones: {other}"
    if order_matters(cell):
        if row["batch_size"] != cell.batch_size:
            yield f"the batch size is {_or_unknown(row['batch_size'])}, and the table's is {cell.batch_size}"
        if cell.seed not in (None, row["seed"]):
            yield f"the seed is {row['seed']}, and the table's is {cell.seed}"


def _or_unknown(value: object) -> object:
    return "not recorded" if value is None else value


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
    if backbone is None:
        yield f"the architecture of the model is not recorded, and the table's is {wanted}"
    elif backbone != cell.backbone and (cell.backbone or backbone.split()[0] != wanted.split()[0].lower()):
        yield f"the architecture is {backbone}, and the table's is {wanted}"
    if cell.frames:  # composed: any pooling of single frames is the mean
        return
    if row["pooling"] != cell.pooling:
        yield f"frames are pooled by {_or_unknown(row['pooling'])}, and the table's model is {cell.stated_model}"
    if cell.trained not in ("", row["setting"]):
        yield f"the setting is {_or_unknown(row['setting'])}, and the table's is {cell.trained}"


def _as_stored(cell: Published, row: Mapping[str, Any]) -> Iterator[str]:
    """Composed results are of the clips' frames that a cell states, and of galleries as released."""
    known = json.loads(row["parameters"] or "{}")
    if "two_stage" in cell.stated_method and known.get("shortlist") != cell.shortlist:
        kept = _or_unknown(known.get("shortlist"))
        yield f"the first stage keeps {kept} clips, and the table's keeps {cell.shortlist}"
    if known.get("frames") != cell.frames:
        yield f"the frames are {_or_unknown(known.get('frames'))}, and the table's are {cell.frames}"
    if known.get("deduplicate") is not False:
        yield "the galleries are deduplicated, and the released ones are not"


def sizes_differ(part: Part, row: Mapping[str, Any]) -> Iterator[str]:
    """How a row's numbers of queries and of gallery items differ from those that a part states.

    A missing query may lack its item, or its several items, in the gallery too.
    """
    direction, sizes, _ = part
    missing, items = int(row["missing_queries"]), int(row["gallery"])
    listed = int(row["queries"]) + missing
    for wanted, held in sizes:
        lacking = 0 if not missing or not held else math.ceil(missing * max(1.0, held / listed))
        if wanted in (None, listed) and (held is None or held - lacking <= items <= held):
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
    if is_of_paper and registry.get(f"{run.suite}/{run.perturbation}").gated:
        return rows.get(CLEAN_SCENARIO, rows[run])
    return rows[run]


def departures(protocol: EvaluationProtocol, row: Mapping[str, Any], missing: int) -> Iterator[str]:
    """What a row says beside its key: the listed items, the corpus, the model's backend, and how it was run."""
    adapter, listed = row["adapter"] or row["dataset"], int(row["queries"]) + int(row["missing_queries"])
    for items, captions in SPLITS.get(adapter, {}).items():
        known = HASHES.get((adapter, items))
        if known and listed in (items, captions) and row["listed_sha256"] not in (None, known[1]):
            yield f"the {listed:,} listed items are not those of the published split of {adapter}"
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
    method = methods.methods().get(row["method"])
    compared = {"num_frames": "the number of frames per clip"}
    compared |= {"steps": "the number of steps"} if method is not None and method.adapts else {}
    for name, what in compared.items():
        wanted = protocol.evaluation.get(name)
        if wanted is not None and row[name] != wanted and '"middle"' not in (row["parameters"] or ""):
            yield f"{what} is {_or_unknown(row[name])}, and the preset's is {wanted}"
    if row["precision"] not in (None, "float32"):
        yield f"the precision is {row['precision']}, and the papers' models are float32"
