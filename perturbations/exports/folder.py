"""The folder of an export: whose it is, what an earlier export left in it, and the lists of it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from perturbations import __version__
from perturbations.base import storage
from perturbations.base.errors import ManifestError, OutputError
from perturbations.exports import sums
from perturbations.exports.corpus import Corpus
from perturbations.exports.registry import LeftOut
from perturbations.manifest import files, layout, locations

MARKER = "perturbations.json"
"""The file that says which export a folder holds."""

LEFT_OUT = "left_out.csv"
"""The file that lists the rows without a clip."""

DATA = "data"
"""The folder of all exported clips and captions: what no export names is deleted from it."""


def check_tree(output: Path, manifest: Path) -> None:
    """Raise `OutputError` for a folder in `manifests` or `corpora` of the exported tree, which the workflow fills."""
    try:
        root = locations.root_of(manifest, files.read_metadata(manifest)).resolve()
    except ManifestError:
        return  # it was taken out of its tree; of captions, that is no error
    if not manifest.resolve().is_relative_to(root / layout.MANIFESTS):
        return
    for own in (root / layout.MANIFESTS, root / layout.CORPORA):
        if output.resolve().is_relative_to(own):
            raise OutputError(f"{output} is within {own}, which the workflow fills; choose another folder")


def claim(output: Path, form: str, corpus: Corpus) -> None:
    """Make the folder of an export, or take one of the same export.

    Raises `OutputError` for a folder with other files or with another export, and for one that holds the corpus.
    """
    described = {"format": form, "corpus": "/".join(corpus.identity), "perturbations": __version__}
    check_tree(output, corpus.manifest)
    place = output.resolve()
    for own in (corpus.manifest.parent.resolve(), *(folder.resolve() for folder in corpus.folders)):
        if place.is_relative_to(own) or own.is_relative_to(place):
            raise OutputError(f"{output} is within the corpus that is exported, or around it; choose another folder")
    with storage.output_errors(output):
        output.mkdir(parents=True, exist_ok=True)
        entries = list(output.iterdir())
    leftovers = [path for path in entries if storage.is_leftover(path)]  # of a killed export
    held = _read(output / MARKER)
    if held is None and len(entries) > len(leftovers):
        raise OutputError(f"{output} holds files that no export made; choose a new folder")
    if held is not None and [held.get(name) for name in ("format", "corpus")] != [form, described["corpus"]]:
        other = f"{held.get('corpus')} in the format {held.get('format')}"
        raise OutputError(f"{output} holds the export of {other[:200]!r}; choose another folder, or delete it")
    for leftover in leftovers:
        leftover.unlink(missing_ok=True)
    storage.write_text_if_changed(output / MARKER, json.dumps(described, indent=1, sort_keys=True) + "\n")


def form_of(output: Path) -> object:
    """The format of the export in a folder; None of a folder that is none."""
    return (_read(output / MARKER) or {}).get("format")


def _read(marker: Path) -> dict[str, object] | None:
    try:
        about = json.loads(marker.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return about if isinstance(about, dict) else None


def finish(output: Path, written: Collection[Path], left_out: Iterable[LeftOut]) -> None:
    """Delete the files below `data` that this export did not write, and list the rows without a clip."""
    kept = {str(path) for path in written}
    for path in sorted((output / DATA).rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            with suppress(OSError):
                path.rmdir()
        elif str(path) not in kept:
            path.unlink(missing_ok=True)
    lines = [[for_spreadsheets(cell) for cell in row] for row in left_out]
    if lines:
        write_csv(output / LEFT_OUT, [["row", "problem"], *lines])
    else:
        (output / LEFT_OUT).unlink(missing_ok=True)


def write_csv(path: Path, lines: Iterable[Iterable[str]]) -> None:
    """Write lines of cells."""
    content = io.StringIO()
    csv.writer(content, lineterminator="\n").writerows(lines)
    storage.write_text_if_changed(path, content.getvalue())


def for_spreadsheets(text: str) -> str:
    """A cell of a CSV file that no spreadsheet reads as a formula: `=1+1` becomes `'=1+1`, and `'` becomes `''`."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r", "'")) else text


def write_sums(output: Path, known: Mapping[Path, str] | None = None) -> None:
    """List every file of an export with its hash, for `sha256sum -c`; `known` are hashes of files that are not read."""
    known = known or {}
    names = (path for path in output.rglob("*") if path.is_file() and path != output / sums.NAME)
    hashes = {path.relative_to(output).as_posix(): known.get(path) or storage.sha256(path) for path in names}
    storage.write_text_if_changed(output / sums.NAME, sums.text(hashes))
