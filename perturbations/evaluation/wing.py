"""What the wing `evaluation` brings to the spine."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from perturbations.evaluation import shelves
from perturbations.evaluation.layout import FIELDS, PLACES
from perturbations.plan.extension import CaptionShards, Plans, PlanWing, Target

if TYPE_CHECKING:
    from perturbations.cli.arguments import Commands
    from perturbations.config.problems import Problem
    from perturbations.config.sections import Config
    from perturbations.evaluation.section import Evaluation
    from perturbations.manifest.kind import RowKind


def _section() -> type[Evaluation]:
    from perturbations.evaluation.section import Evaluation

    return Evaluation


def _complete(raw: object) -> object:
    from perturbations.evaluation.protocols import registry

    return registry.applied(raw)


def _problems(config: Config) -> list[Problem]:
    from perturbations.evaluation import mistakes

    return mistakes.of_evaluation(config)


def _kinds() -> Iterable[RowKind[Any]]:
    from perturbations.evaluation import rows

    return rows.KINDS


def _report(commands: Commands) -> None:
    from perturbations.evaluation import command

    command.add(commands)


def _score(commands: Commands) -> None:
    from perturbations.evaluation import score_command

    score_command.add(commands)


def _jobs(commands: Commands) -> None:
    from perturbations.evaluation import jobs

    jobs.add(commands)


def _targets(config: Config, plans: Plans, caption_shards: CaptionShards) -> Iterator[Target]:
    from perturbations.evaluation import targets

    return targets.menu(config, plans, caption_shards)


def _readiness(config: Config, rules: Collection[str], local: bool) -> Iterator[str]:
    from perturbations.evaluation import readiness

    return readiness.problems(config, rules, local)


def _work(rules: Collection[str]) -> Iterator[str]:
    from perturbations.evaluation import readiness

    return readiness.work(rules)


WING = PlanWing(
    summary="retrieval with perturbed queries, without and with test-time adaptation",
    rules=("evaluation_common", "evaluation"),
    places=PLACES,
    fields=FIELDS,
    section=_section,
    complete=_complete,
    problems=_problems,
    kinds=_kinds,
    commands={"use what a run made": {"report": _report, "score": _score, "encode": _score}},
    declare_jobs=_jobs,
    shelves=shelves.SHELVES,
    targets=_targets,
    readiness=_readiness,
    work=_work,
)
