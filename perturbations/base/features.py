"""What `composed`, `evaluation` and `questions` add to packages below them. Their modules are imported on first use.

The types of packages above are named in words here. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perturbations.base.settings import Strict

_COMPOSED = "perturbations.composed.split_settings"
_EVALUATION = "perturbations.evaluation.plan.evaluation_settings"
_ROWS = ("perturbations.composed.split", "perturbations.evaluation.result_rows", "perturbations.questions.answer_rows")
"""Each has the function `kinds`."""


def sections() -> dict[str, type[Strict]]:
    """The types of their sections of `config.yaml`, by their keys."""
    return {"composed": import_module(_COMPOSED).Composed, "evaluation": import_module(_EVALUATION).Evaluation}


def completed(raw: object) -> object:
    """The raw configuration with what a published protocol that it names implies; written keys replace it."""
    return import_module(_EVALUATION).protocols.applied(raw)


def problems(config: Any) -> list[Any]:
    """Each `config.problems.Problem` of their sections that types do not show."""
    return [problem for name in (_COMPOSED, _EVALUATION) for problem in import_module(name).problems_of(config)]


def kinds() -> list[Any]:
    """The kinds of their manifests (`manifest.rows.RowKind`)."""
    return [kind for name in _ROWS for kind in import_module(name).kinds()]


def targets(config: Any, plans: Any, caption_shards: Any) -> Iterable[Any]:
    """Their targets, each a `corpus.plan.targets.Target`; the arguments are `Plans` and `CaptionShards` of there."""
    yield from import_module(_EVALUATION).targets(config, plans, caption_shards)


def instructions(config: Any, dataset: str, suite: str) -> list[tuple[str, int]]:
    """The (perturbation, severity) pairs of a suite that the texts of a dataset's composed queries take."""
    asked: list[tuple[str, int]] = import_module(_EVALUATION).instructions(config, dataset, suite)
    return asked
