"""The commands that look at a clip or a run: preview, check, status, retry."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from perturbations.base import shown
from perturbations.cli.arguments import Commands, add_command, add_directory, add_json, enter
from perturbations.cli.people_clips import add_realization, rows_from


def add(commands: Commands) -> None:
    """Declare the commands of this file."""
    text = "draw a contact sheet of one clip under perturbations and severities"
    parser = add_command(commands, "preview", _preview, text)
    parser.add_argument("input", type=Path, help="a video or picture file")
    text = "a .jpg, .webp or .png; default: <name>.preview.jpg in this folder"
    parser.add_argument("-o", "--output", type=Path, help=text)
    text = "suites or single perturbations; default: mlvp"
    parser.add_argument("-p", "--perturbations", nargs="+", metavar="SUITE[/NAME]", help=text)
    text = "default: 1 3 5, or all that the perturbations share"
    parser.add_argument("-s", "--severities", nargs="+", type=int, help=text)
    add_realization(parser)

    text = "before a run: whether it can succeed, by config.yaml, clips, models and disk space"
    parser = add_command(commands, "check", _check, text)
    parser.add_argument("targets", nargs="*", default=["all"], help="targets of snakemake; the default is the demo")
    add_directory(parser)
    text = "a further file over config.yaml, as for snakemake; may be given several times"
    parser.add_argument("--configfile", action="append", type=Path, default=[], help=text)

    parser = add_command(commands, "status", _status, "during or after a run: how far it is, and what failed")
    add_json(parser)
    add_directory(parser)

    text = "after failures: let the next run process quarantined items again"
    parser = add_command(commands, "retry", _retry, text)
    parser.add_argument("--dataset", nargs="+", default=[], help="only items of these datasets")
    text = "only items of these suites, and their sources and analyses"
    parser.add_argument("--suite", nargs="+", default=[], help=text)
    text = "only these items (for whole videos: the videos' ids)"
    parser.add_argument("--item", action="extend", nargs="+", default=[], metavar="ID", help=text)
    text, stages = "only items that failed at these stages", ("source", "analysis", "video")
    parser.add_argument("--stage", nargs="+", default=[], choices=stages, help=text)
    text = "only print the items that would be processed again"
    parser.add_argument("-n", "--dry-run", action="store_true", help=text)


def _preview(options: argparse.Namespace) -> int:
    from perturbations.models.guides.backends import STAND_IN
    from perturbations.report import preview

    output = options.output or Path(f"{options.input.stem}.preview.jpg")
    stand_ins, left_out = preview.from_video(
        *rows_from(options),
        output,
        names=options.perturbations or ["mlvp"],
        severities=options.severities,
        seed=options.seed,
        variant=options.variant,
    )
    if stand_ins:
        print(f"made by {STAND_IN}s of models, not comparable with published results: {', '.join(stand_ins)}")
    if left_out:
        why = "they need several frames, or frames of other videos (--donors)"
        print(f"left out, because {why}: {', '.join(left_out)}")
    print(output)
    return 0


def _check(options: argparse.Namespace) -> int:
    from perturbations.base import limits
    from perturbations.config import file as config_file
    from perturbations.corpus import paths, targets
    from perturbations.report import check

    further = [path.absolute() for path in options.configfile]  # as Snakemake takes them: from where it was started
    enter(options.directory)
    config = config_file.of_files([Path("config.yaml"), *further], options.targets)
    paths.check_folders(Path())
    limits.use(config.limits.model_dump())
    works = targets.named(config, options.targets)
    report = check.check(config, works)
    for line in (*targets.together(works).sizes, *report.text()):
        print(shown.line(line))
    report.raise_errors()
    return 0


def _status(options: argparse.Namespace) -> int:
    from perturbations.report import status

    enter(options.directory)
    current = status.collect(Path())
    print(json.dumps(current, indent=2) if options.json else status.text(current))
    return 0


def _retry(options: argparse.Namespace) -> int:
    from perturbations.report import retry

    names = {"datasets": options.dataset, "suites": options.suite, "stages": options.stage, "items": options.item}
    rows = retry.find(Path(), **names)
    for line, _, _ in rows:
        print(f"  {shown.line(line)}")
    if not options.dry_run:
        retry.forget(Path(), rows)
    parts = len({part for _, part, _ in rows})
    would = "would be" if options.dry_run else "will be"
    print(f"{shown.plural(len(rows), 'quarantined row')} in {shown.plural(parts, 'part')} {would} processed again")
    if rows and not options.dry_run:
        print("Now run snakemake: finished items are kept.")
    return 0
