"""`config.yaml` as typed objects: the one place that says what the file may contain.

`workflow/schemas/config.schema.json` is generated from these classes by `perturb --schema` and checked in the tests.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import Field, PrivateAttr, field_validator, model_serializer, model_validator
from pydantic.config import JsonDict

from perturbations.base import features
from perturbations.base.settings import MOST_ITEMS, AnySeverity, KeySeverity, Limits, Seed, Strict, Whole, distinct
from perturbations.config.line_numbers import NOWHERE, LinesOfKeys
from perturbations.datasets import adapter_registry as datasets
from perturbations.datasets.adapter_registry import Dataset
from perturbations.manifest import manifest_paths
from perturbations.models.guides.backend_settings import Backends
from perturbations.suites import suite_registry

_OF_FEATURES = features.sections()

if TYPE_CHECKING:
    AnyDataset = Dataset
    Composed: TypeAlias = Any  # sections of rooms above this one
    Evaluation: TypeAlias = Any
else:
    AnyDataset = datasets.settings_of_any()
    Composed, Evaluation = _OF_FEATURES["composed"], _OF_FEATURES["evaluation"]

Severity = Annotated[Whole, Field(ge=1, le=5)]

_KeySeverity = Annotated[KeySeverity, Field(le=5)]


class Captions(Strict):
    """What to make of a suite's captions."""

    perturbations: Literal["all"] | tuple[str, ...] = Field("all", description="all, or a list of names")
    severities: Literal["all"] | tuple[AnySeverity, ...] = Field(
        "all", description="`all`, or a list; a severity that a perturbation does not have is ignored"
    )
    parameters: dict[str, dict[KeySeverity, dict[str, Any]]] = Field(
        default_factory=dict,
        description="values that replace the published ones: perturbation -> severity -> parameter -> value",
    )
    _no_repetition = field_validator("perturbations", "severities")(distinct)


def _with_variants(schema: JsonDict) -> None:
    """Let the JSON schema list the variants."""
    schema.pop("default", None)
    known = {variant for suite in suite_registry.suites().values() for variant in suite.variants}
    schema["enum"] = [*sorted(known)]


class SuiteSection(Strict):
    """What to make of one suite."""

    variant: str = Field(
        "",
        description="released: the authors' code, bugs included; paper: the text; released_online of msrvtt_p: the "
        "authors' other program. The default is the suite's first",
        json_schema_extra=_with_variants,
    )
    perturbations: Literal["all"] | tuple[str, ...] = Field("all", description="all, or a list of names")
    severities: tuple[Severity, ...] = Field((1, 2, 3, 4, 5), min_length=1, description="which severities")
    draw: Literal["clip", "frame"] | None = Field(
        None, description="mm_robustness: one realization per clip, the default, or one per frame"
    )
    parameters: dict[str, dict[_KeySeverity, dict[str, Any]]] = Field(
        default_factory=dict,
        description="numbers that replace the published ones: perturbation -> severity -> parameter -> value",
    )
    captions: Captions = Field(default_factory=Captions, description="of the targets text_<suite>_<dataset>")
    _no_repetition = field_validator("perturbations", "severities")(distinct)


class StorageSettings(Strict):
    """What is stored of a perturbed clip."""

    tier: Literal["video", "frames", "recipe"] = Field(
        "video",
        description="video: full-length files; frames: uniformly sampled ones; recipe: rendered on demand",
    )
    profile: Literal["lossless", "high", "compatible", "released"] = Field(
        "high",
        description="of the tier video. lossless: exact; high: >= 40 dB; compatible: 4:2:0, plays everywhere, lossy; "
        "released: as MSRVTT-P's authors stored, OpenCV's `mp4v`, very lossy",
    )
    num_frames: Whole = Field(
        12, ge=1, le=4096, description="of the tier frames: how many uniformly sampled frames to keep, lossless"
    )
    audio: Literal["copy", "none"] = Field(
        "copy",
        description="of the tier video. copy: the source's sound, where the perturbation changes no times; none",
    )

    container: Literal["files", "tar"] = Field(
        "files",
        description="of the tiers video and frames. files: one file per clip; tar: the clips of a job in one tar, in "
        "WebDataset's layout",
    )

    @property
    def job_settings(self) -> dict[str, bool]:
        """The settings by which a job that makes clips is told what no recipe says of their storage."""
        has_sound = self.tier == "video" and self.audio == "copy"
        in_tar = self.tier != "recipe" and self.container == "tar"
        return {**({"sound": True} if has_sound else {}), **({"tar": True} if in_tar else {})}

    @model_serializer
    def _of_its_tier(self) -> dict[str, str | int]:
        """Without what has no effect in the tier: hashes of configurations do not depend on it."""
        if self.tier == "video":
            return {"tier": self.tier, "profile": self.profile}
        return {"tier": self.tier, "num_frames": self.num_frames} if self.tier == "frames" else {"tier": self.tier}


def _with_suites(schema: JsonDict) -> None:
    """Let the JSON schema list the suites."""
    schema["propertyNames"] = {"enum": list(suite_registry.suites())}
    schema["additionalProperties"] = {"anyOf": [schema["additionalProperties"], {"type": "null"}]}


class Config(Strict):
    """The whole of `config.yaml`: what to make. Where it runs is a matter of workflow/profiles."""

    seed: Seed = Field(0, description="seed of all random numbers; another seed gives another corpus")
    datasets: dict[Annotated[str, Field(pattern=f"^{manifest_paths.NAME}$", max_length=64)], AnyDataset] = Field(
        description="name -> dataset; the targets are called after the names, e.g. mlvp_msrvtt", min_length=1
    )
    suites: dict[str, SuiteSection] = Field(
        description="suite -> what to make of it", min_length=1, json_schema_extra=_with_suites
    )
    plugins: tuple[Path, ...] = Field(
        (), description="files of Python with suites, adapters, methods, backbones, models and exports of your own"
    )
    backends: Backends = Field(default_factory=Backends)
    storage: StorageSettings = Field(default_factory=StorageSettings)
    shard_size: Whole | None = Field(
        None,
        ge=1,
        le=100_000,
        description="the most items per job; it never changes a result. By default 100, doubled with each doubling of "
        "the dataset beyond 10,000 items",
    )
    max_failed_items: Whole = Field(
        0,
        ge=0,
        le=MOST_ITEMS,
        description="how many items of a dataset may fail before the run does",
    )
    timeout_s: Whole = Field(
        120,
        ge=1,
        le=86_400,
        description="timeout in s: an item whose decoder gives no frame for this time is stopped",
    )
    limits: Limits = Field(default_factory=Limits, description="what one file may ask for before its item is refused")
    composed: Composed = Field(default_factory=_OF_FEATURES["composed"])
    evaluation: Evaluation = Field(default_factory=_OF_FEATURES["evaluation"])
    _places: LinesOfKeys = PrivateAttr(NOWHERE)
    _workplace: Path = PrivateAttr(Path())

    def at(self, path: str | Path) -> Path:
        """Where planning finds a path that begins where jobs work: in the working directory, or below a prefix."""
        return self._workplace / path

    def locate(self, places: LinesOfKeys, workplace: Path) -> None:
        """Set the lines of its keys, and the folder in which jobs work."""
        self._places, self._workplace = places, workplace

    @property
    def places(self) -> LinesOfKeys:
        """The lines of its keys, for messages about what a key names."""
        return self._places

    @model_validator(mode="before")
    @classmethod
    def _with_its_protocol(cls, raw: object) -> object:
        """What a published protocol implies, which the configuration names."""
        return features.completed(raw)

    @field_validator("suites", mode="before")
    @classmethod
    def _all_of_a_suite(cls, suites: object) -> object:
        """A suite that is named and left empty is made with its defaults."""
        if not isinstance(suites, dict):
            return suites
        return {name: {} if wanted is None else wanted for name, wanted in suites.items()}

    @field_validator("suites")
    @classmethod
    def _first_variant(cls, suites: dict[str, SuiteSection]) -> dict[str, SuiteSection]:
        known = suite_registry.suites()
        return {
            name: suite.model_copy(update={"variant": known[name].variants[0]})
            if name in known and not suite.variant
            else suite
            for name, suite in suites.items()
        }

    @property
    def first_dataset(self) -> str:
        """The dataset of the default target: the demo, or else the first."""
        return "demo" if "demo" in self.datasets else next(iter(self.datasets))

    def max_failed_items_of(self, dataset: str) -> int:
        """How many items of `dataset` may fail."""
        own = self.datasets[dataset].max_failed_items
        return self.max_failed_items if own is None else own

    def donors_of(self, dataset: str) -> str:
        """The dataset whose clips are inserted into those of `dataset`."""
        return self.datasets[dataset].donors or dataset


def json_schema() -> str:
    """The JSON schema of `config.yaml`, as text."""
    return json.dumps(Config.model_json_schema(), indent=2, sort_keys=True) + "\n"
