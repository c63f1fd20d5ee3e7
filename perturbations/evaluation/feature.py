"""What `evaluation` brings to the configuration and the plan."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from perturbations.base.features import Feature, later
from perturbations.evaluation import protocols, rows
from perturbations.evaluation.rows import FIELDS, PLACES

if TYPE_CHECKING:
    from perturbations.evaluation.section import Evaluation

_HERE = "perturbations.evaluation"


def _section() -> type[Evaluation]:
    from perturbations.evaluation.section import Evaluation

    return Evaluation


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
    complete=later(f"{_HERE}.protocols.registry", "applied"),
    problems=later(f"{_HERE}.section", "problems_of"),
    kinds=lambda: (rows.RESULTS, rows.RANKS),
    menus={"methods": _methods, "backbones": _backbones, "protocols": _protocols},
    cells={"protocols": protocols.cell_lines},
    targets=later(f"{_HERE}.paths", "menu"),
    instructions=later(f"{_HERE}.composed_plan", "instructions"),
    readiness=later(f"{_HERE}.readiness", "problems"),
    models=later(f"{_HERE}.readiness", "models"),
)
