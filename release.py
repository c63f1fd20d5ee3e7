"""A release in one command: `python release.py 1.2.0` sets the version everywhere and builds the packages.

It writes perturbations/__init__.py, CITATION.cff and CHANGELOG.md (what stood below "Unreleased" becomes the
version's), builds the wheel and the sdist into dist/, and prints the commands that publish them.
"""

from __future__ import annotations

import datetime
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

_ROOT = Path(__file__).parent
_FILES = ("perturbations/__init__.py", "CITATION.cff", "CHANGELOG.md")


def released(texts: Mapping[str, str], version: str, day: str) -> dict[str, str]:
    """The files' texts (path -> text) with the version and the day; raises `SystemExit` for what cannot be released."""
    module, citation, changelog = (texts[name] for name in _FILES)
    current = re.search(r'^__version__ = "(.*)"$', module, re.MULTILINE)
    if not re.fullmatch(r"\d+\.\d+\.\d+", version) or current is None or _numbers(version) < _numbers(current[1]):
        raise SystemExit(f"release.py: {version} is no version X.Y.Z after {current[1] if current else 'none'}")
    head, found, changes = changelog.partition("## Unreleased\n")
    if not found or not changes.partition("\n## ")[0].strip() or f"\n## {version} " in changelog:
        raise SystemExit('release.py: CHANGELOG.md has nothing below "## Unreleased", or has the version already')
    citation = re.sub(r"^date-released: .*\n", "", citation, flags=re.MULTILINE)
    citation = re.sub(r"^version: .*$", f"version: {version}\ndate-released: {day}", citation, flags=re.MULTILINE)
    module = module.replace(current[0], f'__version__ = "{version}"')
    changelog = f"{head}{found}\n## {version} ({day})\n{changes}"
    return dict(zip(_FILES, (module, citation, changelog), strict=True))


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def main(version: str) -> None:
    """Write the files and build."""
    texts = {name: (_ROOT / name).read_text(encoding="utf-8") for name in _FILES}
    for name, text in released(texts, version, datetime.datetime.now(datetime.UTC).date().isoformat()).items():
        (_ROOT / name).write_text(text, encoding="utf-8")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", "dist"], cwd=_ROOT, check=True)
    print(f"Now: git commit -am 'Release {version}' && git tag v{version} && git push origin HEAD v{version}")
    print(f"and: python -m twine upload dist/perturbations-{version}*")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python release.py X.Y.Z")
    main(sys.argv[1])
