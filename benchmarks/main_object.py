"""The offline main-object detector against boxes drawn by hand, and against a plain central box.

    python benchmarks/main_object.py FOLDER

FOLDER holds the clips of `tests/main_objects.csv`, at any depth; they are known by their SHA-256. Per clip and for all:
the share of labelled frames whose box overlaps a label with an intersection over union of at least .3, the median
overlap, the median area of the boxes in frames, what the boxes rest on, and CPU seconds.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from perturbations.analysis import saliency
from perturbations.media import decoding, probing
from perturbations.media.clip import MediaClip

LABELS = Path(__file__).parents[1] / "tests" / "main_objects.csv"
CENTRE = (0.25, 0.2, 0.75, 0.8)
ENOUGH = 0.3

Box = tuple[float, float, float, float]
"""x0, y0, x1, y1 in parts of the frame."""


@dataclass
class Score:
    """Overlaps with the nearest label in every labelled frame, and areas of the boxes in all frames."""

    overlaps: list[float] = field(default_factory=list)
    areas: list[float] = field(default_factory=list)

    def add(self, box: Box, labels: Sequence[Box]) -> None:
        self.areas.append((box[2] - box[0]) * (box[3] - box[1]))
        if labels:
            self.overlaps.append(max(overlap(box, label) for label in labels))

    @property
    def share(self) -> float:
        return float(np.mean(np.array(self.overlaps) >= ENOUGH))

    def __str__(self) -> str:
        return f"{self.share:6.1%} {np.median(self.overlaps):6.2f} {np.median(self.areas):6.1%}"


def overlap(first: Box, second: Box) -> float:
    """Intersection over union."""
    across = max(0.0, min(first[2], second[2]) - max(first[0], second[0]))
    down = max(0.0, min(first[3], second[3]) - max(first[1], second[1]))
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (first, second)]
    return across * down / (sum(areas) - across * down)


def labels_by_clip() -> dict[str, dict[int, list[Box]]]:
    """SHA-256 of a clip -> labelled frame -> acceptable boxes, none in a frame that shows no object."""
    labels: dict[str, dict[int, list[Box]]] = defaultdict(lambda: defaultdict(list))
    with LABELS.open(newline="") as stream:
        for row in csv.DictReader(stream):
            boxes = labels[row["sha256"]][int(row["frame"])]
            if row["x0"]:
                boxes.append((float(row["x0"]), float(row["y0"]), float(row["x1"]), float(row["y1"])))
    return labels


def detected(path: Path, positions: Sequence[int]) -> tuple[list[Box], list[str], float]:
    """A clip's boxes at these frames, what they rest on, and the CPU seconds of the search."""
    frames = [saliency.shrunk(frame.image) for frame in decoding.decode(MediaClip(path))]
    near = {place: frames[place] for place in saliency.neighbourhood(positions, len(frames))}
    begin = time.process_time()
    seen = [saliency.sighting(near, position, (1, 1)) for position in positions]
    return [frame.box for frame in seen], [frame.source for frame in seen], time.process_time() - begin


def scores(folder: Path, every: int = 1) -> dict[str, tuple[Score, Score, Mapping[str, int], float]]:
    """Clip -> the detector's score, the central box's, what the boxes rest on, and CPU seconds.

    Of the labelled frames, only every `every`-th is analysed.
    """
    labels = labels_by_clip()
    results = {}
    for path in sorted(path for path in folder.rglob("*") if path.suffix in (".mp4", ".mkv")):
        labelled = labels.get(probing.sha256(path))
        if labelled is None or path.name in results:
            continue
        positions = list(labelled)[::every]
        boxes, sources, seconds = detected(path, positions)
        detector, centre = Score(), Score()
        for box, position in zip(boxes, positions, strict=True):
            detector.add(box, labelled[position])
            centre.add(CENTRE, labelled[position])
        results[path.name] = detector, centre, Counter(sources), seconds
    return results


def together(parts: Sequence[Score]) -> Score:
    return Score(
        [value for part in parts for value in part.overlaps], [value for part in parts for value in part.areas]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    results = scores(parser.parse_args().folder)
    print(f"{'':24} {'detector':^20}   {'central box':^20}")
    print(f"{'clip':24} " + f"{'>= .3':>6} {'median':>6} {'area':>6}   " * 2 + "CPU s  rests on")
    for name, (detector, centre, sources, seconds) in results.items():
        rests = " ".join(f"{source} {count}" for source, count in sources.items())
        print(f"{name:24} {detector}   {centre}   {seconds:5.2f}  {rests}")
    detectors, centres = ([row[which] for row in results.values()] for which in (0, 1))
    seconds = float(np.mean([row[3] for row in results.values()]))
    print(f"{'all':24} {together(detectors)}   {together(centres)}   {seconds:5.2f}")


if __name__ == "__main__":
    main()
