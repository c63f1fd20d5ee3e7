"""A recipe: everything that determines a corpus video but the clip itself. Standard library only.

The canonical JSON of a recipe is what Snakemake compares to decide whether a job must run again.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from perturbations import calibration_table, registry
from perturbations import config as configuration
from perturbations.errors import ConfigError
from perturbations.storage import PROFILES

Recipe = dict[str, Any]

RECIPE_ID_LENGTH = 32


def canonical(value: Any) -> str:
    """JSON with sorted keys and no spaces: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(value: Any) -> str:
    """32 hex digits of the SHA-256 of a value's canonical JSON."""
    return hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()[:RECIPE_ID_LENGTH]


def make(
    perturbation: registry.Perturbation,
    severity: int,
    *,
    variant: str,
    seed: int,
    storage: Recipe,
    replaced: dict[str, Any] | None = None,
    backends: configuration.Backends | None = None,
    donors: str = "",
    draw: registry.Draw | None = None,
    whole_videos: bool = False,
) -> Recipe:
    """The recipe of one perturbation at one severity.

    `replaced` holds parameters that take the place of the published ones. A whole number given for a published
    float counts as that float, so that `1` and `1.0` are one recipe. `donors` names the dataset that event insertion
    takes its segments from. `draw` takes the place of the declaration's, where something is random. `whole_videos`
    says that clips are cut from perturbed videos.
    Raises `UnknownPerturbationError` for a severity or variant that does not exist.
    """
    parameters = perturbation.parameters(severity, variant)
    for name, value in (replaced or {}).items():
        parameters[name] = float(value) if isinstance(parameters[name], float) else value
    recipe = {
        "suite": perturbation.suite,
        "perturbation": perturbation.name,
        "severity": severity,
        "variant": variant,
        "params": parameters,
        "draw": perturbation.draw if draw is None or perturbation.realization is None else draw,
        "kernel": perturbation.kernel,
        "version": perturbation.version,
        "seed": seed,
        "storage": storage,
    }
    if whole_videos:
        recipe["whole_videos"] = True
        if perturbation.method == "codec" and "profile" in storage:
            # A clip cut from an encoder's stream is not encoded with loss a second time.
            recipe["storage"] = storage_settings({"tier": "video", "profile": "lossless"})
    if perturbation.guide is not None:
        chosen = backends or configuration.Backends()
        recipe["guide"] = _guide(perturbation.guide, chosen, variant, storage, donors)
    return recipe


def from_config(config: configuration.Config, collection: str, suite: str, name: str, severity: int) -> Recipe:
    """The recipe that `config.yaml` asks for; `collection` is a dataset's name, or `plan.whole` of it.

    Raises `ConfigError` when it asks for a calibrated severity that no table holds.
    """
    wanted = config.suites[suite]
    dataset, _, part = collection.partition("/")
    entry = registry.get(f"{suite}/{name}")
    solved = _calibrated(config, dataset, entry, severity) if wanted.severity == "calibrated" else {}
    made = make(
        entry,
        severity,
        variant=wanted.variant,
        seed=config.seed,
        storage=storage_settings(config.storage.model_dump()),
        replaced={**solved, **wanted.parameters.get(name, {}).get(severity, {})},
        backends=config.backends,
        donors=config.donors_of(dataset),
        draw=wanted.draw,
        whole_videos=not part and cuts_whole_videos(config, dataset, suite),
    )
    # The table's numbers are in the recipe, and nothing else of it: what changes one of them concerns its jobs only.
    return {**made, "variant": wanted.severity} if solved else made


def is_published(row: Recipe) -> bool:
    """Whether the parameters of a manifest's row are those that the paper, or its code, has for the severity."""
    if row["variant"] not in registry.VARIANTS:
        return False
    published = registry.get(f"{row['suite']}/{row['perturbation']}").parameters(row["severity"], row["variant"])
    return bool(row["params"] == canonical(published))


def _calibrated(
    config: configuration.Config, dataset: str, entry: registry.Perturbation, severity: int
) -> dict[str, Any]:
    path = config.calibration_of(dataset, entry.suite)
    try:
        return calibration_table.parameters(path, entry, severity, config.suites[entry.suite].variant)
    except ConfigError as error:
        raise ConfigError(
            f"suites.{entry.suite}.severity is `calibrated`: {error}. `snakemake calibrate_{dataset}` solves the table "
            f"manifests/{dataset}/calibration.json anew"
        ) from None


def cuts_whole_videos(config: configuration.Config, dataset: str, suite: str) -> bool:
    """Whether a suite perturbs a dataset's whole videos and cuts its clips from those."""
    return registry.suite(suite).whole_videos and config.datasets[dataset].has_spans


# Raise one when its results change.
_VERSIONS = {"motion": 2, "main_object": 1, "embedding": 2, "caption_embedding": 1, "style": 1, "frost": 1}


def _guide(kind: str, backends: configuration.Backends, variant: str, storage: Recipe, donors: str) -> Recipe:
    """What decides a kernel's guide: an analysis, a backend, a corpus. `files` says only where to look."""
    if kind == "style":
        settings = backends.style.model_dump(mode="json")
        files = {name: settings.pop(name) for name in ("images", "encoder", "decoder") if name in settings}
        where = {"device": backends.device, "dtype": backends.dtype} if settings["backend"] == "pretrained" else {}
        return {"kind": kind, "version": _VERSIONS["style"], **settings, **where, "files": files}
    if kind == "frost":
        return {"kind": kind, "version": _VERSIONS["frost"], "files": backends.frost.model_dump(mode="json")}
    if kind == "donor":
        by_caption = variant == "released" and backends.embedding.backend == "pretrained"
        query = "caption_embedding" if by_caption else "embedding"
        return {"kind": kind, "corpus": donors, "analysis": analysis(query, backends, storage)}
    return {"kind": kind, "analysis": analysis(kind, backends, storage)}


def analysis(name: str, backends: configuration.Backends, storage: Recipe) -> Recipe:
    """The recipe of an analysis: "motion", "main_object", "embedding" or "caption_embedding"."""
    made: Recipe = {"analysis": name, "version": _VERSIONS[name]}
    if name == "motion":
        # Where only sampled frames are stored, only their motion is looked at.
        return {**made, "num_frames": storage.get("num_frames")}
    settings = backends.main_object if name == "main_object" else backends.embedding
    made["model"] = settings.model_dump(mode="json", exclude_none=True)
    if settings.backend == "pretrained":
        made["model"].update(device=backends.device, dtype=backends.dtype, batch_clips=backends.batch_clips)
    if name == "caption_embedding":
        made["captions"] = analysis("main_object", backends, storage)
    return made


def analysis_of(recipe: Recipe) -> Recipe | None:
    """The analysis that a guided recipe needs of its clip."""
    found: Recipe | None = recipe.get("guide", {}).get("analysis")
    return found


def donor_corpus(recipe: Recipe) -> str | None:
    """The dataset that a recipe takes segments from."""
    found: str | None = recipe.get("guide", {}).get("corpus")
    return found


def storage_settings(storage: dict[str, Any]) -> Recipe:
    """A storage tier with the encoder settings behind its profile, so that changing those changes the recipe."""
    if storage["tier"] != "video":
        return storage
    profile = PROFILES[storage["profile"]]
    return {**storage, "codec": profile.codec, "pix_fmt": profile.pix_fmt, "options": dict(profile.options)}


def recipe_id(
    recipe: Recipe, dataset: str, source: dict[str, Any], guide: str | None = None, cut: str | None = None
) -> str:
    """The identity of one result: the recipe, whose clip it is, the bytes and span of the source, and its guide.

    `guide` is the JSON of what the kernel was told, `cut` that of the clip's place in a video perturbed whole.
    Where files are, and how similar a donor is, is not part of it.
    """
    clip = {name: source[name] for name in ("item_id", "start_s", "end_s")}
    told = {"guide": _without_files(json.loads(guide))} if guide else {}
    if cut:
        told["cut"] = json.loads(cut)
    made = {**recipe, "guide": _without_files(recipe["guide"])} if "guide" in recipe else recipe
    return digest({"recipe": made, "dataset": dataset, "source_sha256": source["source_sha256"], **clip, **told})


def _without_files(value: Recipe) -> Recipe:
    return {name: one for name, one in value.items() if name not in ("files", "similarity")}


def scenarios(config: configuration.Config, suite: str) -> list[tuple[str, int]]:
    """The (perturbation, severity) pairs of a suite that the configuration asks for, in the suite's order."""
    wanted = config.suites.get(suite)
    if wanted is None:
        return []
    names = [entry.name for entry in registry.perturbations(suite, "video")]
    chosen = names if wanted.perturbations == "all" else [name for name in names if name in wanted.perturbations]
    return [(name, severity) for name in chosen for severity in sorted(wanted.severities)]


def config_digest(config: configuration.Config, dataset: str) -> str:
    """A hash of what the configuration says about results of one dataset: not of shards, limits or other datasets."""
    said = config.model_dump(mode="json", include={"seed", "suites", "storage", "backends"})
    described = {"dataset": dataset, "adapter": config.datasets[dataset].adapter, "donors": config.donors_of(dataset)}
    return digest({**said, **described})
