"""The command `perturb`: its parser, its log and its handling of errors."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence

# One thread per job; NumPy's libraries read these when they load.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

from perturbations import __version__
from perturbations.cli import (
    people_catalogue,
    people_check,
    people_clips,
    people_composed,
    people_export,
    people_show,
    people_verify,
    rules_calibration,
    rules_captions,
    rules_clips,
    rules_composed,
    rules_evaluation,
    rules_manifests,
)
from perturbations.cli.arguments import Command
from perturbations.errors import PerturbationError
from perturbations.system import limits, shown

_GROUPS = (
    people_show,
    people_check,
    people_clips,
    people_verify,
    people_export,
    people_composed,
    people_catalogue,
    rules_clips,
    rules_captions,
    rules_manifests,
    rules_calibration,
    rules_evaluation,
    rules_composed,
)
"""First the commands for people, then the commands of the workflow's rules. Each module declares its own commands."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; returns 0 for success, 1 for a problem, and 2 for wrong arguments."""
    options = _parser().parse_args(arguments)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(shown.LogFormatter("%(asctime)s %(message)s", datefmt="%H:%M:%S"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    command: Command = options.command
    try:
        limits.use(limits.parse(options.limits))
        return command(options)
    except PerturbationError as error:
        print(f"perturb: {shown.lines(str(error))}", file=sys.stderr)
        return 1
    except MemoryError:
        print("perturb: memory ran out: give the job more (mem_mb); finished items are kept", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader of the output has ended, as after `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"perturb: {shown.lines(str(error))}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("perturb: interrupted; finished items are kept", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="perturb",
        description="Perturb videos and captions like the robustness benchmarks for video-text retrieval.",
    )
    parser.add_argument("--version", action="version", version=f"perturb {__version__}")
    given = os.environ.get(limits.ENVIRONMENT, "{}")
    parser.add_argument(
        "--limits", default=given, metavar="JSON", help="limits on the size of one file: `limits` of config.yaml"
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for group in _GROUPS:
        group.add(commands)
    return parser
