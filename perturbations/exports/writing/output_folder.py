"""The folder of an export: whose it is, what an earlier export left in it, and the list of what was left out."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import logging
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from perturbations import __version__
from perturbations.base import jsontext, shown, storage
from perturbations.base.errors import ManifestError, OutputError
from perturbations.exports.writing.filenames import for_spreadsheets
from perturbations.manifest import files, layout, locations
from perturbations.verify.findings import Finding

_log = logging.getLogger("perturbations")

MARKER = "perturbations.json"
"""The file that says which export a folder holds."""

LEFT_OUT = "left_out.csv"
"""The file that lists the rows without a clip."""

DATA = "data"
"""The folder of all exported clips and captions: what no export names is deleted from it."""


@contextmanager
def one_export(output: Path) -> Iterator[None]:
    """Hold the lock of an export's folder; wait while another export writes there.

    The lock is the kernel's, on the folder itself: it ends with the processes that hold it, however they end, and
    leaves no file that would be published. New folders in which nothing was written are removed again.
    Raises `OutputError` when the folder cannot be made.
    """
    new = [folder for folder in (output, *output.parents) if not folder.exists()]
    with storage.output_errors(output):
        output.mkdir(parents=True, exist_ok=True)
        place = os.open(output, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _log.warning("another export writes into %s: waiting for it", shown.name(str(output)))
            fcntl.flock(place, fcntl.LOCK_EX)
        except OSError as error:
            _log.warning("%s cannot be locked (%s): see that no other export writes there", output, error)
        yield
    finally:
        os.close(place)
        with suppress(OSError):
            for folder in new:
                folder.rmdir()


def check_outside(output: Path, manifest: Path) -> None:
    """Raise `OutputError` for a folder in `manifests` or `corpora` of the exported tree: it would be a part of them."""
    try:
        root = locations.root_of(manifest, files.read_metadata(manifest)).resolve()
    except ManifestError:
        return  # it was taken out of its tree; of captions, that is no error
    place = output.resolve()
    if not manifest.resolve().is_relative_to(root / layout.MANIFESTS):
        return
    for own in (root / layout.MANIFESTS, root / layout.CORPORA):
        if place.is_relative_to(own):
            raise OutputError(f"{output} is within {own}, which the workflow fills; choose another folder")


def claim(output: Path, form: str, manifest: Path, parts: Iterable[str], folders: Iterable[Path]) -> None:
    """Make the folder of an export, or take one of the same export.

    `parts` say what is exported (dataset, kind, suites); `folders` hold the corpus' files.
    Raises `OutputError` for a folder with other files or with another export, and for one that holds the corpus.
    """
    described = {"format": form, "corpus": "/".join(parts), "perturbations": __version__}
    _check_place(output, manifest, folders)
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


def _check_place(output: Path, manifest: Path, folders: Iterable[Path]) -> None:
    if output.is_symlink() or (output / DATA).is_symlink():
        raise OutputError(f"{output} is a link to another folder, or holds one; choose another folder")
    place = output.resolve()
    corpus = {folder.resolve() for folder in folders} | {manifest.resolve().parent}
    if any(place == held or held in place.parents or place in held.parents for held in corpus):
        raise OutputError(f"{output} is within the corpus that is exported, or around it; choose another folder")


def form_of(output: Path) -> object:
    """The format of the export in a folder; None of a folder that is none."""
    return (_read(output / MARKER) or {}).get("format")


def _read(marker: Path) -> dict[str, object] | None:
    try:
        return jsontext.mapping(marker.read_bytes())
    except (OSError, ValueError):
        return None


def prune(output: Path, kept: Collection[Path]) -> None:
    """Delete the files below `data` that this export did not write, and folders that are empty then."""
    names = {str(path) for path in kept}
    for path in sorted((output / DATA).rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            with suppress(OSError):
                path.rmdir()
        elif str(path) not in names:
            path.unlink(missing_ok=True)


def write_left_out(output: Path, findings: Iterable[Finding]) -> None:
    """List the rows without a clip, or delete the list of an earlier export where there is none."""
    lines = [[for_spreadsheets(finding.subject), for_spreadsheets(finding.problem)] for finding in findings]
    if not lines:
        (output / LEFT_OUT).unlink(missing_ok=True)
        return
    content = io.StringIO()
    csv.writer(content, lineterminator="\n").writerows([["row", "problem"], *lines])
    storage.write_text_if_changed(output / LEFT_OUT, content.getvalue())
