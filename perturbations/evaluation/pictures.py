"""Data for a report's pictures of each run of an evaluation: a JSON file beside the manifests of results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter

from perturbations.base import jsontext, storage
from perturbations.base.errors import ManifestError
from perturbations.evaluation.rows import ScenarioColumns


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture(ScenarioColumns):
    """How often each gallery item of a run is among the 15 best of a query, and similarities of the first queries.

    `losses` are those of its steps, in their order; none of a method that does not learn.
    """

    occurrence: tuple[float, ...]
    heatmap: tuple[tuple[float, ...], ...]
    losses: tuple[float, ...] = ()


_PICTURES = TypeAdapter(list[Picture])


def write(path: Path, pictures: Sequence[Picture]) -> None:
    """Write the pictures of a job."""
    storage.write_text(path, json.dumps([asdict(picture) for picture in pictures]))


def read(path: Path) -> list[Picture]:
    """The pictures of a job. Raises `ManifestError` when the file is missing or damaged."""
    try:
        return _PICTURES.validate_python(jsontext.parse(path.read_bytes()))
    except (OSError, ValueError) as error:
        raise ManifestError(f"{path} holds no pictures of an evaluation: {error}") from error
