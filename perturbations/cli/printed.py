"""The option that prints the JSON schema of config.yaml, and ends."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perturbations.cli.arguments import Parser


def add(parser: Parser) -> None:
    """Declare the option."""
    parser.add_argument("--schema", action=_Schema, nargs=0, help="print the JSON schema of config.yaml, for editors")


class _Schema(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from perturbations.config import sections as config

        print(config.json_schema(), end="")
        parser.exit()
