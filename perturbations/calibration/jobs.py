"""The command that solves severities of even distortion: calibrate."""

from __future__ import annotations

import argparse
from pathlib import Path

from perturbations.base.errors import ConfigError
from perturbations.cli.arguments import Commands, add_command
from perturbations.cli.common import complete_sources


def add(commands: Commands) -> None:
    """Declare the commands of this file."""
    parser = add_command(commands, "calibrate", _calibrate, "solve parameters for severities of even distortion")
    parser.add_argument("--sources", type=Path, required=True, help="the sources manifest of the dataset")
    parser.add_argument("-p", "--perturbations", nargs="+", required=True, metavar="SUITE/NAME")
    parser.add_argument("--variants", nargs="+", required=True, metavar="SUITE=VARIANT")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("-o", "--output", type=Path, required=True, help="the table to write, .json")
    parser.add_argument("--report", type=Path, required=True, help="the report to write, .md")


def _calibrate(options: argparse.Namespace) -> int:
    from perturbations.base import storage
    from perturbations.calibration import solved_page, solver
    from perturbations.calibration import table as calibration_table
    from perturbations.suites import registry

    rows = complete_sources(options.sources)
    dataset = rows[0].dataset if rows else ""
    entries = [registry.get(name) for name in options.perturbations]
    texts = [entry.key for entry in entries if entry.kind != "video"]
    if texts:
        raise ConfigError(f"only perturbations of videos can be calibrated, not {', '.join(texts)}")
    variants = dict(option.split("=") for option in options.variants)
    sources = solver.sample(rows, options.seed, dataset)
    wanted = {entry.key: variants[entry.suite] for entry in entries}
    table = solver.calibrate(sources, wanted, dataset=dataset, seed=options.seed)
    calibration_table.write(options.output, table)
    storage.write_text(options.report, solved_page.text(table))
    return 0
