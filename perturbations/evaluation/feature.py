"""What `evaluation` brings to the configuration and the plan."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from perturbations.base.features import Feature
from perturbations.evaluation import protocols, rows
from perturbations.evaluation.rows import FIELDS, PLACES

if TYPE_CHECKING:
    from perturbations.config.problems import Problem
    from perturbations.config.sections import Config
    from perturbations.evaluation.section import Evaluation
    from perturbations.plan.targets import CaptionShards, Plans, Target


def _section() -> type[Evaluation]:
    from perturbations.evaluation.section import Evaluation

    return Evaluation


def _complete(raw: object) -> object:
    from perturbations.evaluation.protocols import registry

    return registry.applied(raw)


def _problems(config: Config) -> list[Problem]:
    from perturbations.evaluation import section

    return section.problems_of(config)


def _targets(config: Config, plans: Plans, caption_shards: CaptionShards) -> Iterator[Target]:
    from perturbations.evaluation import composed_plan, paths

    yield from paths.menu(config, plans, caption_shards)
    yield from composed_plan.menu(config, plans, caption_shards)


def _instructions(config: Config, dataset: str, suite: str) -> list[tuple[str, int]]:
    from perturbations.evaluation import composed_plan

    return composed_plan.instructions(config, dataset, suite)


def _readiness(config: Config, rules: Collection[str], local: bool) -> Iterator[str]:
    from perturbations.evaluation import readiness

    return readiness.problems(config, rules, local)


def _models(config: Config, rules: Collection[str]) -> Iterator[str]:
    from perturbations.evaluation import readiness

    return readiness.models(config, rules)


def _methods() -> list[tuple[str, dict[str, object]]]:
    """The line of each adaptation method, and the same as JSON."""
    from perturbations.tta.methods import registry

    return [
        (
            f"{entry.paper}; minimizes {entry.minimizes}",
            {
                **{name: getattr(entry, name) for name in ("name", "title", "paper", "minimizes", "gives")},
                "rates": entry.rates,
                "needs_bank": entry.needs_bank,
                "needs_all_queries": entry.needs_all_queries,
            },
        )
        for entry in registry.methods().values()
    ]


def _backbones() -> list[tuple[str, dict[str, object]]]:
    """The line of each architecture of dual encoders, and the same as JSON."""
    from perturbations.evaluation.backbones import registry

    return [(f"{entry.source}; for example {entry.example}", asdict(entry)) for entry in registry.backbones().values()]


def _protocols() -> list[tuple[str, dict[str, object]]]:
    """The line of each published protocol, with the keys that the user must set, and the same as JSON."""
    from perturbations.evaluation.protocols import registry

    return [
        (
            f"{entry.summary}; needs {', '.join(entry.needs) or 'nothing'}",
            {**asdict(entry), "title": registry.papers()[entry.paper]["title"]},
        )
        for entry in registry.protocols().values()
    ]


FEATURE = Feature(
    summary="retrieval with perturbed queries, without and with test-time adaptation",
    places=PLACES,
    fields=FIELDS,
    section=_section,
    complete=_complete,
    problems=_problems,
    kinds=lambda: (rows.RESULTS, rows.RANKS),
    menus={"methods": _methods, "backbones": _backbones, "protocols": _protocols},
    cells={"protocols": protocols.cell_lines},
    targets=_targets,
    instructions=_instructions,
    readiness=_readiness,
    models=_models,
)
