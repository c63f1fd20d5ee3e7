"""The declaration of an export format, and the look-up of all formats. Standard library only.

Every other file of this package declares one format as `EXPORT`. The command line imports all of them when it starts,
so they import NumPy, torch and the readers of manifests only inside functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from perturbations.base import shelf
from perturbations.base.errors import ConfigError, did_you_mean, short
from perturbations.exports.writing.requests import Exported, Request


@dataclass(frozen=True, kw_only=True)
class Export:
    """The layout in which another program reads a corpus.

    Attributes:
        name: the format's name on the command line, which is also the name of its file.
        summary: a few words for menus.
        refuses: the inputs that raise an error, for menus.
        videos: writes the clips of a manifest of videos or sources; None where the format has no videos. Raises
            `ManifestError` or `OutputError` for a problem of the whole manifest; a clip that cannot be read is reported
            as failed.
        captions: writes a manifest of texts and returns the number of files; None where the format has no captions.
        pairs: writes a manifest of videos and captions that are both perturbed; None where the format has no place for
            them. Errors as of `videos`.
        splits: writes a split for composed retrieval, given the manifest of its queries, and returns the files; None
            where the format has no such splits.
        needs_models: whether it needs the libraries that `sh envs/install.sh models` installs.
    """

    name: str
    summary: str
    refuses: str
    videos: Callable[[Request], Exported] | None = None
    captions: Callable[[Request], int] | None = None
    pairs: Callable[[Request], Exported] | None = None
    splits: Callable[[Request], list[Path]] | None = None
    needs_models: bool = False

    @property
    def takes(self) -> tuple[str, ...]:
        """The kinds of corpus that the format accepts: "videos", "captions", "pairs", "splits"."""
        return tuple(kind for kind in ("videos", "captions", "pairs", "splits") if getattr(self, kind) is not None)

    def describe(self) -> str:
        """A sentence for menus."""
        return f"{self.name}: {self.summary}; takes {' and '.join(self.takes)}, refuses {self.refuses}."

    def write(self, kind: str, request: Request) -> Any:
        """What the function of this kind of corpus returns. Raises `ConfigError` where the format has none."""
        if kind not in self.takes:
            instead = ": export videos.parquet and captions.parquet" if {"videos", "captions"} <= {*self.takes} else ""
            refused = f"pairs of both{instead}" if kind == "pairs" else kind
            raise ConfigError(f"{self.name} takes {' and '.join(self.takes)} only, not {refused}")
        return getattr(self, kind)(request)


@cache
def exports() -> dict[str, Export]:
    """Every format by its name."""
    return {
        export.name: export for export in shelf.things("perturbations.exports", "EXPORT", Export, ("writing",)).values()
    }


def get(name: str) -> Export:
    """The format called `name`; raises `ConfigError`, which lists the known formats."""
    if name not in exports():
        known = ", ".join(exports())
        raise ConfigError(f"no format {short(name)} to export to; known: {known}{did_you_mean(name, exports())}")
    return exports()[name]
