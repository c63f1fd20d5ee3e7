"""The manifest of perturbed captions."""

from __future__ import annotations

from dataclasses import dataclass

from perturbations.manifest.kind import ManifestFile, RowKind


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRow:
    """A caption under one perturbation at one severity.

    `language` is the dataset's. `effective_change` is a change that remains after lower-casing and stripping
    punctuation. `unchanged` is why the text is the caption itself. `similarity` is the cosine of both texts' sentence
    embeddings, measured where the meaning should stay. `fluency_change` is the text's mean log10 probability per word
    by a bigram model, less the original's (`perturbations.text.fluency`).
    """

    dataset: str
    caption_id: str
    item_id: str
    suite: str
    perturbation: str
    severity: int
    level: str
    variant: str
    params: str
    backend: str
    seed: int
    language: str
    source_text: str
    text: str
    changed: bool
    effective_change: bool
    unchanged: str | None = None
    similarity: float | None = None
    fluency_change: float | None = None
    attempts: int
    accepted: bool
    recipe: str
    recipe_id: str


_FILE = ManifestFile(
    path="manifests/{dataset}/{suite}/captions.parquet",
    exported=True,
)
TEXTS = KIND = RowKind("texts", TextRow, ("perturbation", "severity", "caption_id"), files={"texts": _FILE})
