"""What `perturb list` prints of the shelves of evaluations: a line per thing, and the same as JSON."""

from __future__ import annotations

from dataclasses import asdict


def methods() -> list[tuple[str, dict[str, object]]]:
    """The line of each adaptation method, and the same as JSON."""
    from perturbations.tta.methods import registry

    return [
        (
            f"{entry.paper}; minimizes {entry.minimizes}",
            {
                "name": entry.name,
                "title": entry.title,
                "paper": entry.paper,
                "minimizes": entry.minimizes,
                "gives": entry.gives,
                "rates": None if entry.rates is None else entry.rates._asdict(),
                "needs_bank": entry.needs_bank,
                "needs_all_queries": entry.needs_all_queries,
            },
        )
        for entry in registry.methods().values()
    ]


def backbones() -> list[tuple[str, dict[str, object]]]:
    """The line of each architecture of dual encoders, and the same as JSON."""
    from perturbations.evaluation.backbones import registry

    return [(f"{entry.source}; for example {entry.example}", asdict(entry)) for entry in registry.backbones().values()]


def protocols() -> list[tuple[str, dict[str, object]]]:
    """The line of each published protocol, with what the user must bring, and the same as JSON."""
    from perturbations.evaluation.protocols import registry

    titles = {name: entry.title for name, entry in registry.papers().items()}
    return [
        (
            f"{entry.summary}; needs {', '.join(f'{key} ({what})' for key, what in entry.needs.items()) or 'nothing'}",
            {**asdict(entry), "title": titles[entry.paper]},
        )
        for entry in registry.protocols().values()
    ]


SHELVES = {"methods": methods, "backbones": backbones, "protocols": protocols}
