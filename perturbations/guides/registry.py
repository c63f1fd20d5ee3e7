"""All guides and analyses, and their look-up. Their files are loaded when one of them is asked for: a job needs one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Any

from pydantic import BeforeValidator, SerializeAsAny, ValidationError

from perturbations.base.errors import ConfigError, ManifestError, RegistryError
from perturbations.base.records import Record, parse_record
from perturbations.guides.guide import AnalysisRecipe, GuideRecipe

GUIDES = {
    "clock": "timing",
    "donor": "donor",
    "frame_rate": "timing",
    "frost": "frost",
    "main_object": "main_object",
    "motion": "motion",
    "random_donor": "donor",
    "style": "style",
}
"""The guides by name, and the file whose `GUIDES` has it."""

ANALYSES = {
    "embedding": "donor",
    "features": "donor",
    "caption_embedding": "donor",
    "main_object": "main_object",
    "motion": "motion",
}
"""The analyses by name, and the file whose `ANALYSES` has it."""


def get(name: str) -> type[GuideRecipe]:
    """The guide called `name`. Raises `RegistryError` where a perturbation names an unknown guide."""
    if name not in GUIDES:
        raise RegistryError(f"no guide {name!r}; known: {', '.join(GUIDES)}")
    declared: Mapping[str, type[GuideRecipe]] = import_module(f"perturbations.guides.{GUIDES[name]}").GUIDES
    return declared[name]


def analysis(name: str) -> type[AnalysisRecipe]:
    """The analysis called `name`. Raises `ConfigError` where there is none."""
    if name not in ANALYSES:
        raise ConfigError(f"no analysis {name!r}; known: {', '.join(ANALYSES)}")
    declared: Mapping[str, type[AnalysisRecipe]] = import_module(f"perturbations.guides.{ANALYSES[name]}").ANALYSES
    return declared[name]


def takes_frames(name: str | None) -> bool:
    """Whether a perturbation with this guide takes frames of other clips."""
    return name is not None and get(name).takes_frames


def _of_its_kind(value: Any) -> Any:
    """A guide's recipe, from its JSON, in its own type."""
    if not isinstance(value, dict):
        return value
    if (kind := value.get("kind")) not in GUIDES:
        raise ValueError(f"no guide {str(kind)[:60]!r}; known: {', '.join(GUIDES)}")
    try:
        return get(kind).model_validate_json(json.dumps(value))
    except ValidationError as error:
        lines = [f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in error.errors()]
        raise ValueError("; ".join(lines)) from None


AnyGuideRecipe = Annotated[SerializeAsAny[GuideRecipe], BeforeValidator(_of_its_kind)]
"""The type of a recipe's guide, for pydantic."""


class _Named(Record):
    model_config = Record.model_config | {"extra": "ignore"}

    analysis: str


def parse_analysis(text: str) -> AnalysisRecipe:
    """The recipe of an analysis, from a row or a job. Raises `ManifestError`."""
    try:
        name = _Named.model_validate_json(text).analysis
    except ValueError:
        raise ManifestError(f"not an analysis: {text[:60]!r}") from None
    if name not in ANALYSES:
        raise ManifestError(f"not an analysis that there is: {name[:60]!r}; known: {', '.join(ANALYSES)}")
    return parse_record(analysis(name), text, "an analysis")
