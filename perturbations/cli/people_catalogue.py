"""The commands that write the catalogue's pages from the declarations."""

from __future__ import annotations

import argparse
from pathlib import Path

from perturbations.cli.arguments import Commands, add_command


def add(commands: Commands) -> None:
    """Declare the commands of this file."""
    parser = add_command(
        commands, "catalogue-texts", _catalogue_texts, "print the catalogue of caption perturbations, Markdown"
    )
    parser.add_argument("-o", "--output", type=Path, help="write to this file instead")

    parser = add_command(commands, "catalogue", _catalogue, "bring docs/catalogue up to date with the declarations")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file is not up to date")
    parser.add_argument("--output", type=Path, default=Path("docs", "catalogue"), help="folder of the catalogue")


def _catalogue_texts(options: argparse.Namespace) -> int:
    from perturbations.base import storage
    from perturbations.captions import examples as text_catalogue

    page = text_catalogue.of_examples()
    if options.output is None:
        print(page, end="")
    else:
        storage.write_text(options.output, page)
    return 0


def _catalogue(options: argparse.Namespace) -> int:
    from perturbations.report import catalogue

    if not options.check:
        for name in catalogue.write(options.output):
            print(options.output / name)
        return 0
    stale = catalogue.stale(options.output)
    for line in stale:
        print(f"  {line}")
    print(f"{options.output}: {f'{len(stale)} not up to date; run: perturb catalogue' if stale else 'up to date'}")
    return 1 if stale else 0
