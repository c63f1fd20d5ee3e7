"""The command that looks at a run before it starts: check."""

from __future__ import annotations

import argparse
from functools import cache
from pathlib import Path

from perturbations.cli.arguments import Commands, add_command
from perturbations.errors import ConfigError


def add(commands: Commands) -> None:
    """Declare the commands of this file."""
    text = "before a run: whether it can succeed, by config.yaml, clips, models and disk space"
    parser = add_command(commands, "check", _check, text)
    parser.add_argument("targets", nargs="*", default=["all"], help="targets of snakemake; the default is the demo")
    text = "a further file over config.yaml, as for snakemake; may be given several times"
    parser.add_argument("--configfile", action="append", type=Path, default=[], help=text)


def _check(options: argparse.Namespace) -> int:
    from perturbations.engine import preflight
    from perturbations.plan import config as configuration
    from perturbations.plan import config_file, paths, places, sharding, targets
    from perturbations.plan import preflight as planning
    from perturbations.plan.advice import did_you_mean
    from perturbations.system import limits, shown

    files = [Path("config.yaml"), *options.configfile]
    if absent := [path for path in files if not path.is_file()]:
        hint = "; run this where config.yaml is" if absent[0] == files[0] else ""
        kind = "a directory, and no file" if absent[0].is_dir() else "no such file"
        raise ConfigError(f"{shown.line(str(absent[0]))}: {kind}{hint}")
    config = configuration.parse(config_file.load(files), places.read(files))
    limits.use(limits.parse(config.limits.model_dump_json()))

    @cache
    def plan_of(collection: str) -> sharding.Plan:
        return paths.plan(config, collection)

    @cache
    def caption_shards(dataset: str) -> tuple[str, ...]:
        return paths.caption_shards(config, dataset)

    menu = {target.name: target for target in targets.menu(config, plan_of, caption_shards)}
    menu["all"] = targets.demo(config, plan_of)
    if unknown := [name for name in options.targets if name not in menu]:
        hint = did_you_mean(unknown[0], menu) or "."
        raise ConfigError(f"no target {unknown[0]!r}{hint} `snakemake --list-target-rules` lists them")
    works = [menu[name].request() for name in options.targets]
    for line in dict.fromkeys(line for work in works for line in work.sizes):
        print(shown.line(line))
    wanted = planning.of_files(config, (file for work in works for file in work.files), plan_of, caption_shards)
    report = preflight.check(config, wanted)
    for line in report.text():
        print(shown.line(line))
    report.raise_errors()
    return 0
