"""The command `perturb`: its parser, its log and its handling of errors."""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Mapping, Sequence

# One thread per job; NumPy's libraries read these when they load.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

from perturbations import __version__
from perturbations.base import arrow, limits, shown, storage, wings
from perturbations.base.errors import PerturbationError
from perturbations.cli import printed, rules
from perturbations.cli.arguments import Command, CommandGroup, Parser, parsed

_JOBS = {"the workflow": (rules,)}


def _sections() -> Mapping[str, Sequence[CommandGroup]]:
    """The modules that declare commands, by the sections of `perturb --help`."""
    from perturbations.cli import people_clips, people_export, people_init, people_list, people_verify

    sections: dict[str, list[CommandGroup]] = {
        "start": [people_init, people_list],
        "perturb one video": [people_clips],
        "before, during and after a run": [],
        "use what a run made": [people_export],
    }
    for name, wing in wings.wings().items():
        for title, modules in wing.commands.items():
            sections.setdefault(title, []).extend(wings.load(name, module) for module in modules)
    sections["before, during and after a run"].append(people_verify)
    return {**{title: modules for title, modules in sections.items() if modules}, **_JOBS}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; returns 0 for success, 1 for a problem, and 2 for wrong arguments."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal that has no letter for an id gets its escape
        sys.stdout.reconfigure(errors="backslashreplace")
    words = sys.argv[1:] if arguments is None else arguments
    options = parsed(parser(_JOBS if words[:1] == ["rule"] else None), words)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(shown.LogFormatter("%(asctime)s %(message)s", datefmt="%H:%M:%S"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    command: Command = options.command
    try:
        limits.use(limits.parse(options.limits))
        if arguments is None and options.is_job:
            arrow.leave_out_pandas()
        if storage.in_store():
            for unpack in wings.offered("unpack"):
                unpack()
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


def parser(sections: Mapping[str, Sequence[CommandGroup]] | None = None) -> Parser:
    """The parser of all commands, or of some; a run starts thousands of jobs, and each needs those of rules only."""
    command_line = Parser(
        prog="perturb",
        description="Perturb videos and captions like the robustness benchmarks for video-text retrieval.",
        epilog="perturb COMMAND --help explains a command. Corpora are made by snakemake.",
    )
    command_line.set_defaults(is_job=False)
    command_line.add_argument("--version", action="version", version=f"perturb {__version__}")
    default = os.environ.get(limits.ENVIRONMENT, "{}")
    command_line.add_argument(
        "--limits", default=default, metavar="JSON", help="limits on the size of one file: `limits` of config.yaml"
    )
    printed.add(command_line)
    commands = command_line.add_subparsers(metavar="COMMAND", required=True)
    listed = {}
    for title, groups in (_sections() if sections is None else sections).items():
        before = len(commands._get_subactions())
        for group in groups:
            group.add(commands)
        listed[title] = commands._get_subactions()[before:]
    command_line.sections = listed
    return command_line
