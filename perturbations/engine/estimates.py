"""How much a run stores, and how much CPU time its jobs take: from a sample of its clips and measured costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from perturbations.datasets import registry as datasets
from perturbations.errors import ManifestError
from perturbations.plan import caption_costs, costs, evaluation, evaluation_costs, listed, paths, recipe, sharding
from perturbations.plan import config as configuration
from perturbations.plan.costs import Clean, Volume
from perturbations.plan.preflight import Wanted
from perturbations.suites import registry
from perturbations.system import storage


@dataclass
class Collection:
    """The clips of a collection.

    Attributes:
        shards: per shard, its listed clips.
        rejected: listed items without a usable entry or video, and why.
        unreadable: path -> why a file that is still to be read is no video.
        volumes: per shard, how much video its clips are.
        clean: what a clip takes that is stored unchanged in the tier.
    """

    shards: dict[str, list[listed.ListedClip]]
    rejected: list[listed.RejectedItem]
    unreadable: dict[str, str]
    volumes: dict[str, Volume] = field(default_factory=dict)
    clean: Clean = field(default_factory=Clean)

    @classmethod
    def read(cls, name: str, wanted: Wanted) -> Collection:
        """The lists that planning wrote of a collection; of what is still to be read, each file's first bytes."""
        from perturbations.engine import survey

        root = paths.WORK / name
        shards = listed.read_folder(root / "shards", listed.ListedClip)
        rejected = listed.read(root / "rejected.jsonl", listed.RejectedItem)
        unread = [clip for shard, clips in shards.items() if (name, shard) in wanted.sources for clip in clips]
        return cls(shards, rejected, survey.unreadable(unread))

    @property
    def clips(self) -> list[listed.ListedClip]:
        """Those of all shards."""
        return [clip for clips in self.shards.values() for clip in clips]


# --- disk and time of clips -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Estimate:
    """What the jobs on clips make and take.

    Attributes:
        videos: perturbed clips.
        jobs: their jobs, with those that read and analyse clips.
        bytes: that they store.
        cpu_s: that they take, with the manifests and pages of the corpora.
        rough: whether no clip of some collection could be looked at.
    """

    videos: float
    jobs: int
    bytes: float
    cpu_s: float
    rough: bool


def of_clips(config: configuration.Config, wanted: Wanted, surveyed: dict[str, Collection]) -> Estimate:
    """The estimate of a run's jobs on clips; `surveyed` holds collections that were read already."""
    surveyed = dict(surveyed)
    for job in wanted.analyses:
        surveyed.setdefault(job[0], Collection.read(job[0], wanted))
    tier = costs.tier_of(config.storage)
    looked_at = [_measure(config, name, collection, tier) for name, collection in surveyed.items()]
    size, cpu_s, videos = 0.0, 0.0, 0.0
    for (name, suite, perturbation, severity), shards in wanted.scenarios.items():
        entry = registry.get(f"{suite}/{perturbation}", config.suites[suite].variant)
        volume = _total(surveyed[name].volumes[shard] for shard in shards if shard in surveyed[name].volumes)
        cost = costs.cost(entry, severity, tier)
        size += cost.bytes_of(volume, surveyed[name].clean)
        cpu_s += cost.seconds_of(volume) + costs.JOB_S * len(shards)
        videos += volume.clips
    for name, shard in wanted.sources:
        cpu_s += _seconds(costs.other(costs.SOURCES), surveyed[name], shard)
    for name, analysis, shard in wanted.analyses:
        cost = costs.other(f"analyses/{analysis}", tier)
        cpu_s += _seconds(cost, surveyed[name], shard)
        size += cost.bytes_of(surveyed[name].volumes.get(shard, Volume()), surveyed[name].clean)
    jobs = len(wanted.videos) + len(wanted.sources) + len(wanted.analyses)
    corpora = {job[:2] for job in wanted.videos if job.collection in wanted.checked}
    cpu_s += costs.CORPUS_S * len(corpora)
    return Estimate(videos, jobs, size, cpu_s, not all(looked_at))


def _seconds(cost: costs.Cost, collection: Collection, shard: str) -> float:
    return cost.seconds_of(collection.volumes.get(shard, Volume())) + costs.JOB_S


def _total(volumes: Iterable[Volume]) -> Volume:
    return sum(volumes, Volume())


def _measure(config: configuration.Config, name: str, collection: Collection, tier: str) -> bool:
    """Find out how much video a collection's shards are; whether any of its clips could be looked at."""
    stored = recipe.storage_of(config.storage)
    stored_frames = stored.num_frames if isinstance(stored, recipe.StoredFrames) else None
    if datasets.get(config.datasets[sharding.dataset_of(name)].adapter).drawn:
        return _measure_drawn(collection, tier, stored_frames)
    from perturbations.engine import survey

    clips = [clip for clip in collection.clips if clip.path not in collection.unreadable]
    try:
        with storage.scratch_directory() as folder:
            look = survey.look(clips, tier, Path(folder), seed=config.seed, num_frames=stored_frames or 12)
    except ImportError:  # Snakemake's own environment has no decoder; the jobs' has
        look = None
    usual = look or survey.Look(_USUAL_SECONDS_PER_BYTE, _USUAL_PIXELS_PER_SECOND, 320 * 240, None)
    collection.clean = costs.USUAL_CLEAN if usual.clean is None else usual.clean
    for shard, members in collection.shards.items():
        known = _known(name, shard, stored_frames)
        collection.volumes[shard] = known or _total(usual.volume(clip, stored_frames) for clip in members)
    return look is not None


_USUAL_SECONDS_PER_BYTE = 2e-5
_USUAL_PIXELS_PER_SECOND = 25 * 320 * 240


def _measure_drawn(collection: Collection, tier: str, stored_frames: int | None) -> bool:
    from perturbations.demo import canvas, film

    frame = canvas.WIDTH * canvas.HEIGHT
    pixels = film.NUM_FRAMES * frame
    stored = pixels if stored_frames is None else stored_frames * frame
    for shard, members in collection.shards.items():
        count = len(members)
        collection.volumes[shard] = Volume(
            count, count * pixels, count * film.SECONDS_LONG, count * stored, count * frame
        )
    drawn = costs.other(costs.DEMO, tier)
    collection.clean = Clean(drawn.per_pixel, drawn.per_key)
    return True


def _known(name: str, shard: str, stored_frames: int | None) -> Volume | None:
    """What the manifest's part of a shard says, where its clips were read before."""
    part = paths.WORK / name / "sources" / f"{shard}.parquet"
    if not part.exists():
        return None
    try:
        from perturbations.manifest import sets
        from perturbations.manifest.kinds import SOURCES, CompleteSource

        rows = [row for row in sets.read_part(part, SOURCES) if isinstance(row, CompleteSource)]
    except (ImportError, ManifestError):
        return None
    frames = [row.width * row.height for row in rows]
    pixels = sum(row.frame_count * frame for row, frame in zip(rows, frames, strict=True))
    stored = pixels if stored_frames is None else stored_frames * sum(frames)
    return Volume(len(rows), pixels, sum(row.duration_s for row in rows), stored, sum(frames))


# --- time of captions and evaluations ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Time:
    """CPU seconds of jobs, and how far off they may be.

    Attributes:
        cpu_s: the estimate.
        jobs: their number.
        range: the truth lies between the estimate divided and multiplied by this.
        without: what else they take that is not estimated.
    """

    cpu_s: float
    jobs: int
    range: float = 1.0
    without: str = ""


GPU_TIME = "the time of the GPU"


def of_captions(config: configuration.Config, wanted: Wanted) -> Time:
    """The estimate of a run's perturbed captions."""
    backend, on_gpu = config.backends.captions.backend, config.backends.device != "cpu"
    sizes: dict[tuple[str, str], int] = {}
    corpora = {(job.collection, job.suite) for job in wanted.captions}
    cpu_s, guessed_s = caption_costs.CORPUS_S * len(corpora), 0.0
    for job in wanted.captions:
        place = job.collection, job.shard
        if place not in sizes:
            sizes[place] = _captions_of(*place)
        entry = registry.get(f"{job.suite}/{job.perturbation}", config.suites[job.suite].variant)
        cost = caption_costs.cost(entry, job.severity, backend)
        seconds = cost.start_s + cost.caption_s * sizes[place]
        if caption_costs.is_guess(entry, backend):
            guessed_s += seconds
        else:
            cpu_s += seconds
    if guessed_s and on_gpu:
        return Time(cpu_s, len(wanted.captions), without=GPU_TIME)
    return Time(cpu_s + guessed_s, len(wanted.captions), caption_costs.RANGE if guessed_s > cpu_s else 1.0)


def _captions_of(collection: str, shard: str) -> int:
    """How many captions a shard has. The one of instructions is written by a job: as many as a job takes at most."""
    try:
        with (paths.WORK / collection / "captions" / f"{shard}.jsonl").open("rb") as file:
            return sum(1 for _ in file)
    except OSError:
        return sharding.CAPTIONS_PER_JOB


def of_evaluations(config: configuration.Config, wanted: Wanted, surveyed: Mapping[str, Collection]) -> Time:
    """The estimate of a run's retrieval, within a factor of two."""
    names = {job.dataset for job in wanted.evaluations} | wanted.galleries
    known = {name: surveyed.get(name) or Collection.read(name, wanted) for name in names}
    tier = costs.tier_of(config.storage)
    for name, collection in known.items():
        if not collection.volumes:
            _measure(config, name, collection, tier)
    cpu_s = evaluation_costs.TRAIN_S * wanted.trains + evaluation_costs.CHECK_S * wanted.checks_model
    models = evaluation.models(config)
    for job in wanted.evaluations:
        clip = _mean(known[job.dataset])
        perturbed_s = evaluation_costs.read_s(config, tier, clip)
        seconds = _source_s(clip) if job.suite == evaluation.CLEAN else perturbed_s
        queries = len(known[job.dataset].clips) if job.direction == "v2t" else _captions_listed(job.dataset)
        place: evaluation.Job = (job.direction, job.side, job.suite, job.level)
        own = models[job.model_key]
        cpu_s += evaluation_costs.job_cpu_s(own, job.dataset, place, job.group, queries, seconds)
    for name in wanted.galleries:
        clips = len(known[name].clips)
        cpu_s += evaluation_costs.gallery_cpu_s(config, clips, _source_s(_mean(known[name])))
    on_cpu = evaluation_costs.computes_on_cpu(config)
    jobs = len(wanted.evaluations) + len(wanted.galleries) + wanted.trains
    return Time(cpu_s, jobs, 2.0, "" if on_cpu else GPU_TIME)


def _mean(collection: Collection) -> Volume:
    volume = _total(collection.volumes.values())
    count = max(1.0, volume.clips)
    pixels, seconds, stored, frame = volume.pixels, volume.seconds, volume.stored_pixels, volume.frame_pixels
    return Volume(1, pixels / count, seconds / count, stored / count, frame / count)


def _source_s(clip: Volume) -> float:
    return evaluation_costs.SOURCE_READ_S * clip.pixels / 1e6


def _captions_listed(dataset: str) -> int:
    """How many usable captions planning listed."""
    folder = paths.WORK / dataset / "captions"
    return sum(_captions_of(dataset, shard) for shard in listed.shards(folder))
