"""The card of an exported dataset: README.md, whose front matter the Hugging Face Hub and its libraries read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from perturbations import __version__
from perturbations.base import shown, storage
from perturbations.engine.corpus_card import TAGS, TASKS
from perturbations.exports.writing.publication import Publication
from perturbations.manifest import layout

_SPLIT = "test"
_LONGEST = 1_000_000  # bytes of a corpus's own card
_LICENSES = re.compile(
    r"(cc0-1\.0|cc-by(-nc)?(-sa|-nd)?-[1-4]\.[05]|apache-2\.0|mit|bsd(-[23]-clause)?|odbl|odc-by|pddl|cdla-[a-z-]+-[12]"
    r"\.0|a?gpl-3\.0|lgpl-(2\.1|3\.0)|mpl-2\.0|unlicense|other|unknown)"
)
"""Names of licences on the Hub (https://huggingface.co/docs/hub/repositories-licenses); another one is `other`."""


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
        "pretty_name": about.title,
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
        f"# {shown.name(about.title)}",
        "",
        *(line for paragraph in paragraphs for line in (about.in_words(paragraph), "")),
        f"{counted} Exported by perturbations {__version__}. {licensed}"
        f"{of_clips}, {shown.name(about.origin)}; check it before you publish them.",
        f"The root of what was exported, the SHA-256 of `{about.manifest.name}`, is `{about.root}`.",
        *cited,
        *_body(about.manifest.with_name(layout.name("card"))),
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
