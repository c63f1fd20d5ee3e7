"""What a paper states of the runs behind a published number: its key, which a result's key is compared with.

Standard library only: the shelf of protocols declares such keys, and planning reads that shelf.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from perturbations.evaluation.rows import CLEAN_SCENARIO, WHOLE_GALLERY, ScenarioKey
from perturbations.suites import registry
from perturbations.tta.methods import registry as methods

CellStatus = Literal["shown", "needs weights", "needs features", "needs GPU", "impossible"]
"""Whether results of a preset reach a published cell, and what is lacking where they cannot.

"needs features": the model is none that the workflow loads, and `perturb score` takes its features. "needs weights":
no backbone loads the model, which would have to adapt.
"""

FEATURES = "features"
"""The setting of results whose features were given: of their model nothing is known but its name."""


CLEAN = (CLEAN_SCENARIO,)


class StatedPart(NamedTuple):
    """A retrieval in one direction: what is perturbed, and the scenarios, sideless, that the number is a mean over."""

    direction: str
    side: str
    runs: tuple[ScenarioKey, ...]


@dataclass(frozen=True, kw_only=True)
class StatedModel:
    """A model as a paper states it.

    Attributes:
        name: the paper's, which features are given under.
        pooling: how frames are pooled; "" where the workflow does not run the model.
        backbone: its architecture, as `backbone_of` names it; "" where the paper leaves it open.
        setting: what it was trained on; "" where the paper leaves it open.
    """

    name: str
    pooling: str = ""
    backbone: str = ""
    setting: str = ""


@dataclass(frozen=True, kw_only=True)
class StatedKey:
    """Everything that a paper states of a published number.

    Attributes:
        dataset: the adapter.
        parts: the retrievals whose results are summed: one, or both directions.
        metric: a column of results, "mean_recall", or a score: "gamma_a", "gamma_r", "mmi"; `_sd`: its deviation.
        of: the column that a score is of.
        model: None where no model is behind the number, as in random orders.
        method, changed: the method, and its parameters that differ from the published ones.
        seed: of the order of queries.
        gallery: the name of a composed gallery, or of multiple choice; in other retrieval that of `WHOLE_GALLERY`.
        frames: "mean" or "middle" in composed retrieval; "" in other.
        shortlist: clips that the first of two stages keeps.
        batch_size: of methods that adapt.
    """

    dataset: str
    parts: tuple[StatedPart, ...]
    metric: str
    of: str = ""
    model: StatedModel | None
    method: str = "none"
    changed: tuple[tuple[str, object], ...] = ()
    seed: int | None = None
    gallery: str = WHOLE_GALLERY
    frames: str = ""
    shortlist: int = 15
    batch_size: int | None = None


@dataclass(frozen=True, kw_only=True)
class StatedCell:
    """What became of a published cell: its key, where runs of this package can have it, and its status."""

    status: CellStatus
    reason: str
    key: StatedKey | None = None


def impossible(reason: str) -> StatedCell:
    """A cell that no results of this package reach."""
    return StatedCell(status="impossible", reason=reason)


def needs_features(key: StatedKey, of: str = "") -> StatedCell:
    """A cell of a model that the workflow does not load; `of` names the models where there are several."""
    assert key.model is not None
    given = f"`perturb score --model {shlex.quote(key.model.name)}` takes its features"
    return StatedCell(status="needs features", reason=f"no backbone loads {of or key.model.name}: {given}", key=key)


def runs_of(
    suite: str, kind: Literal["video", "text"], severities: Mapping[str, Iterable[int]] | Iterable[int]
) -> tuple[ScenarioKey, ...]:
    """Every perturbation of a suite's videos or captions, at each severity, or at those of its category."""
    of_levels = severities if isinstance(severities, Mapping) else None
    every = () if isinstance(severities, Mapping) else tuple(severities)
    return tuple(
        ScenarioKey(suite, entry.name, severity)
        for entry in registry.perturbations(suite, kind)
        for severity in (every if of_levels is None else of_levels.get(entry.category, ()))
    )


def named(runs: Iterable[ScenarioKey], names: Sequence[str]) -> tuple[ScenarioKey, ...]:
    """The runs of some perturbations, in the order of the names."""
    own = list(runs)
    return tuple(run for name in names for run in own if run.perturbation == name)


# --- the other side: a row of results ---------------------------------------------------------------------------------

_SIZES = {192: "T", 384: "S", 768: "B", 1024: "L", 1280: "H", 1408: "g", 1664: "G"}
_NAMED = re.compile(r"vit[-_]?(tiny|small|base|large|huge|t|s|b|l|h)[-_/]?(?:patch)?[-_/]?(\d+)")
_FAMILIES = ("blip", "altclip", "metaclip", "siglip", "xclip", "clip")
_LARGE = {"blip-itm-base": "blip ViT-B/16", "blip-itm-large": "blip ViT-L/16"}


def backbone_name(model_type: str, width: int, patch: int) -> str:
    """An architecture: "clip ViT-B/32", from the type, the width and the patch of a vision tower."""
    return f"{model_type} ViT-{_SIZES.get(width, width)}/{patch}"


def backbone_of(row: Mapping[str, Any]) -> str | None:
    """The architecture of a result's model; None where it is not recorded.

    Rows that do not record it have the name of the model that was loaded, which may say it: "clip-vit-base-patch32".
    """
    if known := row.get("architecture"):
        return str(known)
    name = re.split(r"[/\\]", str(row.get("pretrained") or "").rstrip("/"))[-1].lower()
    if large := next((own for start, own in _LARGE.items() if name.startswith(start)), None):
        return large
    size, family = _NAMED.search(name), next((own for own in _FAMILIES if own in name), None)
    return f"{family} ViT-{size[1][0].upper()}/{size[2]}" if size and family else None


def changed_parameters(method: str, direction: str, parameters: str | None) -> dict[str, object] | None:
    """The parameters of a result that differ from the method's published ones; None where none are recorded.

    `parameters` is the canonical JSON of every value. Of a method that there is no longer, all of them differ.
    """
    if parameters is None:
        return None
    given: dict[str, object] = json.loads(parameters)
    known = methods.methods().get(method)
    if known is None:
        return given
    published: dict[str, object] = {parameter.name: parameter.default for parameter in known.parameters}
    rate = None if known.rates is None or direction not in known.rates._fields else getattr(known.rates, direction)
    return {
        name: value
        for name, value in given.items()
        if value != published.get(name) and value is not None and not (name == "lr" and value == rate)
    }


def _plain(name: str) -> str:
    """A name of a model or a method as features may be called: without case, spaces and signs."""
    return re.sub(r"[^a-z0-9,]", "", name.lower())


def _is_model(stated: StatedModel, row: Mapping[str, Any], *, composed: bool) -> bool:
    if row["setting"] == FEATURES:
        return _plain(str(row["model"]).partition("@")[0]) == _plain(stated.name)
    backbone = backbone_of(row)
    if not stated.pooling or (stated.backbone and backbone not in (None, stated.backbone)):
        return False
    if composed:  # any pooling of single frames is the mean
        return backbone == stated.backbone
    return row["pooling"] == stated.pooling and stated.setting in ("", row["setting"])


def _of_method(key: StatedKey, row: Mapping[str, Any]) -> bool:
    if _plain(str(row["method"])) != _plain(key.method):
        return False
    known = methods.methods().get(key.method)
    if known is None or row["setting"] == FEATURES:  # a way to use composed queries, or features as they are
        return not key.changed
    if changed_parameters(key.method, str(row["direction"]), row["parameters"]) != dict(key.changed):
        return False
    reset = row["batch_size"] == key.batch_size and row["continual"] is False
    return (reset or not known.adapts) and key.seed in (None, row["seed"])


def is_of(key: StatedKey, row: Mapping[str, Any]) -> bool:
    """Whether a row of results is of the model, the method and the dataset that a key states.

    What it does not compare is which of the key's scenarios the row is of. A fact that an earlier version did not
    record (None) is equal to nothing that a paper states.
    """
    composed = bool(key.frames)
    claimed = row["dataset"] if row["setting"] == FEATURES else None
    if (row["adapter"] or claimed) != key.dataset or (row["gallery_name"] or WHOLE_GALLERY) != key.gallery:
        return False
    if row["direction"] not in {part.direction for part in key.parts} or not _of_method(key, row):
        return False
    if composed and not _as_stored(key, row):
        return False
    return key.model is None or _is_model(key.model, row, composed=composed)


def _as_stored(key: StatedKey, row: Mapping[str, Any]) -> bool:
    """Whether composed results are of the clips' frames that a key states, and of galleries as released."""
    given = json.loads(row["parameters"] or "{}")
    stages = given.get("shortlist") == key.shortlist or "two_stage" not in key.method
    return stages and given.get("frames") == key.frames and given.get("deduplicate") is False
