"""Whether an instruction changes the action or the object: the paper's examples, and 102 instructions that one reader
labelled."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path

import pytest

from perturbations.composed import official
from perturbations.composed.labels import kind_of

EXAMPLES = {
    "have him fishing": "temporal",
    "turn it red on a watercolor stain.": "object",
    "make the sax player into a drummer": "object",
    "the girl is crying": "temporal",
    "change the meat to prawns": "object",
    "remove the man.": "object",
    "dip it into the paint.": "temporal",
    "cut the carrot instead.": "object",
    "insert it into the roof.": "temporal",
    "pick it up instead.": "temporal",
}


@pytest.mark.parametrize("instruction", EXAMPLES)
def test_the_papers_examples(instruction: str) -> None:
    assert kind_of(instruction) == EXAMPLES[instruction]


@pytest.mark.parametrize(
    ("instruction", "kind"),
    [
        ("Walk on the grass instead.", "temporal"),
        ("Turn to the opposite side.", "temporal"),
        ("Move it with the other hand.", "temporal"),
        ("Switch to squats.", "temporal"),
        ("Switch to a screwdriver.", "object"),
        ("Replace it with nylon.", "object"),
        ("PICK UP  the kettle INSTEAD", "object"),
        ("", "temporal"),
        ("?!", "temporal"),
        ("拿起它", "temporal"),
    ],
)
def test_what_the_rule_says(instruction: str, kind: str) -> None:
    assert kind_of(instruction) == kind


def test_the_papers_totals_and_a_readers_labels(reference: Path) -> None:
    folder = reference / "data" / "egocvr"
    queries = official.read(folder / official.ANNOTATIONS).queries
    totals = Counter(kind_of(query.instruction) for query in queries)
    assert abs(totals["temporal"] - 1811) <= 70
    assert sum(totals.values()) == 2295
    with (folder / "labels_temporal.csv").open(newline="") as file:
        clear = [row for row in csv.DictReader(file) if row["label"] != "ambiguous"]
    assert len(clear) == 102
    assert sum(kind_of(row["instruction"]) == row["label"] for row in clear) >= 0.9 * len(clear)
    for example in json.loads((folder / "prompts.json").read_text())["temporal"]["examples"]:
        assert kind_of(example["instruction"]) == {"yes": "temporal", "no": "object"}[example["answer"]]
