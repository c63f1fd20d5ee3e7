"""What a published cell states about its runs, and how a result differs from that."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
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
"""The columns of a cell that identify its run, beside its scenarios and sizes."""


_Values = Mapping[str, Any]

Part = tuple[str, tuple[tuple[int | None, float | None], ...], tuple[ScenarioKey, ...]]
"""A retrieval in one direction: the possible pairs of numbers of queries and items, and the scenarios in its mean.

A number is None where the paper leaves it open; a float is the mean size of several galleries.
"""


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
    """A model's or method's name without case, spaces and signs, to compare it with names of given features."""
    return re.sub(r"[^a-z0-9,]", "", name.lower())


def is_method(cell: Published, row: Mapping[str, Any]) -> bool:
    """Whether a result has the method (or the way to use a composed query) that a cell states."""
    return _plain(str(row["method"])) == _plain(cell.stated_method)


def order_matters(cell: Published) -> bool:
    """Whether the order of queries and batches changes a result: the method learns, or the scenario draws a mix."""
    known = methods.methods().get(cell.stated_method)
    mixed = any(run.mix is not None for *_, runs in parts_of(cell) for run in runs)
    return mixed or (known is not None and (known.adapts or any(own in known.own for own in methods.HSM)))


_Fact = tuple[object, object, object, str]
"""Whether a fact counts, ours, the paper's, and the sentence where they are not equal."""

_MODEL = "the table's model is {model}"
_AS_PUBLISHED = "{title} has the published parameters, and the table's are others"
_KEPT = "the number of clips that the first stage keeps"
_IS = " is {ours}, and the table's is {theirs}"


def _differing(facts: Iterable[_Fact], **words: object) -> list[str]:
    """The sentences of the facts that count and differ. A fact that is not recorded counts as different."""
    return [
        sentence.format(ours="not recorded" if ours is None else ours, theirs=theirs, **words)
        for counts, ours, theirs, sentence in facts
        if counts and ours != theirs
    ]


def differences(cell: Published, row: Mapping[str, Any]) -> list[str]:
    """How the run of a row of results differs from the run that a cell states; method and direction are the cell's.

    Scenarios and the numbers of queries and items are not compared here.
    """
    given, composed = row["setting"] == FEATURES, bool(cell.frames)
    adapter = row["adapter"] or (row["dataset"] if given else None)
    stated, used = json.loads(cell.changed or "{}"), json.loads(row["parameters"] or "{}")
    short, paper_short = (own.get("pre_caption", False) for own in (used, stated))
    # Given features are compared as they are, and the ways to use a composed query are no methods.
    method = None if given or composed else methods.methods().get(cell.stated_method)
    unstated, known = row["parameters"] is None, method is not None and row["parameters"] is not None
    ours, theirs, others = _parameters(method, used, stated, row) if method else ({}, {}, "")
    ordered = method is not None and order_matters(cell)
    # Where the paper names no architecture, the family counts; any pooling of single frames is their mean.
    tower, named = row["architecture"], cell.backbone or cell.stated_model
    of_family = not cell.backbone and (tower or "").split()[:1] == named.lower().split()[:1]
    loaded = cell.stated_model and not given and cell.pooling
    pooled = loaded and not composed
    name, model = str(row["model"]).partition("@")[0], cell.stated_model
    facts: list[_Fact] = [
        (True, adapter, cell.dataset, "the dataset's adapter is {ours}, and the tables are of {theirs}"),
        (True, row["gallery_name"], cell.gallery, "the gallery" + _IS),
        (composed and "two_stage" in cell.stated_method, used.get("shortlist"), cell.shortlist, _KEPT + _IS),
        (composed, used.get("frames"), cell.frames, "the use of frames" + _IS),
        (composed and not given, short, paper_short, "the shortening of texts" + _IS),
        (not composed and method is None, bool(stated), False, _AS_PUBLISHED),
        (method, row["code"], None, "{title} is another one than this package's"),
        (method, unstated, False, "the parameters of {title} are not recorded"),
        (known, ours, theirs, "{title} has other parameters than the published ones: {others}"),
        (ordered, row["batch_size"], cell.batch_size, "the batch size" + _IS),
        (ordered, row["order"] is None, False, "the order of queries is not recorded"),
        (ordered and cell.seed is not None, row["seed"], cell.seed, "the seed" + _IS),
        (model and given, _plain(name), _plain(model), "the features are called {name}, and " + _MODEL),
        (model and not given, not cell.pooling, False, _MODEL + ", whose features `perturb score` takes"),
        (loaded and not of_family, tower, named, "the architecture" + _IS),
        (pooled, row["pooling"], cell.pooling, "frames are pooled by {pooling}, and " + _MODEL),
        (pooled and cell.trained, row["setting"], cell.trained, "the setting" + _IS),
    ]
    title = methods.title_of(cell.stated_method)
    pooling = row["pooling"] or "a way that is not recorded"
    return _differing(facts, title=title, others=others, name=name, model=model, pooling=pooling)


def _parameters(
    method: methods.Method, used: _Values, stated: _Values, row: Mapping[str, Any]
) -> tuple[_Values, _Values, str]:
    """The parameters that took effect, those that the cell states, and how ours differ from the published ones."""
    written = {name: value for name, value in used.items() if value is not None}
    ours, published, theirs = (
        methods.effective(method.name, own, str(row["direction"]), int(row["gallery"])) for own in (written, {}, stated)
    )
    others = ", ".join(f"{name} {own}" for name, own in sorted(ours.items()) if own != published.get(name))
    return ours, theirs, others or "those of the paper's text"


def sizes_differ(part: Part, row: Mapping[str, Any]) -> Iterator[str]:
    """How a row's numbers of queries and of gallery items differ from the numbers that a part states.

    The items of a missing query may be missing in the gallery, too. For galleries of several sizes the mean counts,
    rounded as in the part.
    """
    direction, sizes, _ = part
    missing, listed = int(row["missing_queries"]), int(row["queries"]) + int(row["missing_queries"])
    items = int(row["gallery"]) if row["gallery_mean"] is None else float(row["gallery_mean"])
    for asked, held in sizes:
        absent = 0 if not missing or not held else math.ceil(missing * max(1.0, held / listed))
        shown = round(items, 0 if isinstance(held, int) else 1)
        if asked in (None, listed) and (held is None or held - absent <= shown <= held):
            return
    queries, galleries = (
        " or ".join(dict.fromkeys(f"{size[place]:,}" for size in sizes if size[place] is not None))
        for place in range(2)
    )
    if all(asked not in (None, listed) for asked, _ in sizes):
        yield f"{listed:,} queries are listed in {direction}, and the published split has {queries}"
    else:
        yield f"the gallery of {direction} has {items:,} items, and the published one {galleries}"


def counted(paper: str, run: ScenarioKey, rows: Mapping[ScenarioKey, Mapping[str, Any]]) -> Mapping[str, Any]:
    """The row whose queries and items count for a scenario: its own.

    Where the paper's own fidelity gate leaves out captions (Qiu et al., Sec. 5.3), the clean row counts.
    """
    is_of_paper = run.mix is None and papers()[paper].get("suite") == run.suite
    if is_of_paper and suite_registry.get(f"{run.suite}/{run.perturbation}").gated:
        return rows.get(CLEAN_SCENARIO, rows[run])
    return rows[run]


def departures(protocol: EvaluationProtocol, row: Mapping[str, Any], missing: int) -> list[str]:
    """How a row departs in facts outside its key: listed items, corpus, the model's backend, and how it was run."""
    adapter, listed = row["adapter"] or row["dataset"], int(row["queries"]) + int(row["missing_queries"])
    lost = f"missing: {missing:,} of {plural(listed, 'query')}"
    left_out = [lost] if missing > SKIPPED.get((adapter, row["gallery_name"]), 0) else []
    if row["setting"] == FEATURES:
        return [*left_out, "features were given: neither the model nor the frames are recorded"]
    sizes = [items for items, captions in SPLITS.get(adapter, {}).items() if listed in (items, captions)]
    others = (other_items(adapter, items, listed=row["listed_sha256"]) for items in sizes)
    backends = backends_of(row["backend"])
    trained = backends.get("retrieval") == "demo_encoder"
    method = methods.methods().get(row["method"])
    adapts, needs_bank = method is not None and method.adapts, method is not None and method.needs_bank
    frames, steps = (protocol.evaluation.get(name) for name in ("num_frames", "steps"))
    of_all = frames is not None and '"middle"' not in (row["parameters"] or "")
    encoded = row["direction"] != COMPOSED  # its features are float32
    preset = " is {ours}, and the preset's is {theirs}"
    facts: list[_Fact] = [
        (True, trained, False, "the model is a small encoder that the workflow trained on synthetic scenes"),
        (True, "retrieval" in backends, True, "the model's backend is not recorded"),
        (True, backends.get("corpus"), None, "{ours}"),
        (needs_bank, row["banks_sha256"] is None, False, "the bank of {title} is not recorded"),
        (of_all, row["num_frames"], frames, "the number of frames per clip" + preset),
        (adapts and steps is not None, row["steps"], steps, "the number of steps" + preset),
        (encoded, row["precision"], "float32", "the precision is {ours}, and the papers' models are {theirs}"),
    ]
    return [*left_out, *filter(None, others), *_differing(facts, title=methods.title_of(row["method"]))]
