"""Captions: speed, share changed, distance from the original beside the paper's, and where the gate's threshold lies.

    python benchmarks/text.py msrvtt ../shared/data/msrvtt/MSRVTT_JSFUSION_test.csv [speed] [distance] [threshold]
    python benchmarks/text.py youcook2 ../shared/data/youcook2/validation_youcook.csv distance

speed      captions per CPU second (children included), share of captions changed and, where gated, accepted
distance   corpus BLEU-4 and mean METEOR, averaged over a category's perturbations, beside Schiappa et al., Tab. 6
threshold  how many rewrites that keep the meaning, and how many that change it, reach a cosine of MiniLM embeddings
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is imported

import argparse
import csv
import resource
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from perturbations.captions.distance import bleu4, meteor
from perturbations.captions.pipeline import perturb_captions
from perturbations.models import registry as models
from perturbations.plan.listed import ListedCaption
from perturbations.suites import registry

Captions = Sequence[ListedCaption]

# Schiappa et al., Tab. 6: BLEU-4, METEOR.
PAPER = {
    "msrvtt": {
        "AddText": (0.57, 0.76),
        "Bias": (0.88, 0.94),
        "ChangeChar": (0.60, 0.79),
        "DropText": (0.29, 0.53),
        "Positional": (0.64, 0.78),
        "SwapText": (0.68, 0.87),
        "TextStyle": (0.56, 0.80),
    },
    "youcook2": {
        "AddText": (0.64, 0.76),
        "ChangeChar": (0.58, 0.78),
        "DropText": (0.34, 0.52),
        "Positional": (0.62, 0.76),
        "SwapText": (0.66, 0.85),
        "TextStyle": (0.65, 0.81),
    },
}
KEEP_MEANING = ("casual_to_formal", "formal_to_casual", "active_to_passive", "tense")
CHANGE_MEANING = ("gender_swap", "reverse_neg", "multi_pos_swap_NN", "mlm_suggestion")
THRESHOLDS = (0.75, 0.8, 0.85, 0.9, 0.95)


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
    print(f"\n{'perturbation':38} {'s':>2} {'captions/s':>10} {'changed':>8} {'accepted':>8} {'tries':>6}  backend")
    total = 0.0
    for entry in registry.perturbations(kind="text"):
        models.load.cache_clear()  # with what they remember of these captions
        list(perturb_captions(captions[:1], entry.key, 1, seed=0, dataset=dataset))  # loads what it needs
        for severity in entry.severities:
            start = cpu_seconds()
            results = list(perturb_captions(captions, entry.key, severity, seed=0, dataset=dataset))
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
    print(f"all of it: {total / 60:.1f} CPU minutes")


def distance(dataset: str, captions: Captions) -> None:
    scores: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for entry in registry.perturbations("msrvtt_p", "text"):
        if entry.level not in PAPER[dataset]:
            continue
        results = perturb_captions(captions, entry.key, 1, seed=0, dataset=dataset)
        pairs = [(caption.text, result.text) for caption, result in zip(captions, results, strict=True)]
        pair = bleu4(pairs) or 0.0, meteor(pairs) or 0.0
        scores[entry.level].append(pair)
        print(f"  {entry.name:28} {pair[0]:.3f} {pair[1]:.3f}", flush=True)
    print(f"\n{dataset:12} {'BLEU-4':>8} {'paper':>6} {'METEOR':>8} {'paper':>6}")
    for level, all_found in scores.items():
        (bleu, metric), (paper_bleu, paper_meteor) = np.mean(all_found, axis=0), PAPER[dataset][level]
        print(f"{level:12} {bleu:8.3f} {paper_bleu:6.2f} {metric:8.3f} {paper_meteor:6.2f}")


def threshold(dataset: str, captions: Captions) -> None:
    encoder = models.load("similarity", "offline")
    clean = encoder.embed([caption.text for caption in captions])
    print(f"\n{'share at least as similar as':38}" + "".join(f"{value:>7}" for value in THRESHOLDS))
    for title, names in (("keeps the meaning", KEEP_MEANING), ("changes it", CHANGE_MEANING)):
        for name in names:
            results = list(perturb_captions(captions, f"msrvtt_p/{name}", 1, seed=0, dataset=dataset))
            cosine = (clean * encoder.embed([result.text for result in results])).sum(axis=1)
            cosine = cosine[[result.changed for result in results]]
            print(f"{title:18} {name:19}" + "".join(f"{np.mean(cosine >= value):7.0%}" for value in THRESHOLDS))


SECTIONS = {"speed": speed, "distance": distance, "threshold": threshold}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", choices=PAPER)
    parser.add_argument("captions")
    parser.add_argument("sections", nargs="*", metavar="section", help=f"of {', '.join(SECTIONS)}; default: all")
    options = parser.parse_args()
    captions = read(options.dataset, options.captions)
    for name in options.sections or SECTIONS:
        SECTIONS[name](options.dataset, captions)


if __name__ == "__main__":
    main()
