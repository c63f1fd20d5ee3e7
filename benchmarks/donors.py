"""The offline clip embedding against donors chosen by eye.

    python benchmarks/donors.py FOLDER

`donors.csv` names twenty scenes of clips in FOLDER (at any depth): the file, the first frame, the end, the part of the
width (the rest of one clip shows plots), and the scenes that look acceptable as its nearest. Printed: each scene's
nearest by the embedding, among all the others and among those of other files, and what chance would get.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from perturbations.analysis import descriptor
from perturbations.media import decoding
from perturbations.media.clip import Clip, uniform_indices

Scene = Mapping[str, str]


def described(scene: Scene, folder: Path) -> npt.NDArray[np.float32]:
    path = next(folder.rglob(scene["file"]))
    frames = [frame.image for frame in decoding.decode(Clip(path))][int(scene["start"]) : int(scene["end"])]
    width = round(frames[0].shape[1] * float(scene["width"]))
    return descriptor.describe([frames[place][:, :width] for place in uniform_indices(12, len(frames))])


def judge(scenes: list[Scene], similar: npt.NDArray[np.float32], allowed: npt.NDArray[np.bool_]) -> None:
    names = [scene["name"] for scene in scenes]
    right, chance, judged = 0, 0.0, 0
    for scene, row, others in zip(scenes, similar, allowed, strict=True):
        candidates = {name for name, other in zip(names, others, strict=True) if other}
        acceptable = candidates & set(scene["acceptable"].split())
        if not acceptable:
            continue
        best = int(np.where(others, row, -np.inf).argmax())
        fits = names[best] in acceptable
        right, chance, judged = right + fits, chance + len(acceptable) / len(candidates), judged + 1
        print(f"  {scene['name']:16} {names[best]:16} {row[best]:5.2f}  {'acceptable' if fits else '-'}")
    print(f"  {right} of {judged} acceptable; by chance {chance:.1f}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    with (Path(__file__).parent / "donors.csv").open(newline="") as stream:
        scenes: list[Scene] = list(csv.DictReader(stream))
    vectors = np.stack([described(scene, folder) for scene in scenes])
    files = np.array([scene["file"] for scene in scenes])
    print("among all scenes")
    judge(scenes, vectors @ vectors.T, ~np.eye(len(scenes), dtype=bool))
    print("among scenes of other files")
    judge(scenes, vectors @ vectors.T, files[:, None] != files)


if __name__ == "__main__":
    main()
