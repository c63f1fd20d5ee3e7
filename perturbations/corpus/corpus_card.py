"""A corpus's dataset card: what it is, how it was made, and whether its numbers are comparable. Markdown."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import partial

from perturbations.base import shown
from perturbations.corpus.store.clip_rows import offline_roles
from perturbations.corpus.tally import Tally
from perturbations.manifest import manifest_paths
from perturbations.manifest.rows import ClipRow
from perturbations.manifest.sets import Listed, losses_sentence
from perturbations.suites import suite_registry

TASKS = ("text-retrieval",)
"""The tasks of a dataset card, in the Hugging Face Hub's names: none of them is of videos and text."""

TAGS = ("robustness", "perturbation", "video-text-retrieval")


def card(
    suite: suite_registry.Suite,
    videos: Tally,
    listed: Listed,
    about: Mapping[str, object],
    *,
    captions: tuple[int, ...] = (0, 0),
) -> str:
    """The card of a `videos` manifest. The same rows give the same text.

    `videos` are its rows. `captions` are the numbers of the dataset's captions that can be used and that cannot.
    """
    first, words = videos.first, partial(shown.in_words_of, pictures=videos.has_pictures)
    front = {
        "pretty_name": f"{suite.title} on {about.get('dataset', '')}",
        "task_categories": TASKS,
        "tags": [*map(words, TAGS)],
    }
    lines = ["---", *(f"{key}: {json.dumps(value)}" for key, value in front.items()), "---", ""]
    lines += [
        f"# {shown.name(front['pretty_name'])}",
        "",
        f"After {suite.reference}.",
        "",
        f"- {listed.sentence(words('clips'))}",
    ]
    usable, rejected = captions
    if rejected:
        place = manifest_paths.at("captions_quarantine", dataset=about.get("dataset", ""))
        lines.append(
            f"- {usable:,} of {usable + rejected:,} listed captions complete; {rejected:,} quarantined: "
            f"`snakemake {shown.name(place)}` lists them"
        )
    if first is not None:
        perturbations, severities = (set(names) for names in zip(*videos.scenarios, strict=True))
        lines += [
            f"- {videos.complete.total():,} of {listed.listed * listed.scenarios:,} {words('videos')}; "
            f"perturbations: {len(perturbations)}, severities: {', '.join(map(str, sorted(severities)))}",
            f"- variant: {shown.name(first.variant)}; seed: {first.seed}; storage: {shown.name(first.storage)}"
            f"{_loss(videos, first)}",
        ]
    lines += [f"- {shown.name(words(lost))}"] if (lost := losses_sentence(about)) else []
    lines += [
        f"- {about.get('comparability', '')}",
        f"- made by perturbations {shown.name(about.get('package_version'))}; "
        f"configuration {shown.name(about.get('config_digest'))}",
        "",
        f"| perturbation | category | {words('clips')} | stand-ins for | PSNR against clean, dB, by severity |",
        "|---|---|---|---|---|",
    ]
    for entry in suite.perturbations:
        if scenarios := [tally for (name, _), tally in sorted(videos.scenarios.items()) if name == entry.name]:
            complete = sum(backends.total() for backends, _ in scenarios)
            roles = sorted({role for backends, _ in scenarios for name in backends for role in offline_roles(name)})
            offline = ", ".join(map(shown.name, roles)) or "none"
            psnr = " / ".join(_psnr(values) for backends, values in scenarios if backends)
            lines.append(f"| {entry.name} | {entry.category} | {complete} | {offline} | {psnr} |")
    return "\n".join(lines) + "\n"


def _loss(videos: Tally, first: ClipRow) -> str:
    """How far stored frames are from those that the kernels made; empty where nothing is lost."""
    edges = [edge for losses in videos.losses.values() for edge in (min(losses), max(losses))]
    if not edges:
        return ""
    by = ", as the authors of MSRVTT-P stored" if first.storage == "video/released" else ""
    return f", lossy{by}: stored against intended frames {min(edges):.1f} to {max(edges):.1f} dB"


def _psnr(values: Sequence[float]) -> str:
    mean = mean_psnr(values)
    return "-" if mean is None else "equal" if mean == math.inf else f"{mean:.1f}"


def mean_psnr(values: Sequence[float | None]) -> float | None:
    """The mean PSNR, in dB, of the clips that changed: one clip of equal frames would make every mean infinite.

    Infinite where no clip changed, None where none was measured.
    """
    measured = [value for value in values if value is not None and not math.isnan(value)]
    changed = [value for value in measured if value < math.inf]
    if not changed:
        return math.inf if measured else None
    return math.fsum(changed) / len(changed)
