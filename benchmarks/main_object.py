"""The offline main-object detector against boxes drawn by hand, and against a plain central box.

    python benchmarks/main_object.py FOLDER

FOLDER holds the clips of `tests/golden/main_objects.csv`, at any depth; they are known by their SHA-256. Per clip and
for all:
the share of labelled frames whose box overlaps a label with an intersection over union of at least .3, the median
overlap, the median area of the boxes in frames, what the boxes rest on, and CPU seconds.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

from perturbations.media import decoding, probing
from perturbations.media.clip import MediaClip
from perturbations.models.analysis import saliency

LABELS = Path(__file__).parents[1] / "tests" / "golden" / "main_objects.csv"
CORNERS = ["x0", "y0", "x1", "y1"]
CENTRE = (0.25, 0.2, 0.75, 0.8)
ENOUGH = 0.3


def overlap(box: tuple[float, ...], labels: np.ndarray) -> float:
    """The largest intersection over union with a label; NaN in a frame that shows no object."""
    if not len(labels):
        return np.nan
    inner = np.minimum(box[2:], labels[:, 2:]) - np.maximum(box[:2], labels[:, :2])
    common = inner.clip(min=0).prod(axis=1)
    areas = np.subtract(box[2:], box[:2]).prod() + (labels[:, 2:] - labels[:, :2]).prod(axis=1)
    return float((common / (areas - common)).max())


def boxes(folder: Path, every: int = 1) -> pd.DataFrame:
    """A row per box: its clip, whose it is (`detector` or `centre`), overlap, area, source, CPU seconds of its clip.

    Of the labelled frames, only every `every`-th is analysed.
    """
    labels = pd.read_csv(LABELS)
    rows: list[dict[str, object]] = []
    for path in sorted(path for path in folder.rglob("*") if path.suffix in (".mp4", ".mkv")):
        own = labels[labels["sha256"] == probing.sha256(path)]
        if own.empty or path.name in {row["clip"] for row in rows}:
            continue
        positions = [int(position) for position in own["frame"].unique()[::every]]
        frames = [saliency.shrunk(frame.image) for frame in decoding.decode(MediaClip(path))]
        near = {place: frames[place] for place in saliency.neighbourhood(positions, len(frames))}
        begin = time.process_time()
        seen = [saliency.sighting(near, position, (1, 1)) for position in positions]
        seconds = time.process_time() - begin
        for position, sighting in zip(positions, seen, strict=True):
            drawn = own.loc[own["frame"] == position, CORNERS].dropna().to_numpy()
            for whose, box in (("detector", sighting.box), ("centre", CENTRE)):
                area = (box[2] - box[0]) * (box[3] - box[1])
                measured = {"overlap": overlap(box, drawn), "area": area, "source": sighting.source, "CPU s": seconds}
                rows.append({"clip": path.name, "whose": whose, **measured})
    return pd.DataFrame(rows)


def share(overlaps: pd.Series) -> float:
    """The share of labelled frames whose box is near enough."""
    return float((overlaps.dropna() >= ENOUGH).mean())


def main() -> None:
    table = boxes(Path(sys.argv[1]))
    everything = pd.concat([table, table.assign(clip="all")])
    summary = everything.groupby(["clip", "whose"]).agg({"overlap": [share, "median"], "area": "median"})
    print(summary.unstack("whose").round(3).to_string())
    detected = table[table["whose"] == "detector"]
    print(
        detected.groupby("clip").agg({"source": lambda names: dict(names.value_counts()), "CPU s": "first"}).to_string()
    )


if __name__ == "__main__":
    main()
