"""The section `composed` of `config.yaml`: how composed retrieval is evaluated."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field, field_validator

from perturbations.base.errors import did_you_mean, short
from perturbations.base.settings import AnySeverity, ModelName, Strict, Whole, distinct
from perturbations.composed.gallery_sets import DEFAULT_LOCAL, GalleryName
from perturbations.config.problems import Problem, is_known, not_configured
from perturbations.suites import suite_registry

if TYPE_CHECKING:
    from perturbations.config import sections as configuration

_Half = Literal["text", "visual", "average"]


class Writer(Strict):
    """A causal language model of transformers that writes parts of splits with the prompts of EgoCVR's authors."""

    model: ModelName = Field(description="its name, which was downloaded before, or its folder")
    revision: str | None = Field(None, description="its commit, or the `sha256:...` of a folder's weights")
    dtype: Literal["float32", "bfloat16", "float16"] = Field("float32", description="of its weights")
    captions: Path | None = Field(
        None,
        description="a captioner's captions of the query clips: a CSV of clip_name and caption; the default is the "
        "narrations",
    )
    parts: tuple[Literal["instruction", "kind", "modified_caption"], ...] = Field(
        ("instruction", "kind", "modified_caption"),
        min_length=1,
        description="what it writes: instructions, labels, and the changed captions that the words `tfcvr` need",
    )

    _no_repetition = field_validator("parts")(distinct)


class Composed(Strict):
    """Retrieval by a clip and an instruction: `egocvr`, `composed_<dataset>`. By the models of `evaluation`."""

    galleries: tuple[GalleryName, ...] = Field(
        (DEFAULT_LOCAL, "global_distinct"),
        min_length=1,
        description="the galleries; local_released compares with EgoCVR's paper. Galleries that the "
        "dataset brings are evaluated too",
    )
    source_in_gallery: bool | Literal["both"] | None = Field(
        None,
        description="whether the query's own clip is in galleries, `both`: each; the default is as the dataset's "
        "authors have it: in those of OmniCVR and FineCVR, in no other",
    )
    pre_caption: bool = Field(
        False,
        description="shorten texts as the loaders of CoVR's authors do: lower case, without punctuation, 30 words",
    )
    strategies: tuple[Literal["text", "visual", "average", "two_stage"], ...] = Field(
        ("text", "visual", "average", "two_stage"), min_length=1, description="which half of the query is compared"
    )
    words: tuple[Literal["instruction", "tfcvr", "gt"], ...] = Field(
        ("instruction", "tfcvr"),
        min_length=1,
        description="the query's text: the instruction, the changed caption of its clip, or its target's narration",
    )
    average: tuple[Literal["released", "unit"], ...] = Field(
        ("released", "unit"),
        min_length=1,
        description="released: the clip's feature as it is and the text's of unit length; unit: both of unit length",
    )
    shortlist: Whole = Field(15, ge=1, le=100_000, description="two_stage: how many clips the first stage keeps")
    first_stage: tuple[_Half, ...] = Field(
        ("visual",), min_length=1, description="two_stage: which half of the query makes the shortlist"
    )
    frames: Literal["mean", "middle"] = Field(
        "mean", description="a clip's feature: the mean over evaluation.num_frames frames, or its middle frame's"
    )
    suites: tuple[str, ...] | None = Field(
        None, description="the suites that perturb the query clips; the default is that of `evaluation`"
    )
    text_suites: tuple[str, ...] | None = Field(
        None, description="the suites that perturb the instructions; the default is that of `evaluation`"
    )
    language_model: Writer | None = Field(
        None, description="writes instructions, labels and changed captions; the default is rules, offline"
    )
    severities: tuple[AnySeverity, ...] = Field(
        (5,), min_length=1, description="if a perturbation lacks a severity, the next lower one is used"
    )
    both: tuple[str, ...] = Field(
        (), description="perturbations of instructions, suite/name, also combined with every perturbation of clips"
    )

    _no_repetition = field_validator("*")(distinct)


def problems_of(config: configuration.Config) -> list[Problem]:
    """What composed retrieval asks for that is not configured, or not there."""
    wanted = config.composed
    suites = {"suites": wanted.suites, "text_suites": wanted.text_suites}
    problems = not_configured("composed", suites, config.suites)
    for index, key in enumerate(wanted.both):
        suite, _, name = key.partition("/")
        known = [entry.name for entry in suite_registry.perturbations(suite, "text")] if is_known(suite, config) else []
        if name not in known:
            text = f"{short(key)} is no perturbation of captions of one of `suites`, as suite/name"
            text += did_you_mean(key, (f"{suite}/{other}" for other in known))
            problems.append((("composed", "both", str(index)), text))
    return problems
