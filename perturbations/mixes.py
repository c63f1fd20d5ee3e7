"""Mixed benchmarks (MLVP, App. D.2): rows that point at videos which the single scenarios hold. No pixel is made."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from perturbations import rng
from perturbations.registry import Combined

Row = dict[str, Any]

SHARES = (0.2, 0.4, 0.6, 0.8)
"""Parts of the videos that are perturbed where types are mixed (Tab. 18)."""

CLEAN = "source"
"""What the column `storage` says of a clean clip: it lies where the dataset has it."""


def mixed_severity(videos: Sequence[Row]) -> Iterator[Row]:
    """For each perturbation, each item once, at a severity drawn from those that were made (Tab. 17).

    `videos` are the rows of a `videos` manifest. A draw depends on the seed, the dataset, the item and the
    perturbation. A scenario that was quarantined stays a quarantined row.
    """
    choices: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in videos:
        choices[row["item_id"], row["perturbation"]].append(row)
    for (item_id, name), rows in choices.items():
        rows = sorted(rows, key=lambda row: row["severity"])
        key = f"{rows[0]['suite']}/{name}/mixed_severity"
        draw = rng.generator(rows[0]["seed"], rows[0]["dataset"], item_id, key)
        yield {**rows[draw.integers(len(rows))], "mix": "mixed_severity", "share": None}


def mixed_types(videos: Sequence[Row], sources: Sequence[Row]) -> Iterator[Row]:
    """For each share, each item once: that part at a random perturbation and severity, the rest clean (Tab. 18).

    `sources` are the rows of the `sources` manifest. Which items are perturbed is a matter of a number drawn for each,
    the smallest first: those of 20 % are among those of 40 %, and what became of an item is the same in both.
    """
    choices: dict[str, list[Row]] = defaultdict(list)
    for row in videos:
        choices[row["item_id"]].append(row)
    drawn: dict[str, tuple[float, Row]] = {}
    for item_id, rows in choices.items():
        rows = sorted(rows, key=lambda row: (row["perturbation"], row["severity"]))
        draw = rng.generator(rows[0]["seed"], rows[0]["dataset"], item_id, f"{rows[0]['suite']}/mixed_types")
        drawn[item_id] = (float(draw.random()), rows[draw.integers(len(rows))])
    clean = {row["item_id"]: row for row in sources if row["item_id"] in drawn}
    in_order = sorted(drawn, key=lambda item_id: (drawn[item_id][0], item_id))
    for share in SHARES:
        perturbed = set(in_order[: round(share * len(in_order))])
        for item_id in sorted(drawn):
            made = drawn[item_id][1]
            row = made if item_id in perturbed else _clean_row(made, clean[item_id])
            yield {**row, "mix": "mixed_types", "share": share}


TEXT_COLUMNS = {
    "caption_id": "caption_id",
    "text_perturbation": "perturbation",
    "text_severity": "severity",
    "text": "text",
    "changed": "changed",
    "similarity": "similarity",
    "attempts": "attempts",
    "accepted": "accepted",
    "text_backend": "backend",
    "text_recipe_id": "recipe_id",
}
"""Columns of a combined row that say what became of the caption, and what they are called in the captions' rows."""


def multimodal(videos: Sequence[Row], captions: Sequence[Row], combined: Combined) -> Iterator[Row]:
    """Each caption with its video, both perturbed, for every combination (MSRVTT-P, Sec. 4, Fig. 4).

    `videos` are the rows of a `videos` manifest, `captions` those of the same suite's perturbed captions. Combinations
    of which one part was not made are left out; a video that was quarantined stays a quarantined row.
    """
    by_item: dict[str, list[Row]] = defaultdict(list)
    for row in videos:
        if row["perturbation"] in combined.video and row["severity"] == combined.severity:
            by_item[row["item_id"]].append(row)
    for caption in captions:
        if caption["perturbation"] in combined.text:
            said = {name: caption[column] for name, column in TEXT_COLUMNS.items()}
            for row in by_item[caption["item_id"]]:
                yield {**row, **said}


def _clean_row(like: Row, source: Row) -> Row:
    """A clean clip as a row among perturbed ones: severity 0."""
    shared = ("dataset", "item_id", "suite", "seed", "source_path", "source_sha256", "start_s", "end_s")
    about = (
        "codec",
        "pix_fmt",
        "width",
        "height",
        "fps",
        "frame_count",
        "duration_s",
        "bytes",
        "sha256",
        "frames_sha256",
    )
    return {
        **{name: like[name] for name in shared},
        **{name: source[name] for name in about},
        "severity": 0,
        "path": source["path"],
        "storage": CLEAN,
        "stored_frames": source["frame_count"],
        "source_frame_count": source["frame_count"],
        "status": source["status"],
    }
