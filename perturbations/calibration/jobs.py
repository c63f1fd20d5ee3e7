"""The command that solves severities of even distortion: calibrate."""

from __future__ import annotations

import argparse
from pathlib import Path

from perturbations.base.errors import ConfigError, short
from perturbations.cli.arguments import Commands, add_command, positive
from perturbations.cli.common import complete_sources


def add(commands: Commands) -> None:
    """Declare the commands of this file."""
    parser = add_command(commands, "calibrate", _calibrate, "solve parameters for severities of even distortion")
    parser.add_argument("--sources", type=Path, required=True, help="the sources manifest of the dataset")
    parser.add_argument(
        "-p",
        "--perturbations",
        nargs="+",
        metavar="SUITE/NAME",
        help="default: all of videos that keep the size of frames",
    )
    parser.add_argument(
        "--variants",
        nargs="*",
        default=[],
        metavar="SUITE=VARIANT",
        help="the variants of suites; default: their first",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--clips", type=positive, help="number of clips to measure; default: 8")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the table to write, .json")
    parser.add_argument("--picture", type=Path, help="the plot to write, .png")
    parser.add_argument("--report", type=Path, help="the report to write, .md")


def _calibrate(options: argparse.Namespace) -> int:
    from perturbations.base import storage
    from perturbations.calibration import solved_page, solver
    from perturbations.calibration import table as calibration_table
    from perturbations.suites import registry

    rows = complete_sources(options.sources)
    dataset = rows[0].dataset if rows else ""
    entries = [registry.get(name) for name in options.perturbations or ()] or registry.perturbations(kind="video")
    texts = [entry.key for entry in entries if entry.kind != "video"]
    if texts:
        raise ConfigError(f"only perturbations of videos can be calibrated, not {', '.join(texts)}")
    variants = {suite.name: suite.variants[0] for suite in registry.suites().values()}
    for option in options.variants:
        name, _, variant = option.partition("=")
        if variant not in registry.suite(name).variants:
            raise ConfigError(
                f"no variant {short(variant)} of {name}; it has {', '.join(registry.suite(name).variants)}"
            )
        variants[name] = variant
    variant_of = {entry.key: variants[entry.suite] for entry in entries}
    if not options.perturbations:  # all that have a distance to the clean clip
        variant_of = {key: variant for key, variant in variant_of.items() if registry.get(key, variant).shape is None}
    sources = solver.sample(rows, options.seed, dataset, options.clips or solver.CLIPS)
    table = solver.calibrate(sources, variant_of, dataset=dataset, seed=options.seed)
    calibration_table.write(options.output, table)
    if options.report:
        storage.write_text(options.report, solved_page.text(table))
    if options.picture:
        solved_page.draw(table, options.picture)
    return 0
