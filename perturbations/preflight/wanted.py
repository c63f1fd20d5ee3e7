"""What a run is about to do: its jobs, from Snakemake's own plan. No NumPy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from perturbations.manifest import layout


class _ScenarioJob(NamedTuple):
    """One job of the rule `videos`."""

    collection: str
    suite: str
    perturbation: str
    severity: int
    shard: str


@dataclass
class WantedWork:
    """The jobs of a run that this check looks at."""

    videos: set[_ScenarioJob] = field(default_factory=set)
    sources: set[tuple[str, str]] = field(default_factory=set)  # (collection, shard) whose clips are read
    analyses: set[tuple[str, str, str]] = field(default_factory=set)  # (collection, analysis, shard)
    captions: set[tuple[str, str, str]] = field(default_factory=set)  # (collection, suite, shard)
    checked: set[str] = field(default_factory=set)  # collections whose quarantine is compared with `max_failed_items`
    checked_captions: set[str] = field(default_factory=set)  # datasets whose captions are
    rules: list[str] = field(default_factory=list)  # of every job

    @property
    def scenarios(self) -> dict[tuple[str, str, str, int], list[str]]:
        """(collection, suite, perturbation, severity) -> the shards to make."""
        shards: dict[tuple[str, str, str, int], list[str]] = {}
        for job in sorted(self.videos):
            shards.setdefault(job[:4], []).append(job.shard)
        return shards

    @property
    def collections(self) -> set[str]:
        """The collections whose lists of clips this check reads."""
        read = {name for name, _ in self.sources} | {name for name, _, _ in self.analyses}
        return read | {job.collection for job in self.videos} | self.checked

    @property
    def caption_datasets(self) -> set[str]:
        """The datasets whose lists of captions this check reads."""
        return {collection for collection, _, _ in self.captions} | self.checked_captions

    @property
    def folders(self) -> list[Path]:
        """The folders of the perturbed clips that are made."""
        kinds = ("dataset", "suite", "perturbation", "severity")
        return [Path(layout.at("clips", **dict(zip(kinds, key, strict=True)))) for key in self.scenarios]


def of_jobs(jobs: Iterable[tuple[str, Mapping[str, str]]]) -> WantedWork:
    """What Snakemake plans: the rule and the wildcards of each job that it will run."""
    wanted = WantedWork()
    for rule, names in jobs:
        if rule == "videos":
            place = names["dataset"], names["suite"], names["perturbation"], int(names["severity"]), names["shard"]
            wanted.videos.add(_ScenarioJob(*place))
        elif rule == "texts":
            wanted.captions.add((names["dataset"], names["suite"], names["shard"]))
        elif rule == "sources":
            wanted.sources.add((names["dataset"], names["shard"]))
        elif rule == "analyses":
            wanted.analyses.add((names["dataset"], names["analysis"], names["shard"]))
        elif rule == "check_quarantine":
            wanted.checked.add(names["dataset"])
        elif rule == "check_captions":
            wanted.checked_captions.add(names["dataset"])
        wanted.rules.append(rule)
    return wanted
