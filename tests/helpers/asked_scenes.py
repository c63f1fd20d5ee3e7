"""Scenes of the demo as a folder of videos, with a table of questions whose answers are known."""

import csv
from pathlib import Path

from perturbations.demo import film
from perturbations.demo.train_encoder import draw

KINDS = {
    "colour": ("What colour is the object?", 1),
    "shape": ("What is the object?", 2),
    "motion": ("How does the object move?", 3),
}


def scene(index: int) -> tuple[str, ...]:
    """Size, colour, object, motion and place of a scene."""
    size, colour, motion, place, thing = film.scene(index)
    return size, colour, thing, motion, place


def questions(scenes: int, options: int = 4) -> list[dict[str, str]]:
    """Three questions per scene; the right option is at a place that differs from question to question."""
    rows = []
    for index in range(scenes):
        for number, (kind, (text, part)) in enumerate(KINDS.items()):
            right = scene(index)[part]
            others = sorted({scene(other)[part] for other in range(64)} - {right})
            place = (index + number) % options
            first = (3 * index) % len(others)
            chosen = [others[(first + step) % len(others)] for step in range(options - 1)]
            chosen.insert(place, right)
            rows.append(
                {
                    "question_id": f"q{index:03d}-{kind}",
                    "video": f"{film.item_id(index)}.mp4",
                    "question": text,
                    **dict(zip("abcdefgh", chosen, strict=False)),
                    "answer": "ABCDEFGH"[place],
                    "category": kind,
                }
            )
    return rows


def write(folder: Path, scenes: int, *, drawn: bool = True) -> tuple[Path, Path]:
    """A folder of videos and a CSV of questions; returns both."""
    videos, table = folder / "clips", folder / "questions.csv"
    videos.mkdir(parents=True, exist_ok=True)
    for index in range(scenes if drawn else 0):
        name = film.item_id(index)
        draw(name, videos / f"{name}.mp4")
    rows = questions(scenes)
    with table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return videos, table
