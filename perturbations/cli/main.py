"""The command `perturb`: its parser, its log and its handling of errors."""

from __future__ import annotations

import importlib
import io
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

# One thread per job; NumPy's libraries read these when they load.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
# Pydantic looks for plugins in the metadata of every installed package.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
# Arrow's own allocator keeps what it frees: 50 MB of a merge.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

from perturbations import __version__
from perturbations.base import plugins, progress, shown
from perturbations.base.errors import PerturbationError, UnknownPerturbationError
from perturbations.cli import rule

if TYPE_CHECKING:
    import argparse

    from perturbations.cli.arguments import Parser

COMMANDS = {
    "start": ("init", "list"),
    "perturb one video": ("video", "preview"),
    "before, during and after a run": ("check", "status", "retry", "verify"),
    "use what a run made": ("export", "regenerate", "report", "score", "encode", "answers"),
}
"""The sections of `perturb --help` -> their commands.

The module of a command's name is loaded when needed. Its docstring is the command's line; `add_arguments` declares what
the command takes, and `run` does it and returns 0 for success, 1 for a problem.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; returns 0 for success, 1 for a problem, and 2 for wrong arguments."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal that has no letter for an id gets its escape
        sys.stdout.reconfigure(errors="backslashreplace")
    words = sys.argv[1:] if arguments is None else [*arguments]
    is_job = words[:1] == ["rule"]
    try:
        options = None if is_job else _parsed(words)
    except ModuleNotFoundError as error:
        return _missing(error)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(shown.LogFormatter("%(asctime)s %(message)s", datefmt="%H:%M:%S"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    try:
        if options is None:
            work = rule.prepared(words[1:])
            work()
            return 0
        from perturbations.base import limits
        from perturbations.base.settings import parse_limits  # its library is slow to load, and help needs none

        limits.use(parse_limits(options.limits))
        plugins.use(options.plugins)
        status: int = options.run(options)
        return status
    except BrokenPipeError:  # the reader of the output has ended, as after `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except UnknownPerturbationError as error:
        hint = " Name your own suite's file: perturb --plugins FILE" if plugins.PLUGINS.is_file() else ""
        return _failed(f"{error}{hint}")
    except (PerturbationError, OSError) as error:
        return _failed(error)
    except ModuleNotFoundError as error:
        return _missing(error)
    except MemoryError:
        return _failed("memory ran out: give the job more (mem_mb); finished items are kept")
    except KeyboardInterrupt:
        return _failed("interrupted; finished items are kept", 130)


def _failed(error: object, status: int = 1) -> int:
    print(progress.error_line(error), file=sys.stderr)
    return status


def _missing(error: ModuleNotFoundError) -> int:
    from perturbations.base.project import needs

    return _failed(needs(error))


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    from perturbations.cli.arguments import parsed

    return parsed(parser(*words[:1]), words)


def parser(command: str | None = None) -> Parser:
    """The parser of all commands; for the first word of a command line, of what may follow."""
    from perturbations.cli.arguments import Parser, Schema

    command_line = Parser(
        prog="perturb",
        description="Perturb videos and captions like the robustness benchmarks for video-text retrieval.",
        epilog="perturb COMMAND --help explains a command. Corpora are made by snakemake.",
    )
    command_line.add_argument("--version", action="version", version=f"perturb {__version__}")
    command_line.add_argument(
        "--limits", default="{}", metavar="JSON", help="limits on the size of one file: `limits` of config.yaml"
    )
    command_line.add_argument(
        "--plugins",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="a file of your own that brings suites or others: `plugins` of config.yaml; may be repeated",
    )
    command_line.add_argument(
        "--schema", action=Schema, nargs=0, help="print the JSON schema of config.yaml, for editors"
    )
    commands = command_line.add_subparsers(metavar="COMMAND", required=True)
    known = [name for names in COMMANDS.values() for name in names]
    for name in [command] if command in known else known:
        module = importlib.import_module(f"perturbations.cli.{name}")
        title = str(module.__doc__).rstrip(".")
        text = title[0].lower() + title[1:]
        own = commands.add_parser(name, help=text, description=text)
        own.set_defaults(run=module.run)
        module.add_arguments(own)
    declared = commands._get_subactions()
    command_line.sections = {
        title: [action for action in declared if action.dest in names] for title, names in COMMANDS.items()
    }
    return command_line
