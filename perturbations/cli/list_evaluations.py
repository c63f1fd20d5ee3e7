"""What `perturb list` prints of evaluations: adaptation methods, backbones, published protocols."""

from __future__ import annotations

from dataclasses import asdict


def methods() -> list[tuple[str, dict[str, object]]]:
    """The line of each adaptation method, and the same as JSON."""
    from perturbations.tta.methods import method_registry as registry

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


def backbones() -> list[tuple[str, dict[str, object]]]:
    """The line of each architecture of dual encoders, and the same as JSON."""
    from perturbations.evaluation import backbones as registry

    return [(f"{entry.source}; for example {entry.example}", asdict(entry)) for entry in registry.backbones().values()]


def protocols() -> list[tuple[str, dict[str, object]]]:
    """The line of each published protocol, with the keys that the user must set, and the same as JSON."""
    from perturbations.evaluation.published import protocols as registry

    return [
        (
            f"{entry.summary}; needs {', '.join(entry.needs) or 'nothing'}",
            {**asdict(entry), "title": registry.papers()[entry.paper]["title"]},
        )
        for entry in registry.protocols().values()
    ]
