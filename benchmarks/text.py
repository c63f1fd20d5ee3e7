"""Captions: speed, share changed, distance from the original, and what the gate accepts.

    python benchmarks/text.py msrvtt MSRVTT_JSFUSION_test.csv [speed] [distance] [acceptance]
    python benchmarks/text.py youcook2 validation_youcook.csv distance

speed      captions per CPU second (children included), share of captions changed and, where gated, accepted;
           similarities are shared, as in a job
distance   of MSRVTT-P's perturbations: the share changed, corpus BLEU-4 (the originals are the references) and mean
           METEOR (the perturbed captions are the references and the originals the hypotheses: only so do the paper's
           figures come out); of msrvtt in docs/measurements/captions.csv, where rows of other versions are replaced
acceptance of the captions that each perturbation changes, the share whose first draw is as similar as a threshold
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is imported

import argparse
import csv
import resource
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from perturbations.base import rng
from perturbations.captions.distance import bleu4, meteor
from perturbations.captions.pipeline import perturb_captions
from perturbations.captions.similarities import Similarities
from perturbations.models import registry as models
from perturbations.plan.listed import ListedCaption
from perturbations.suites import registry

Captions = Sequence[ListedCaption]

TABLE = Path(__file__).parents[1] / "docs" / "measurements" / "captions.csv"
COLUMNS = ("perturbation", "category", "version", "backend", "changed", "bleu4", "meteor")
THRESHOLDS = (0.8, 0.85, 0.9)


def read(dataset: str, path: str) -> Captions:
    with open(path, encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if dataset == "msrvtt":
        return [ListedCaption(caption_id=row["key"], item_id=row["video_id"], text=row["sentence"]) for row in rows]
    return [ListedCaption(caption_id=str(at), item_id=row["video_id"], text=row["text"]) for at, row in enumerate(rows)]


def cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def speed(dataset: str, captions: Captions) -> None:
    judge = Similarities(models.load("similarity", "offline"))
    for suite in registry.suites():
        total = speed_of(suite, dataset, captions, judge)
        if total:
            print(f"{suite}: {total / 60:.1f} CPU minutes")


def speed_of(suite: str, dataset: str, captions: Captions, judge: Similarities) -> float:
    print(f"\n{'perturbation':38} {'s':>2} {'captions/s':>10} {'changed':>8} {'accepted':>8} {'tries':>6}  backend")
    total = 0.0
    for entry in registry.perturbations(suite, "text"):
        models.load.cache_clear()  # with what they remember of these captions
        list(perturb_captions(captions[:1], entry.key, 1, seed=0, dataset=dataset))  # loads what it needs
        for severity in entry.severities:
            start = cpu_seconds()
            results = list(perturb_captions(captions, entry.key, severity, seed=0, dataset=dataset, judge=judge))
            seconds = cpu_seconds() - start
            total += seconds
            changed = np.mean([result.changed for result in results])
            attempts = np.mean([result.attempts for result in results])
            passed = np.mean([result.accepted for result in results])
            accepted = f"{passed:8.1%}" if entry.gated else f"{'':8}"
            print(
                f"{entry.key:38} {severity:>2} {len(results) / seconds:>10.0f} {changed:8.1%} {accepted} "
                f"{attempts:>6.1f}  {results[0].backend}",
                flush=True,
            )
    return total


def distance(dataset: str, captions: Captions) -> None:
    with TABLE.open(encoding="utf-8", newline="") as file:
        known = {(row[0], row[2]): tuple(row) for row in csv.reader(file)}
    rows = []
    for entry in registry.perturbations("msrvtt_p", "text"):
        if dataset == "youcook2" and entry.category == "Bias":
            continue
        if dataset == "msrvtt" and (entry.name, str(entry.version)) in known:
            rows.append(known[entry.name, str(entry.version)])
            continue
        results = list(perturb_captions(captions, entry.key, 1, seed=0, dataset=dataset))
        pairs = [(caption.text, result.text) for caption, result in zip(captions, results, strict=True)]
        changed = np.mean([result.changed for result in results])
        backend = results[0].backend or "rules"
        numbers = (f"{changed:.3f}", f"{bleu4(pairs) or 0.0:.3f}", f"{meteor(pairs) or 0.0:.3f}")
        rows.append((entry.name, entry.category, str(entry.version), backend, *numbers))
        print(*rows[-1], flush=True)
    if dataset == "msrvtt":
        with TABLE.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows])


def acceptance(dataset: str, captions: Captions) -> None:
    encoder = models.load("similarity", "offline")
    clean = encoder.embed([caption.text for caption in captions])
    titles = "".join(f"{f'>= {value:.2f}':>9}" for value in THRESHOLDS)
    print(f"\n{'first draws of changed captions':38} {'s':>2} {'changed':>8} {'cosine':>7}{titles}")
    for entry in registry.perturbations(kind="text"):
        players = {role: models.load(role, "offline") for role in entry.roles}
        if "translator" in players:
            players["translator"].prepare([caption.text for caption in captions])  # all at once, not one by one
        for severity in sorted({1, len(entry.severities) // 2 + 1, len(entry.severities)}):
            texts = [first_draw(entry, severity, players, dataset, caption) for caption in captions]
            changed = [text != caption.text for text, caption in zip(texts, captions, strict=True)]
            cosine = (clean * encoder.embed(texts)).sum(axis=1).round(4)[changed]
            shares = "".join(f"{np.mean(cosine >= value):9.1%}" for value in THRESHOLDS)
            print(f"{entry.key:38} {severity:>2} {np.mean(changed):8.1%} {cosine.mean():7.3f}{shares}", flush=True)


def first_draw(
    entry: registry.Perturbation, severity: int, players: Mapping[str, object], dataset: str, caption: ListedCaption
) -> str:
    generator = rng.generator(0, dataset, caption.caption_id, entry.key)
    return str(entry.kernel(caption.text, generator, **entry.parameters(severity), **players))


SECTIONS = {"speed": speed, "distance": distance, "acceptance": acceptance}


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
