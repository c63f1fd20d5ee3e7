"""What a format is, and which there are. Standard library only.

Each file of this package but this one declares one format as `EXPORT`. The command line imports all of them when it
starts, so they import NumPy, torch and what reads manifests where they use it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from perturbations import shelf
from perturbations.errors import ConfigError
from perturbations.exporting.records import Exported, Request


@dataclass(frozen=True, kw_only=True)
class Export:
    """One program's own layout of a corpus.

    Attributes:
        name: of the format, as people type it; its file is called so, too.
        summary: a few words for menus.
        refuses: what raises an error, for menus.
        videos: writes a manifest of videos or sources; None where the format has no videos. Raises `ManifestError` or
            `OutputError` for what is wrong with all of it; a clip that cannot be read is among those that failed.
        captions: writes a manifest of texts, and gives how many files it wrote; None where the format has no captions.
        needs_models: whether it needs what `sh envs/install.sh models` installs.
    """

    name: str
    summary: str
    refuses: str
    videos: Callable[[Request], Exported] | None = None
    captions: Callable[[Request], int] | None = None
    needs_models: bool = False

    @property
    def takes(self) -> tuple[str, ...]:
        """The kinds of corpus that it takes: "videos", "captions"."""
        functions = {"videos": self.videos, "captions": self.captions}
        return tuple(kind for kind, function in functions.items() if function is not None)

    def describe(self) -> str:
        """A sentence for menus."""
        return f"{self.name}: {self.summary}; takes {' and '.join(self.takes)}, refuses {self.refuses}."

    def write_videos(self, request: Request) -> Exported:
        """Write a corpus of clips. Raises `ConfigError` where the format has no videos."""
        if self.videos is None:
            raise ConfigError(f"{self.name} takes {' and '.join(self.takes)} only, not videos")
        return self.videos(request)

    def write_captions(self, request: Request) -> int:
        """Write perturbed captions; how many files. Raises `ConfigError` where the format has no captions."""
        if self.captions is None:
            raise ConfigError(f"{self.name} takes {' and '.join(self.takes)} only, not captions")
        return self.captions(request)


@cache
def exports() -> dict[str, Export]:
    """Every format by its name."""
    return {export.name: export for export in shelf.things("perturbations.exports", "EXPORT", Export).values()}


def get(name: str) -> Export:
    """The format called `name`; raises `ConfigError` with those that there are."""
    if name not in exports():
        raise ConfigError(f"no format '{name}' to export to; known: {', '.join(exports())}")
    return exports()[name]
