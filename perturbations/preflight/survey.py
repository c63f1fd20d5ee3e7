"""A quick look at a dataset's clips before a run: which files cannot be read, and what the run will store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from perturbations.base import shown
from perturbations.config import sections as configuration
from perturbations.engine import clip_files
from perturbations.manifest import layout
from perturbations.plan import costs, listed, sharding, tiers
from perturbations.plan.listed import ListedClip
from perturbations.preflight.wanted import WantedWork

# --- the clips --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Collection:
    """The clips of a collection."""

    shards: dict[str, list[ListedClip]]
    rejected: list[listed.RejectedItem]
    unreadable: dict[str, str]  # path -> why a file that is still to be read is no video

    @classmethod
    def read(cls, name: str, wanted: WantedWork) -> Collection:
        """The lists that planning wrote of a collection; of what is still to be read, each file's first bytes."""
        shards = listed.read_folder(Path(layout.folder("shard_list", dataset=name)), ListedClip)
        rejected = listed.read(Path(layout.at("rejected", dataset=name)), listed.RejectedItem)
        unread = [clip for shard, clips in shards.items() if (name, shard) in wanted.sources for clip in clips]
        return cls(shards, rejected, clip_files.unreadable(unread))

    @property
    def clips(self) -> list[ListedClip]:
        """Those of all shards."""
        return [clip for clips in self.shards.values() for clip in clips]

    def usable(self, shards: Iterable[str]) -> list[ListedClip]:
        """The clips of some shards whose file may be a video."""
        return [clip for shard in shards for clip in self.shards.get(shard, ()) if clip.path not in self.unreadable]


# --- what a run stores ------------------------------------------------------------------------------------------------


def stored(
    config: configuration.Config, wanted: WantedWork, surveyed: dict[str, Collection]
) -> tuple[int, float | None]:
    """How many perturbed clips a run makes, and the bytes that they take, within a factor of 2.

    The bytes are None where no clip of a collection can be looked at, as long as they are still to be drawn.
    `surveyed` has the collections.
    """
    clips: Counter[str] = Counter()
    for (name, *_), shards in wanted.scenarios.items():
        clips[name] += len(surveyed[name].usable(shards))
    size = 0.0
    for name, number in clips.items() if config.storage.tier != "recipe" else ():
        pictures = config.datasets[sharding.dataset_of(name)].has_pictures
        resolved = tiers.storage_of(config.storage, pictures=pictures)
        frames = resolved.num_frames if isinstance(resolved, tiers.StoredFrames) else None
        form = resolved.profile if isinstance(resolved, tiers.StoredVideo) else config.storage.tier
        try:
            pixels = costs.mean_pixels(surveyed[name].usable(surveyed[name].shards), frames, seed=config.seed)
        except ImportError:  # Snakemake's own environment has no decoder; the jobs' has
            pixels = None
        if pixels is None:
            return clips.total(), None
        size += number * pixels * clip_files.BYTES_PER_PIXEL[form]
    return clips.total(), size


def in_words(config: configuration.Config, collections: Iterable[str], text: str) -> str:
    """A sentence about clips, about pictures where all collections are of pictures."""
    every = [config.datasets[sharding.dataset_of(name)].has_pictures for name in collections]
    return shown.in_words_of(text, pictures=bool(every) and all(every))
