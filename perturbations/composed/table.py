"""Scores of composed retrieval as a table: aligned text for people, CSV for programs."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

from perturbations.composed.scores import Score, Setting
from perturbations.retrieval.composed import GLOBAL_KS, LOCAL_KS

_KS = sorted({*GLOBAL_KS, *LOCAL_KS})


def as_text(scores: Sequence[Score]) -> str:
    """One block per gallery: its size and chance, then one line per setting with R@k and its 95 % interval."""
    blocks: dict[tuple[str, bool], list[Score]] = {}
    for score in scores:
        blocks.setdefault((score.gallery, score.deduplicate), []).append(score)
    return "\n".join(_block(members) for members in blocks.values())


def _block(scores: Sequence[Score]) -> str:
    first = scores[0]
    ks = list(first.recalls)
    names = [_name(score.setting) for score in scores]
    wide = max(map(len, ("chance", *names)))
    cut = ", deduplicated" if first.deduplicate else ""
    head = (
        f"{first.gallery}{cut}: {first.queries:,} queries, {first.skipped} left out, {first.unanswerable} without a "
        f"target; {first.mean_size:,.2f} clips on average, at most {first.max_size:,}"
    )
    chance = "".join(f"  {first.recalls[k][3]:5.2f} {'':13}" for k in ks)
    lines = [
        head,
        f"  {'':{wide}}" + "".join(f"  {f'R@{k}':>5} {'(95 %)':13}" for k in ks),
        f"  {'chance':{wide}}{chance}",
    ]
    for name, score in zip(names, scores, strict=True):
        cells = (f"  {value:5.2f} {f'({low:.1f}-{high:.1f})':13}" for value, low, high, _ in score.recalls.values())
        lines.append(f"  {name:{wide}}{''.join(cells)}")
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _name(setting: Setting) -> str:
    average = f" ({setting.average})" if setting.average else ""
    words = f", {setting.words}" if setting.words else ""
    if setting.shortlist_model:
        first = f"{setting.shortlist_model} {setting.shortlist_strategy}{average}"
        return f"{first} -> {setting.model} text{words}"
    return f"{setting.model} {setting.strategy}{average}{words}"


def as_csv(scores: Sequence[Score], facts: Mapping[str, str]) -> str:
    """One line per score; `facts` are columns that all lines share. A k that a gallery is not asked is left empty."""
    content = io.StringIO()
    settings = ["model", "strategy", "words", "average", "shortlist_model", "shortlist_strategy"]
    counts = ["gallery", "deduplicate", "queries", "skipped", "unanswerable", "mean_size", "max_size"]
    table = csv.writer(content, lineterminator="\n")
    table.writerow(
        [*settings, *facts, *counts, *(f"r{k}{end}" for k in _KS for end in ("", "_low", "_high", "_chance"))]
    )
    for score in scores:
        held = [getattr(score.setting, name) for name in settings]
        recalls = [value for k in _KS for value in score.recalls.get(k, ("",) * 4)]
        table.writerow([*held, *facts.values(), *(getattr(score, name) for name in counts), *recalls])
    return content.getvalue()
