"""The command that shows how far a run is: status."""

from __future__ import annotations

import argparse
from pathlib import Path

from perturbations.cli.arguments import Commands, add_command


def add(commands: Commands) -> None:
    """Declare the commands of this file."""
    text = "during or after a run: how far it is, how much time is left, what failed"
    parser = add_command(commands, "status", _status, text)
    parser.add_argument("--json", action="store_true", help="print a JSON document, for programs")
    parser.add_argument("--failures", action="store_true", help="print what failed only; nothing where nothing did")


def _status(options: argparse.Namespace) -> int:
    from perturbations.report import status, status_text

    current = status.collect(Path())
    if options.json:
        import json
        from dataclasses import asdict

        print(json.dumps(asdict(current), indent=2))
    elif options.failures:
        if failures := status_text.failures(current):
            print(failures)
    else:
        print(status_text.text(current))
        names = {stage.dataset.partition("/")[0] for stage in current.stages}
        if unknown := names - _configured(Path("config.yaml"), names):
            print(f"\nnot in config.yaml: {', '.join(sorted(unknown))}: renamed, taken out, or of another --configfile")
    return 0


def _configured(path: Path, otherwise: set[str]) -> set[str]:
    """The datasets of a configuration; `otherwise` where it cannot be read."""
    from perturbations.errors import ConfigError
    from perturbations.plan import config_file

    try:
        datasets = config_file.load([path]).get("datasets") if path.exists() else None
    except ConfigError:
        return otherwise
    return {str(name) for name in datasets} if isinstance(datasets, dict) else otherwise
