"""The card of an exported dataset: README.md, whose front matter tells the Hugging Face libraries what to load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from perturbations import __version__
from perturbations.base import shown, storage

SPLIT = "test"
_LONGEST = 1_000_000  # bytes of a corpus's own card


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


def write(
    output: Path, title: str, configs: Sequence[Config], paragraphs: Sequence[str], manifest: Path, *, left_out: int
) -> None:
    """Write `README.md`: the configurations, the paragraphs, and the body of the corpus's own card where it has one."""
    front: dict[str, Any] = {
        "pretty_name": title,
        "task_categories": ["text-to-video-retrieval"],
        "tags": ["robustness", "perturbation", "video-text-retrieval"],
        "configs": [
            {
                "config_name": config.name,
                **({"default": True} if config.is_default else {}),
                "data_files": [{"split": SPLIT, "path": list(config.patterns)}],
            }
            for config in configs
        ],
    }
    if described := [config for config in configs if config.features]:
        front["dataset_info"] = [
            {"config_name": config.name, "features": [dict(feature) for feature in config.features or ()]}
            for config in described
        ]
    counted = "No row was left out." if not left_out else f"{left_out:,} rows were left out; `left_out.csv` lists them."
    lines = [
        "---",
        yaml.safe_dump(front, sort_keys=False, allow_unicode=False, width=120).rstrip(),
        "---",
        "",
        f"# {shown.name(title)}",
        "",
        *(line for paragraph in paragraphs for line in (paragraph, "")),
        f"{counted} Exported by perturbations {__version__}. The licence of the clips is that of the dataset that they "
        "were made from; check it before you publish them.",
        *_body(manifest.parent / "README.md"),
    ]
    storage.write_text_if_changed(output / "README.md", "\n".join(lines) + "\n")


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
