"""What the rules of one run share, and what wings add. No NumPy: Snakemake imports this."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from perturbations.config import sections as configuration


@dataclass
class WorkflowRun:
    """One run of the workflow, or of one module of it.

    Attributes:
        config: the configuration.
        folder: of work/, manifests/ and corpora/, from where Snakemake was started; `Path()` where it is that folder.
        say: prints a line of planning, each once.
        before: functions of wings, called before the first job; each may raise a `PerturbationError`.
        further_results: functions of wings that give further files for the page of results, of "results" or "ranks".
        names: the name that each target has in the user's Snakefile -> its own. In `use rule * as other_*` they differ.
    """

    config: configuration.Config
    folder: Path
    say: Callable[[str], None]
    before: list[Callable[[], None]] = field(default_factory=list)
    further_results: list[Callable[[str], list[str]]] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)

    def targets(self, requested: Iterable[str]) -> list[str]:
        """The own names of the targets that the command line names."""
        return [self.names.get(name, name) for name in requested]
