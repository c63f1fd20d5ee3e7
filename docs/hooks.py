"""What `mkdocs build` does beside rendering docs/: pages that lie elsewhere or are made, and links between them.

Links in the sources lead where the files lie, so that they work in an editor and on a forge. Here they are turned
towards the site's pages; a link to a file that has no page becomes plain text.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path

import catalogue_pages
import examples
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

PROJECT = Path(__file__).parents[1]
ELSEWHERE = {
    "manifests/README.md": "reference/columns.md",
    "CONTRIBUTING.md": "contributing.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "CHANGELOG.md": "changes.md",
}
_SOURCES = {page: source for source, page in ELSEWHERE.items()}
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s#:]+)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the catalogue's pages, one per suite, to the menu."""
    (reference,) = (section["Reference"] for section in config.nav or [] if "Reference" in section)
    (listed,) = (page["Catalogue"] for page in reference if isinstance(page, dict) and "Catalogue" in page)
    listed += [
        {name.removesuffix(".md"): f"catalogue/{name}"} for name in catalogue_pages.pages() if name != "README.md"
    ]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie outside of docs/, and those that are made."""
    for source, page in ELSEWHERE.items():
        files.append(File.generated(config, page, abs_src_path=str(PROJECT / source)))
    for name, text in catalogue_pages.pages().items():
        files.append(File.generated(config, f"catalogue/{name}", content=text))
    for name, text in examples.pages().items():
        if name.endswith(".html"):
            files.append(File.generated(config, f"examples/{name}", content=text))
    return files


def on_post_build(config: MkDocsConfig) -> None:
    """Write the files that the examples lead to; as pages of the site, their Markdown would be rendered."""
    for name, text in examples.pages().items():
        path = Path(config.site_dir, "examples", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links between the project's files into links between pages."""
    here = page.file.src_uri
    folder = posixpath.dirname(_SOURCES.get(here, f"docs/{here}"))

    def turned(link: re.Match[str]) -> str:
        label, target, anchor = link[1], posixpath.normpath(posixpath.join(folder, link[2])), link[3] or ""
        wanted = ELSEWHERE.get(target, target.removeprefix("docs/"))
        if files.get_file_from_path(wanted) is not None:
            return f"[{label}]({os.path.relpath(wanted, posixpath.dirname(here) or '.')}{anchor})"
        return label if (PROJECT / target).exists() and not target.startswith("docs/") else link[0]

    return _LINK.sub(turned, markdown)
