"""What `evaluation`, `composed` and `questions` bring to those below them, and to `report`: imported when it is used.

Standard library only. The functions take and give types of packages above, which are named in words here.
"""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perturbations.base.settings import Strict


def _of(name: str) -> Any:
    """The object that a name below the package names: `evaluation.plan.evaluation_files.menu`."""
    module, _, own = name.rpartition(".")
    return getattr(importlib.import_module(f"perturbations.{module}"), own)


def sections() -> dict[str, type[Strict]]:
    """The types of their sections of `config.yaml`, by their keys."""
    return {
        "composed": _of("composed.split_settings.Composed"),
        "evaluation": _of("evaluation.plan.evaluation_settings.Evaluation"),
    }


def completed(raw: object) -> object:
    """The raw configuration with what a published protocol that it names implies; written keys replace it."""
    return _of("evaluation.published.protocols.applied")(raw)


def problems(config: Any) -> list[Any]:
    """Each `config.problems.Problem` of their sections that types do not show."""
    own = ("composed.split_settings", "evaluation.plan.evaluation_settings")
    return [problem for module in own for problem in _of(f"{module}.problems_of")(config)]


def kinds() -> list[Any]:
    """The kinds of their manifests (`manifest.rows.RowKind`)."""
    results = [_of("evaluation.result_rows.RESULTS"), _of("evaluation.result_rows.RANKS")]
    return [*_of("composed.split.kinds")(), *results, *_of("questions.answer_rows.kinds")()]


def answer_sections(paths: Collection[Any]) -> list[Any]:
    """Each `evaluation.page.page_tables.Section` of manifests of results of answers to questions; none without any."""
    sections: list[Any] = _of("questions.questions_page.sections")(paths) if paths else []
    return sections


def targets(config: Any, plans: Any, caption_shards: Any) -> Iterable[Any]:
    """Each `corpus.plan.targets.Target` of theirs, given `corpus.plan.targets.Plans` and `CaptionShards`."""
    yield from _of("evaluation.plan.evaluation_files.menu")(config, plans, caption_shards)


def instructions(config: Any, dataset: str, suite: str) -> list[tuple[str, int]]:
    """The (perturbation, severity) pairs of a suite that the texts of a dataset's composed queries take."""
    asked: list[tuple[str, int]] = _of("evaluation.plan.composed_runs.instructions")(config, dataset, suite)
    return asked
