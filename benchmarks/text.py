"""Captions: speed, share changed, distance from the original, and what the gate accepts.

    python benchmarks/text.py msrvtt MSRVTT_JSFUSION_test.csv [speed] [distance]
    python benchmarks/text.py youcook2 validation_youcook.csv distance

speed     captions per CPU second (children included), share of captions changed and, where gated, accepted;
          similarities are shared, as in a job
distance  of MSRVTT-P's perturbations: the share changed, corpus BLEU-4 (the originals are the references) and mean
          METEOR (the perturbed captions are the references and the originals the hypotheses: only so do the paper's
          figures come out); of msrvtt in docs/measurements/captions.csv, where rows of other versions are replaced
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is imported

import argparse
import csv
import resource
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from perturbations.corpus.captions.distances import bleu4, meteor
from perturbations.corpus.captions.fidelity_gate import Similarities
from perturbations.corpus.captions.pipeline import perturb_captions
from perturbations.corpus.plan import caption_recipes
from perturbations.manifest.rows import CaptionRow
from perturbations.models import role_registry as models
from perturbations.suites import suite_registry

Captions = Sequence[CaptionRow]

TABLE = Path(__file__).parents[1] / "docs" / "measurements" / "captions.csv"
COLUMNS = ("perturbation", "category", "version", "backend", "changed", "bleu4", "meteor")


def read(dataset: str, path: str) -> Captions:
    with open(path, encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if dataset == "msrvtt":
        return [
            CaptionRow(dataset="d", caption_id=row["key"], item_id=row["video_id"], text=row["sentence"])
            for row in rows
        ]
    return [
        CaptionRow(dataset="d", caption_id=str(at), item_id=row["video_id"], text=row["text"])
        for at, row in enumerate(rows)
    ]


def cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def speed(dataset: str, captions: Captions) -> None:
    judge = Similarities(models.load("similarity", "offline"))
    for suite in (name for name in suite_registry.suites() if suite_registry.perturbations(name, "text")):
        print(f"\n{'perturbation':38} {'s':>2} {'captions/s':>10} {'changed':>8} {'accepted':>8} {'tries':>6}  backend")
        total = 0.0
        for entry in suite_registry.perturbations(suite, "text"):
            models.load.cache_clear()  # with what they remember of these captions
            list(perturb_captions(caption_recipes.make(entry, 1), dataset, captions[:1]))  # loads what it needs
            for severity in entry.severities:
                start = cpu_seconds()
                results = list(perturb_captions(caption_recipes.make(entry, severity), dataset, captions, judge))
                seconds = cpu_seconds() - start
                total += seconds
                numbers = [(result.changed, result.accepted, result.attempts) for result in results]
                changed, accepted, attempts = np.mean(numbers, axis=0)
                numbers_of = f"{len(results) / seconds:>10.0f} {changed:8.1%} {accepted:8.1%} {attempts:>6.1f}"
                print(f"{entry.key:38} {severity:>2} {numbers_of}  {results[0].backend}", flush=True)
        print(f"{suite}: {total / 60:.1f} CPU minutes")


def distance(dataset: str, captions: Captions) -> None:
    with TABLE.open(encoding="utf-8", newline="") as file:
        known = {(row[0], row[2]): tuple(row) for row in csv.reader(file)}
    rows = []
    for entry in suite_registry.perturbations("msrvtt_p", "text"):
        if dataset == "youcook2" and entry.category == "Bias":
            continue
        if dataset == "msrvtt" and (entry.name, str(entry.version)) in known:
            rows.append(known[entry.name, str(entry.version)])
            continue
        results = list(perturb_captions(caption_recipes.make(entry, 1), dataset, captions))
        pairs = [(caption.text, result.text) for caption, result in zip(captions, results, strict=True)]
        changed = np.mean([result.changed for result in results])
        backend = results[0].backend or "rules"
        numbers = (f"{changed:.3f}", f"{bleu4(pairs) or 0.0:.3f}", f"{meteor(pairs) or 0.0:.3f}")
        rows.append((entry.name, entry.category, str(entry.version), backend, *numbers))
        print(*rows[-1], flush=True)
    if dataset == "msrvtt":
        with TABLE.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows])


SECTIONS = {"speed": speed, "distance": distance}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", choices=("msrvtt", "youcook2"))
    parser.add_argument("captions")
    parser.add_argument("sections", nargs="*", metavar="section", help=f"of {', '.join(SECTIONS)}; default: all")
    options = parser.parse_args()
    captions = read(options.dataset, options.captions)
    for name in options.sections or SECTIONS:
        SECTIONS[name](options.dataset, captions)


if __name__ == "__main__":
    main()
