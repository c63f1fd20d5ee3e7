"""What an evaluation consists of: scenarios, from the configuration. Standard library only: Snakemake plans with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

from perturbations import config as configuration
from perturbations import recipe, registry
from perturbations.mixes import SHARES

CLEAN = "clean"

Direction = Literal["v2t", "t2v"]


@dataclass(frozen=True)
class Scenario:
    """Which queries are asked.

    Attributes:
        direction: "v2t", queries are videos, or "t2v", queries are captions.
        suite: whose perturbation; "clean" for queries as they are.
        perturbation: its name; "clean", or "all" where the videos' perturbations differ.
        severity: 0 for clean queries, None where the videos' severities differ.
        mix: "mixed_severity", "mixed_types", or None.
        share: mixed_types: the part of the videos that is perturbed.
    """

    direction: Direction
    suite: str
    perturbation: str
    severity: int | None
    mix: str | None = None
    share: float | None = None

    @property
    def name(self) -> str:
        """A name for files, unique in its direction and suite."""
        if self.suite == CLEAN:
            return CLEAN
        if self.mix == "mixed_types":
            assert self.share is not None
            return f"mixed_types-{round(100 * self.share)}"
        return f"{self.mix}-{self.perturbation}" if self.mix else f"{self.perturbation}-{self.severity}"


def scenarios(config: configuration.Config, dataset: str) -> list[Scenario]:
    """Every scenario that the configuration asks for: clean queries first, then the suites' in their order."""
    wanted = config.evaluation
    suites = wanted.suites if wanted.suites is not None else tuple(config.suites)
    found: list[Scenario] = []
    for direction in wanted.directions:
        found.append(Scenario(direction, CLEAN, CLEAN, 0))
        for suite in suites:
            found += _of_videos(config, suite) if direction == "v2t" else _of_captions(config, dataset, suite)
    return found


def _of_videos(config: configuration.Config, suite: str) -> Iterator[Scenario]:
    made = recipe.scenarios(config, suite)
    for name, severity in made:
        if severity in config.evaluation.severities:
            yield Scenario("v2t", suite, name, severity)
    if "mixed_severity" in config.evaluation.mixes:
        for name in dict.fromkeys(name for name, _ in made):
            yield Scenario("v2t", suite, name, None, "mixed_severity")
    if "mixed_types" in config.evaluation.mixes:
        for share in SHARES:
            yield Scenario("v2t", suite, "all", None, "mixed_types", share)


def _of_captions(config: configuration.Config, dataset: str, suite: str) -> Iterator[Scenario]:
    for entry in registry.perturbations(suite, "text"):
        chosen = {min(severity, len(entry.severities)) for severity in config.evaluation.severities}
        for severity in sorted(chosen):
            yield Scenario("t2v", suite, entry.name, severity)


def by_name(config: configuration.Config, dataset: str, direction: str, suite: str, name: str) -> Scenario:
    """The scenario of a file's name. Raises `KeyError` when the configuration does not ask for it."""
    found = {(one.direction, one.suite, one.name): one for one in scenarios(config, dataset)}
    return found[direction, suite, name]  # type: ignore[index]


GROUPS = ("none", "adapted")
"""Jobs: the model as it is, and every other method."""


def methods(config: configuration.Config, group: str) -> tuple[str, ...]:
    """The methods of a group of jobs."""
    if group == "none":
        return ("none",)
    return tuple(name for name in config.evaluation.methods if name != "none")


def model_settings(config: configuration.Config) -> dict[str, Any]:
    """What a gallery's features depend on beside its clips."""
    names = {"model", "pretrained", "revision", "num_frames"}
    return config.evaluation.model_dump(mode="json", include=names)


def settings(config: configuration.Config, dataset: str, scenario: Scenario, group: str) -> dict[str, Any]:
    """Everything that a job's results depend on beside its inputs; the device is not part of it."""
    names = {"setting", "seeds", "batch_size", "steps", "precision"}
    said = config.evaluation.model_dump(mode="json", include=names)
    asked = {"dataset": dataset, **asdict(scenario)}
    return {**model_settings(config), **said, "scenario": asked, "methods": methods(config, group)}
