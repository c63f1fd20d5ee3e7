"""The paths that planning asks for, relative to the working directory, and texts for Snakemake and the shell."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from perturbations.base import features
from perturbations.base.errors import ConfigError
from perturbations.config.sections import Config
from perturbations.corpus.plan import caption_recipes, clip_lists, sharding
from perturbations.manifest import manifest_paths
from perturbations.manifest.manifest_paths import TOP

Inputs = dict[str, str | list[str]]
"""The inputs of a job by name."""


# --- text for Snakemake and for the shell ----------------------------------------------------------------------------


def without_braces(what: str, path: Path) -> str:
    """A path as text. Raises `ConfigError` for braces, which Snakemake would read as wildcards."""
    if set("{}") & set(str(path)):
        raise ConfigError(f"{what}: rename {path}; Snakemake takes the braces for wildcards")
    return str(path)


def check_folders(root: Path) -> None:
    """Raise `ConfigError` where results cannot lie: Snakemake would end with a traceback.

    Jobs know `root`, the prefix of a module, by the first of the folders of results in their paths.
    """
    without_braces("the working directory", Path.cwd())
    if taken := [name for name in TOP if name in root.parts]:
        raise ConfigError(f"prefix: {root}: rename the folder `{taken[0]}`; the workflow has one of this name below it")
    for name in TOP:
        if (root / name).exists() and not (root / name).is_dir():
            raise ConfigError(
                f"cannot write {root / name}: it is a file, and no folder; rename it: mv {name} {name}.old"
            )


def check_own_folder() -> None:
    """Raise `ConfigError` where Snakemake's own folder cannot be written. Dry runs write into it, too."""
    own = Path(".snakemake") if os.path.isdir(".snakemake") else Path()
    if not os.access(own, os.W_OK):
        raise ConfigError(
            f"the folder {own.absolute()} cannot be written, and Snakemake writes there, with -n too: make a project "
            f"of your own (perturb init FOLDER), or allow it (chmod -R u+w {shlex.quote(str(own.absolute()))})"
        )


def shell_prefix(python: Path) -> str:
    """What every shell command begins with, so that it finds `perturb` beside the Python that runs Snakemake."""
    folder = shlex.quote(str(python.parent)).replace("{", "{{").replace("}", "}}")
    return f"export PATH={folder}:$PATH; "


# --- clips and captions ----------------------------------------------------------------------------------------------


def of_shards(kind: str, collection: str, shards: Iterable[str], **names: str) -> list[str]:
    """The files of a kind of `manifest_paths` in a collection, one per shard; `names` are further fields of paths."""
    return [manifest_paths.at(kind, dataset=collection, shard=shard, **names) for shard in shards]


def of_scenarios(
    kind: str, collection: str, suite: str, scenarios: Iterable[tuple[str, int | None]], shards: Sequence[str]
) -> list[str]:
    """The files of one kind in a corpus, one per perturbation, severity and shard."""
    return [
        manifest_paths.at(kind, dataset=collection, suite=suite, perturbation=name, severity=severity, shard=shard)
        for name, severity in scenarios
        for shard in shards
    ]


def clip_inputs(
    config: Config,
    collection: str,
    suite: str,
    scenarios: Iterable[tuple[str, int | None]],
    shards: Sequence[str],
) -> list[str]:
    """The inputs of a job that reads clips of some scenarios: their parts, and their markers where they are stored."""
    kinds = ["video_part"] if config.storage.tier == "recipe" else ["video_part", "clip_marker"]
    wanted = list(scenarios)
    return [path for kind in kinds for path in of_scenarios(kind, collection, suite, wanted, shards)]


# --- recipes ---------------------------------------------------------------------------------------------------------


def texts_of_recipes(config: Config, collection: str, suite: str) -> dict[str, str]:
    """The recipes that the jobs of perturbed captions follow, by scenario.

    For composed queries: the recipes of the instructions that the evaluation asks for.
    """
    dataset = sharding.dataset_of(collection)
    scenarios = features.instructions if sharding.is_composed(collection) else caption_recipes.scenarios
    return {
        f"{name}/{severity}": caption_recipes.from_config(config, dataset, suite, name, severity).text
        for name, severity in scenarios(config, dataset, suite)
    }


def write_recipes(config: Config, kind: str, collection: str, suite: str, recipes: Mapping[str, str]) -> str:
    """Write the file of a corpus's recipes, which its parts must follow, and return its path."""
    path = manifest_paths.at(kind, dataset=collection, suite=suite)
    clip_lists.write_texts(config.at(path), recipes)
    return path
