"""The folder of an export, which is new or empty at the beginning, and the lists in it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from perturbations import __version__
from perturbations.base import storage
from perturbations.base.errors import ManifestError, OutputError
from perturbations.exports.export_registry import DATA, LeftOut
from perturbations.exports.exported_corpus import ExportedCorpus
from perturbations.manifest import files, locations, manifest_paths

MARKER = "perturbations.json"
"""The file that names the export in a folder."""

LEFT_OUT = "left_out.csv"
"""The file that lists the rows without a clip."""

SUMS = "SHA256SUMS"
"""The list of files with their hashes, as `sha256sum -c SHA256SUMS` reads it."""

STAGED = "staged"
"""The folder, below `data`, of encoded videos that become a part of other files."""

_SUM = re.compile(r"([0-9a-f]{64})  ([^\x00-\x1f]+)")


def check_tree(output: Path, manifest: Path) -> None:
    """Raise `OutputError` for a folder in `manifests` or `corpora` of the exported tree, which the workflow fills."""
    try:
        root = locations.root_of(manifest, files.read_metadata(manifest)).resolve()
    except ManifestError:
        return  # the manifest was taken out of its tree; for captions, this is no error
    if not manifest.resolve().is_relative_to(root / manifest_paths.MANIFESTS):
        return
    for own in (root / manifest_paths.MANIFESTS, root / manifest_paths.CORPORA):
        if output.resolve().is_relative_to(own):
            raise OutputError(f"{output} is within {own}, which the workflow fills; choose another folder")


def claim(corpus: ExportedCorpus) -> None:
    """Make the folder of an export, with its marker.

    Raises `OutputError` for a folder that holds anything, and for one that the workflow fills.
    """
    output = corpus.request.output
    check_tree(output, corpus.request.manifest)
    with storage.output_errors(output):
        output.mkdir(parents=True, exist_ok=True)
        is_empty = not any(output.iterdir())
    if not is_empty:
        raise OutputError(f"{output} holds files: choose a new folder, or delete what is in it")
    about = {"format": corpus.request.form, "corpus": "/".join(corpus.identity), "perturbations": __version__}
    storage.write_text(output / MARKER, json.dumps(about, indent=1, sort_keys=True) + "\n")


def read_marker(output: Path) -> dict[str, object]:
    """The marker of an export's folder: its `format` and `corpus`; empty for any other folder."""
    with suppress(OSError, ValueError, RecursionError):
        about = json.loads((output / MARKER).read_bytes())
        return about if isinstance(about, dict) else {}
    return {}


def finish(output: Path, left_out: Iterable[LeftOut]) -> None:
    """Delete the staged videos, and list the rows that are not exported, with the reasons; no list without any."""
    import pandas as pd  # not at the top: `perturb verify` reads the marker alone

    shutil.rmtree(output / DATA / STAGED, ignore_errors=True)
    if lines := [[for_spreadsheets(cell) for cell in row] for row in left_out]:
        table = pd.DataFrame(lines, columns=["row", "problem"])
        storage.write_text(output / LEFT_OUT, table.to_csv(index=False, lineterminator="\n"))


def for_spreadsheets(text: str) -> str:
    """A cell of a CSV file that no spreadsheet reads as a formula: `=1+1` becomes `'=1+1`, and `'` becomes `''`."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r", "'")) else text


def write_sums(output: Path, known: Mapping[Path, str] | None = None, *, only: Iterable[Path] = ()) -> str:
    """List the files of an export (or `only` some) with their hashes; files with `known` hashes are not read.

    Returns the hash of the list itself, the export's root.
    """
    paths = [*only] or [*output.iterdir(), *(output / DATA).rglob("*")]
    hashes = {
        path.relative_to(output).as_posix(): (known or {}).get(path) or storage.sha256(path)
        for path in paths
        if path.is_file() and path.name != SUMS
    }
    storage.write_text(output / SUMS, "".join(f"{hashes[name]}  {name}\n" for name in sorted(hashes)))
    return storage.sha256(output / SUMS)


def read_sums(path: Path) -> dict[str, str]:
    """The hashes in a list, by the file's path from the list's folder. Raises `ManifestError` for any other file."""
    if not path.is_file():
        raise ManifestError(f"{path} is no list of an export's files")
    lines = path.read_text("utf-8", errors="replace").splitlines()
    matches = [_SUM.fullmatch(line) for line in lines]
    if None in matches:
        raise ManifestError(f"{path}: line {matches.index(None) + 1} is none that an export wrote")
    return {match[2]: match[1] for match in matches if match is not None}
