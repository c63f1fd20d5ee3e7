"""How improbable captions are to a causal language model (Schiappa et al., App. A.3, whose model is GPT-3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pandas as pd

from perturbations.manifest.rows import TextRow

OUTLIER = 500.0
"""The perplexity above which the paper leaves a caption out of its second mean."""


def of_rows(rows: Iterable[TextRow], perplexity: Callable[[str], float | None]) -> pd.DataFrame:
    """The perplexities of manifests of perturbed captions; each different text is measured once.

    There is a row for the clean captions ("original", severity 0), and a row for each perturbation and severity: how
    many `captions` have a perplexity, its `mean`, the share `above` `OUTLIER`, and the mean of the others,
    `mean_below`.
    """
    names = ["perturbation", "severity", "caption_id", "source_text", "text"]
    perturbed = pd.DataFrame([[getattr(row, name) for name in names] for row in rows], columns=names)
    originals = perturbed.drop_duplicates("caption_id", keep="last")
    originals = originals.assign(perturbation="original", severity=0, text=originals["source_text"])
    every = pd.concat([originals, perturbed])
    known = {text: perplexity(text) for text in every["text"].unique()}
    every["value"] = every["text"].map(known).astype(float)
    every["above"] = every["value"] > OUTLIER
    every["below"] = every["value"].mask(every["above"])
    of_scenarios = every.dropna(subset="value").groupby(["perturbation", "severity"], sort=False, as_index=False)
    columns = {"captions": ("value", "size"), "mean": ("value", "mean"), "above": ("above", "mean")}
    table: pd.DataFrame = of_scenarios.agg(**columns, mean_below=("below", "mean"))
    return table
