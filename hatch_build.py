"""The package page's text and links, made from README.md when a wheel or an sdist is built.

A package page has no files beside it, so README.md's relative links are made absolute: they lead into the repository
that `PERTURBATIONS_URL` names, or that a GitHub action builds from. Without either they become plain text, and pictures
go.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?!https?://|#)(?P<path>[^)\s]+)\)")


class PackagePage(MetadataHookInterface):
    """Fills in the dynamic fields `readme` and `urls`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the package page's text, and its links where the repository is known."""
        url = repository(os.environ)
        text = page(Path(self.root, "README.md").read_text(encoding="utf-8"), url)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = links(url) if url else {}


def repository(environment: Mapping[str, str]) -> str | None:
    """The repository's address, without a `/` at its end; None where nothing says it."""
    given = environment.get("PERTURBATIONS_URL", "")
    if not given and environment.get("GITHUB_REPOSITORY"):
        given = f"{environment.get('GITHUB_SERVER_URL', 'https://github.com')}/{environment['GITHUB_REPOSITORY']}"
    return given.rstrip("/") or None


def links(url: str) -> dict[str, str]:
    """The links beside the package page."""
    return {
        "Repository": url,
        "Issues": f"{url}/issues",
        "Documentation": f"{url}/blob/HEAD/docs/index.md",
        "Changelog": f"{url}/blob/HEAD/CHANGELOG.md",
    }


def page(readme: str, url: str | None) -> str:
    """README.md with absolute links into the repository `url`; with None, without links into it."""

    def absolute(link: re.Match[str]) -> str:
        if url is None:
            return "" if link["picture"] else link["text"]
        return f"{link['picture']}[{link['text']}]({url}/{'raw' if link['picture'] else 'blob'}/HEAD/{link['path']})"

    return _LINK.sub(absolute, re.sub(r"^<!-- .* -->\n+", "", readme, flags=re.MULTILINE))
