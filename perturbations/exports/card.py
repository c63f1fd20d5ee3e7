"""The card of an exported dataset: README.md, whose front matter the Hugging Face Hub and its libraries read.

What it says is what the manifest knows of the corpus, and the terms that only its publisher knows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from perturbations import __version__
from perturbations.base import shown, storage
from perturbations.datasets import registry as datasets
from perturbations.datasets.registry import Adapter
from perturbations.engine.corpus_card import TAGS, TASKS
from perturbations.exports import names
from perturbations.exports.corpus import Corpus
from perturbations.exports.registry import Request
from perturbations.manifest import layout
from perturbations.suites import registry as suites

_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
"""The Hugging Face Hub's classes of size: the first number that is not reached, and the class."""


_SPLIT = "test"
_LONGEST = 1_000_000  # bytes of a corpus's own card
_LICENSES = re.compile(
    r"(cc0-1\.0|cc-by(-nc)?(-sa|-nd)?-[1-4]\.[05]|apache-2\.0|mit|bsd(-[23]-clause)?|odbl|odc-by|pddl|cdla-[a-z-]+-[12]"
    r"\.0|a?gpl-3\.0|lgpl-(2\.1|3\.0)|mpl-2\.0|unlicense|other|unknown)"
)
"""Names of licences on the Hub (https://huggingface.co/docs/hub/repositories-licenses); another one is `other`."""


@dataclass(frozen=True)
class Publication:
    """An exported dataset.

    Attributes:
        exported: the corpus.
        request: the request; its `terms` are those of publication.
        records: what a row is: "clips", "captions", "pairs" or "queries".
        rows: the number of its rows.
        left_out: the number of clips, or of captions, that are not in it, which `left_out.csv` lists.
        clips: the number of its clips.
        has_videos: whether clips are in it.
    """

    exported: Corpus
    request: Request
    records: str
    rows: int
    left_out: int
    clips: int
    has_videos: bool = True

    @cached_property
    def root(self) -> str:
        """The SHA-256 of the manifest, which is the root of a corpus of clips."""
        return storage.sha256(self.request.manifest)

    @cached_property
    def adapter(self) -> Adapter | None:
        """The dataset's adapter; None of one that the package does not know."""
        return datasets.adapters().get(self.exported.dataset)

    @property
    def origin(self) -> str:
        """The dataset that it was made from, with its paper where that is known."""
        if self.adapter is None:
            return f"the dataset {self.exported.dataset}"
        return self.adapter.title + (f" ({self.adapter.reference})" if self.adapter.reference else "")

    @property
    def synthetic(self) -> bool:
        """Whether the package drew the clips itself."""
        return self.adapter is not None and self.adapter.synthetic is not None

    @property
    def published(self) -> bool:
        """Whether the clips are of a published dataset, which may not be passed on without its authors' leave."""
        return self.adapter is not None and bool(self.adapter.reference)

    @property
    def makers(self) -> tuple[str, ...]:
        """The suites that clips or captions were perturbed by, with their papers; none where all are clean."""
        return tuple(_maker(name) for name in self.exported.identity[-1].split(",") if name != names.CLEAN)

    @property
    def size(self) -> str:
        """The class of its size on the Hugging Face Hub."""
        return next((name for most, name in _SIZES if self.rows < most), "1M<n<10M")

    @property
    def counted(self) -> str:
        """The numbers of its clips and rows."""
        clips = _number(self.clips, self.in_words("clips"))
        rows = _number(self.rows, self.in_words(self.records))
        return rows if self.records == "clips" or not self.clips else f"{clips} and {rows}"

    @property
    def lost(self) -> str:
        """What was left out, in a sentence without its end; empty where all is there."""
        what = "captions" if self.records == "captions" else self.in_words("clips")
        verb = "was" if self.left_out == 1 else "were"
        return f"{_number(self.left_out, what)} {verb} left out" if self.left_out else ""

    @property
    def language(self) -> str | None:
        """The captions' language; None where only the dataset's owner knows it."""
        return "en" if self.published or self.synthetic else None

    @property
    def is_gated(self) -> bool:
        """Whether readers should agree to the source dataset's terms before they get the clips."""
        return self.has_videos and not self.synthetic and (self.published or not self.request.terms.license)

    def in_words(self, text: str) -> str:
        """A sentence about clips, about pictures where the clips are pictures."""
        return shown.in_words_of(text, pictures=self.exported.has_pictures)

    @property
    def limits(self) -> tuple[str, ...]:
        """What users must know before they rely on it."""
        comparability, rejected = self.exported.about.get("comparability"), self.exported.rejected
        sentences = [f"Results are {comparability}."] if comparability else []
        if self.left_out:
            sentences.append(f"{self.lost}; left_out.csv has the reasons.")
        if rejected:
            sentences.append(f"The fidelity gate rejected {shown.plural(rejected, 'caption')}: left out.")
        if self.makers:
            sentences.append("Perturbations are simulated; natural ones may differ from them.")
        return tuple(sentences) or (self.in_words("The clips are those of the source dataset, with its limits."),)

    def terms(self) -> dict[str, Any]:
        """The terms of the Responsible AI vocabulary of Croissant, and of PROV.

        What the clips show, only the owner of an unpublished dataset knows: those terms are not in it.
        """
        shown_in = {}
        if self.published or self.synthetic:
            personal = "None: the package drew the clips." if self.synthetic else _PERSONAL
            shown_in = {
                "rai:dataBiases": [self.in_words(_BIASES).format(origin=self.origin)],
                "rai:personalSensitiveInformation": [self.in_words(personal).format(origin=self.origin)],
            }
        named = {"@id": self.adapter.url} if self.adapter and self.adapter.url else {}
        derived = {**named, "@type": "prov:Entity", "prov:label": self.origin}
        software = {"@type": "prov:SoftwareAgent", "prov:label": f"perturbations {__version__}"}
        return {
            **shown_in,
            "rai:dataLimitations": list(self.limits),
            "rai:dataUseCases": [self.in_words(_USES)],
            "rai:dataSocialImpact": self.in_words(_IMPACT),
            "rai:hasSyntheticData": bool(self.makers) or self.synthetic,
            "prov:wasDerivedFrom": [derived],
            "prov:wasGeneratedBy": [
                {"@type": "prov:Activity", "prov:label": maker, "prov:wasAssociatedWith": software}
                for maker in self.makers or (self.in_words("Selection and check of the clips"),)
            ],
        }


_PERSONAL = "Clips and captions of {origin} may show or describe people. No perturbation makes them anonymous."
_BIASES = "Those of {origin}: a perturbation changes how clips and captions look, and not what they are of."
_USES = (
    "Evaluation: how robust models of video-text retrieval are, and whether adaptation at test time helps. It is no "
    "training data, and says nothing about perturbations that are not in it."
)
_IMPACT = (
    "Shows where retrieval fails before it is relied on. A good score is no proof that a model is safe under other "
    "conditions, or fair to the people in the clips."
)


def _number(count: int, what: str) -> str:
    return f"{count:,} {what.removesuffix('s') if count == 1 else what}"


def _maker(name: str) -> str:
    suite = suites.suites().get(name)
    return f"{suite.title}, after {suite.reference}" if suite else f"the suite {name}"


@dataclass(frozen=True)
class Config:
    """A part of a dataset that can be loaded by its name: the patterns of its files.

    `features` are those of `datasets`, as YAML has them; None lets the library read them from the files.
    """

    name: str
    patterns: tuple[str, ...]
    features: Sequence[Mapping[str, Any]] | None = None
    is_default: bool = False
    """Whether it is loaded where no name is given; one called `default` is without it."""


def write(about: Publication, configs: Sequence[Config], paragraphs: Sequence[str]) -> None:
    """Write `README.md`: the configurations, the paragraphs, and the body of the corpus's own card where it has one."""
    front: dict[str, Any] = {
        "pretty_name": about.exported.title,
        **_license(about.request.terms.license),
        **({"language": [about.language]} if about.language else {}),
        "size_categories": [about.size],
        "task_categories": list(TASKS),
        "tags": [about.in_words(tag) for tag in TAGS],
        **_gate(about),
        "configs": [
            {
                "config_name": config.name,
                **({"default": True} if config.is_default else {}),
                "data_files": [{"split": _SPLIT, "path": list(config.patterns)}],
            }
            for config in configs
        ],
    }
    if described := [config for config in configs if config.features]:
        front["dataset_info"] = [
            {"config_name": config.name, "features": [dict(feature) for feature in config.features or ()]}
            for config in described
        ]
    counted = f"{about.counted}; {about.lost}: `left_out.csv` has the reasons." if about.lost else f"{about.counted}."
    terms = about.request.terms
    cited = ["", "## Citation", "", "```", *shown.lines(terms.citation).splitlines(), "```"] if terms.citation else []
    of_clips = about.in_words("The licence of the clips is that of the dataset that they were made from")
    licensed = f"Licence: {shown.name(terms.license)}. " if terms.license else ""
    lines = [
        "---",
        yaml.safe_dump(front, sort_keys=False, allow_unicode=False, width=120).rstrip(),
        "---",
        "",
        f"# {shown.name(about.exported.title)}",
        "",
        *(line for paragraph in paragraphs for line in (about.in_words(paragraph), "")),
        f"{counted} Exported by perturbations {__version__}. {licensed}"
        f"{of_clips}, {shown.name(about.origin)}; check it before you publish them.",
        f"The root of what was exported, the SHA-256 of `{about.request.manifest.name}`, is `{about.root}`.",
        *cited,
        *_body(about.request.manifest.with_name(layout.name("card"))),
    ]
    storage.write_text_if_changed(about.request.output / layout.name("card"), "\n".join(lines) + "\n")


def _license(name: str) -> dict[str, str]:
    """The license as the Hub's front matter has it: one of its names, or `other` with a name and a link."""
    if not name:
        return {"license": "unknown"}
    if _LICENSES.fullmatch(name.lower()):
        return {"license": name.lower()}
    link = {"license_link": name} if name.startswith(("https://", "http://")) else {}
    words = "-".join(re.findall(r"[a-z0-9.]+", name.lower().partition("://")[-1 if link else 0]))
    return {"license": "other", "license_name": words or "other", **link}


def _gate(about: Publication) -> dict[str, str]:
    """What readers must agree to, where the owner of a repository turns gated access on."""
    if not about.is_gated:
        return {}
    begin, end = map(about.in_words, ("The clips are derived from", "only for those who may use that dataset's clips."))
    return {"extra_gated_prompt": f"{begin} {about.origin}. They are {end}"}


def _body(path: Path) -> list[str]:
    """A corpus's own card, less its front matter."""
    try:
        text = path.read_text(encoding="utf-8") if path.stat().st_size <= _LONGEST else ""
    except (OSError, ValueError):
        return []
    if not text.startswith("---\n") or "\n---\n" not in text:
        return []
    body = "\n" + shown.lines(text.split("\n---\n", 1)[1].strip())
    return ["", "## The corpus", body.replace("\n# ", "\n### ")]
