"""The command that solves severities of even distortion: calibrate."""

from __future__ import annotations

from pathlib import Path

from perturbations.base.errors import ConfigError
from perturbations.cli.arguments import Commands, add_job
from perturbations.cli.common import complete_sources


def add(commands: Commands) -> None:
    """Declare the commands of this file."""
    add_job(commands, _calibrate)


def _calibrate(
    sources: Path, perturbations: list[str], variants: list[str], seed: int, output: Path, report: Path
) -> None:
    """Solve parameters for severities of even distortion."""
    from perturbations.base import storage
    from perturbations.calibration import solved_page, solver
    from perturbations.calibration import table as calibration_table
    from perturbations.suites import registry

    rows = complete_sources(sources)
    dataset = rows[0].dataset if rows else ""
    entries = [registry.get(name) for name in perturbations]
    texts = [entry.key for entry in entries if entry.kind != "video"]
    if texts:
        raise ConfigError(f"only perturbations of videos can be calibrated, not {', '.join(texts)}")
    variant_of = dict(option.split("=") for option in variants)
    wanted = {entry.key: variant_of[entry.suite] for entry in entries}
    table = solver.calibrate(solver.sample(rows, seed, dataset), wanted, dataset=dataset, seed=seed)
    calibration_table.write(output, table)
    storage.write_text(report, solved_page.text(table))
