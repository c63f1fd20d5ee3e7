"""The formats of exports, and the request for an export. Standard library only: the command line imports it first.

A format's module has a function per kind of corpus that it takes: `write_videos`, `write_captions`, `write_pairs`,
`write_splits`. Packages from elsewhere add formats by entry points of the group `perturbations.exports`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from perturbations.base import plugins
from perturbations.base.errors import ConfigError, did_you_mean, short
from perturbations.base.shown import plural

MEGABYTE = 1_000_000
DATA = "data"
"""The folder of all exported clips and captions."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to export, and how. A format ignores the fields that do not apply to it.

    Attributes:
        manifest: a manifest of sources, videos, mixes, texts, multimodal pairs or composed queries.
        output: the folder to write to.
        form: the format's name.
        num_frames: frames per video.
        size: side of the pictures, in pixels.
        order: the file of the test split; captions are written in its order.
        stall_limit_s: seconds without progress after which a clip fails.
        gallery: composed queries: the local gallery's name; None: the dataset's own, else the default.
        global_gallery: composed queries: whether the global gallery is written too.
        mirror: questions: whether clips are written where the harness's own tasks look for them, without tasks.
        clean: whether the clean clips (for texts: the clean captions and clips) are written too.
        shard_bytes: the size above which a new shard is begun.
        license, creator, citation, url: facts that only the publisher knows: the licence's name (best from SPDX) or
            address; who made the dataset; how it is cited (best as BibTeX); its page. Empty if not given.
        rai: terms of Croissant's responsible AI and of PROV, in place of those that the manifest gives.
    """

    manifest: Path
    output: Path
    form: str = ""
    num_frames: int = 12
    size: int = 224
    order: Path | None = None
    stall_limit_s: float = 120.0
    gallery: str | None = None
    global_gallery: bool = False
    mirror: bool = False
    clean: bool = False
    shard_bytes: int = 1000 * MEGABYTE
    license: str = ""
    creator: tuple[str, ...] = ()
    citation: str = ""
    url: str = ""
    rai: Mapping[str, Any] = field(default_factory=dict)

    @property
    def data(self) -> Path:
        """The folder of all exported clips and captions, below `output`."""
        return self.output / DATA


LeftOut = tuple[str, str]
"""A row that is not exported, and why."""


@dataclass(frozen=True)
class Exported:
    """The number of videos (`noun`) that were written, and the rows that are left out, with the reasons.

    `others` names what is written beside or instead of videos: "19 captions", "recipes of 15 clips".
    """

    written: int = 0
    failed: Sequence[LeftOut] = ()
    quarantined: Sequence[LeftOut] = ()
    others: str = ""
    noun: str = "video"

    def __str__(self) -> str:
        parts = [f"{self.others} written"] if self.others else []
        if self.written or not self.others:
            parts.append(f"{plural(self.written, self.noun)} written")
        return ", ".join([*parts, f"{len(self.failed):,} failed, {len(self.quarantined):,} quarantined"])


@dataclass(frozen=True, kw_only=True)
class Export:
    """The layout in which another program reads a corpus.

    Attributes:
        name: the format's name on the command line.
        summary: a few words for menus.
        takes: the kinds of corpus that it accepts: "videos" (a manifest of videos, sources or mixes), "captions",
            "pairs", "splits".
        module: where its functions are: `write_videos(request)`, `write_captions`, `write_pairs` and `write_splits`
            (composed retrieval, given the manifest of its queries) return an `Exported`, and raise `ManifestError` or
            `OutputError` for a problem of the whole manifest.
        needs_models: whether it needs the libraries that `sh envs/install.sh models` installs.
    """

    name: str
    summary: str
    takes: tuple[str, ...]
    module: str
    needs_models: bool = False

    def describe(self) -> str:
        """A sentence for menus."""
        return f"{self.name}: {self.summary}; takes {' and '.join(self.takes)}."

    def write(self, kind: str, request: Request) -> Exported:
        """Write a kind of corpus. Raises `ConfigError` where the format has no function for it."""
        if kind not in self.takes:
            instead = ": export videos.parquet and captions.parquet" if {"videos", "captions"} <= {*self.takes} else ""
            refused = f"pairs of both{instead}" if kind == "pairs" else kind
            others = ", ".join(name for name, other in exports().items() if kind in other.takes)
            text = f"{self.name} takes {' and '.join(self.takes)} only, not {refused}"
            raise ConfigError(f"{text}; --format of these: {others}")
        function: Callable[[Request], Exported] = getattr(import_module(self.module), f"write_{kind}")
        return function(replace(request, form=self.name))


_OWN = (
    ("composed", "EgoCVR's released evaluation", "composed.official", "splits"),
    ("croissant", "the layout hub with a Croissant description", "exports.hub", "videos captions pairs"),
    ("hub", "a Hugging Face dataset repository", "exports.hub", "videos captions pairs"),
    ("lmms_eval", "questions as tasks of lmms-eval", "questions.lmms_eval", "videos captions"),
    ("mteb", "retrieval tasks for mteb", "exports.mteb", "videos captions pairs splits"),
    ("recipe", "rows and hashes without pixels, for `perturb regenerate`", "exports.recipe_export", "videos"),
    ("vlmevalkit", "questions as datasets of VLMEvalKit", "questions.vlmevalkit", "videos captions"),
    ("vtr_tta", "X-Pool's and HAT-VTR's released loaders", "exports.vtr_tta", "videos captions"),
    ("webdataset", "tar shards for webdataset", "exports.webdataset", "videos captions pairs"),
)
"""The formats of this package: name, summary, module, and kinds of corpus."""


@plugins.cached
def exports() -> dict[str, Export]:
    """Every format by its name."""
    own = {
        name: Export(
            name=name,
            summary=summary,
            takes=tuple(takes.split()),
            module=f"perturbations.{module}",
            needs_models=name == "vtr_tta",
        )
        for name, summary, module, takes in _OWN
    }
    return dict(sorted((own | plugins.load_all("perturbations.exports", {}, "EXPORT", Export)).items()))


def get(name: str) -> Export:
    """The format called `name`; raises `ConfigError`, which lists the known formats."""
    if name not in exports():
        known = ", ".join(exports())
        raise ConfigError(f"no format {short(name)} to export to; known: {known}{did_you_mean(name, exports())}")
    return exports()[name]
