"""How many faults `perturb verify` finds: a small corpus, one fault at a time, and what verifying says of it.

    python benchmarks/faults.py --faults 1000 --seed 0

Faults are of manifests (rows lost, doubled, relabelled, every cell of every column and every entry of the metadata
edited, with the file's own hashes kept or computed anew), of sets (manifests and folders deleted, swapped, damaged), of
pages, and of files. Prints a table by class: how many were found, and what `--repair` did of them. A repair is right
where everything then equals the original to the byte, or where what was changed is untouched and still reported.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from perturbations import __version__
from perturbations.base import storage, sums
from perturbations.manifest import cells, files, parquet, roots
from perturbations.manifest.columns import Column, columns_of
from perturbations.verify import run

CONFIG = """
seed: 0
datasets:
  tiny: {adapter: demo, clips: 3}
suites:
  mlvp:
    perturbations: [gaussian_noise, h264_compression, main_object_occlusion, event_insertion, temporal_scrambling]
    severities: [1, 5]
  msrvtt_p:
    perturbations: [jpeg]
    severities: [3]
    captions: {perturbations: [typos, shuffle_order, drop_first], severities: all}
storage: {tier: video, profile: high}
"""


@dataclass(frozen=True)
class Fault:
    """A fault, its class, and whether only making things again can show it; `inject` is false where nothing changes."""

    kind: str
    inject: Callable[[Path, np.random.Generator], bool | None]
    deep: bool = False


# Cells that follow from nothing else that is stored: only the content hash shows that they were edited.
_FREE = {
    "sources": {"split", "source_video_id", "error", "stage"},
    "captions": {"text", "item_id", "dataset", "caption_id"},
    "text_statistics": {"meteor"},
    "videos": {"error", "stage"},
}


def make_corpus(root: Path, snakemake: Sequence[str] = (sys.executable, "-m", "snakemake")) -> None:
    """A corpus of three drawn clips, with captions; `snakemake` begins the command."""
    project = Path(__file__).parents[1]
    root.mkdir(parents=True)
    (root / "config.yaml").write_text(CONFIG, encoding="utf-8")
    command = [*snakemake, "--snakefile", project / "Snakefile", "--directory", root, "--cores"]
    targets = ["mlvp_tiny", "msrvtt_p_tiny", "text_msrvtt_p_tiny"]
    subprocess.run([*map(str, command), "2", "--quiet", "all", "--", *targets], check=True)


def findings(root: Path, *, fast: bool) -> list[str]:
    """What verifying says of a tree, from its root."""
    options = run.Options(fast=fast, stall_limit_s=60, version=__version__)
    with contextlib.chdir(root):
        return [str(finding) for summary in run.verify([Path("manifests")], options) for finding in summary.findings]


Files = dict[str, bytes]
_Change = Callable[[pa.Table, int, np.random.Generator], pa.Table | None]
_HOW = {False: "hashes kept", True: "hashes anew"}


def contents(root: Path) -> Files:
    """Everything that a run wrote into a tree for people: manifests, pages, pictures, stored files."""
    paths = [path for name in ("manifests", "corpora") for path in (root / name).rglob("*")]
    files_there = filter(Path.is_file, paths)
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).digest() for path in files_there}


def repair(root: Path, sound: Files, *, fast: bool) -> tuple[bool, str]:
    """Whether a fault of a tree was found, and what a repair did: "mended", "reported", or else "spread" and where."""
    damaged = contents(root)
    options = run.Options(fast=fast, repair=True, stall_limit_s=60, version=__version__)
    with contextlib.chdir(root):
        summaries = list(run.verify([Path("manifests")], options))
        reported = [finding for summary in summaries for finding in (*summary.findings, *summary.repaired)]
    after = contents(root)
    names = {*sound, *after}
    wrong = {name for name in names if after.get(name) != sound.get(name)}
    spread = sorted(name for name in wrong if after.get(name) != damaged.get(name))
    if spread:
        return bool(reported), f"spread to {', '.join(spread[:4])}"
    if findings(root, fast=fast):
        return bool(reported), "reported"
    return bool(reported), "mended" if not wrong else f"not reported: {', '.join(sorted(wrong)[:4])}"


# --- faults of manifests ---------------------------------------------------------------------------------------------


def manifests(root: Path) -> list[Path]:
    """Every manifest of a tree that has rows."""
    return [path for path in sorted((root / "manifests").rglob("*.parquet")) if len(pq.read_table(path))]


def edited(column: Column, table: pa.Table, row: int, generator: np.random.Generator) -> pa.Table | None:
    """A table with one cell changed to another value of its type; None where it cannot be."""
    values = table[column.name].to_pylist()
    value = values[row]
    if column.words is not None:
        other: Any = next(word for word in column.words if word != value)
    elif column.type is bool:
        other = not value
    elif column.type is int:
        other = 7 if value is None else value + int(generator.integers(1, 9))
    elif column.type is float:
        other = 1.5 if value is None else (30.0 if np.isinf(value) else value * 1.01 + 0.01)
    elif column.type is tuple:
        other = None if value is None else [*value[:-1], value[-1] + 0.5]
    else:
        other = "x" if not value else value[:-1] + ("y" if value[-1] != "y" else "z")
    values[row] = other
    return replaced(table, column.name, values)


def replaced(table: pa.Table, name: str, values: list[Any]) -> pa.Table:
    """A table with other values in a column."""
    place = table.column_names.index(name)
    return table.set_column(place, table.schema.field(place), pa.array(values, table.schema.field(place).type))


def write(path: Path, table: pa.Table, *, hashed: bool) -> None:
    """Write a table as it is, or as the package would, hashes and all."""
    if not hashed:
        pq.write_table(table, path, compression="zstd")
        return
    kind, about = files.kind_of(path), files.read_metadata(path)
    described = {**about, **cells.describe(kind, cells.of_table(table))}
    if "metadata_sha256" in about:
        described["metadata_sha256"] = files.metadata_sha256(described)
    parquet.encode([table], described, path)


def cell_faults(root: Path) -> Iterator[Fault]:
    """One per manifest, column and way of writing it."""
    for path in manifests(root):
        kind = files.kind_of(path)
        for column in columns_of(kind.row):
            for hashed, how in _HOW.items():
                if not (hashed and column.name in _FREE.get(kind.name, ())):
                    change = partial(edited, column)
                    yield Fault(f"cell of {kind.name}, {how}", _rows(path.relative_to(root), change, hashed), hashed)


_METADATA = ("comparability", "config_digest", "tools", "cpu_features", "package_version", "dataset", "set", "unknown")


def metadata_faults(root: Path) -> Iterator[Fault]:
    """One per manifest, entry of the metadata and way of writing it."""
    for path in manifests(root):
        for name in _METADATA:
            if name != "unknown" and name not in files.read_metadata(path):
                continue
            for hashed, how in _HOW.items():
                yield Fault(f"metadata, {how}", _metadata(path.relative_to(root), name, hashed))


def _metadata(path: Path, name: str, hashed: bool) -> Callable[[Path, np.random.Generator], bool]:
    def inject(root: Path, generator: np.random.Generator) -> bool:
        about = files.read_metadata(root / path)
        about[name] = {**about[name], "skipped": [], "listed": 9} if isinstance(about.get(name), dict) else "forged"
        if hashed and "metadata_sha256" in about:
            about["metadata_sha256"] = files.metadata_sha256(about)
        parquet.encode([pq.read_table(root / path)], about, root / path)
        return True

    return inject


def row_faults(root: Path) -> Iterator[Fault]:
    """Rows lost, doubled, emptied, swapped, relabelled."""

    def lost(table: pa.Table, row: int, _: np.random.Generator) -> pa.Table:
        return pa.concat_tables([table.slice(0, row), table.slice(row + 1)])

    def doubled(table: pa.Table, row: int, _: np.random.Generator) -> pa.Table:
        return pa.concat_tables([table, table.slice(row, 1)])

    def emptied(table: pa.Table, row: int, _: np.random.Generator) -> pa.Table:
        return table.slice(0, 0)

    def halved(table: pa.Table, row: int, _: np.random.Generator) -> pa.Table:
        return table.slice(0, len(table) // 2)

    def swapped(table: pa.Table, row: int, _: np.random.Generator) -> pa.Table:
        """Two rows exchange all but their keys."""
        name = "text" if "text" in table.column_names else "path" if "path" in table.column_names else None
        if name is None or len(table) < 2:
            return table
        values = table[name].to_pylist()
        other = (row + 1) % len(values)
        values[row], values[other] = values[other], values[row]
        return replaced(table, name, values)

    for path in manifests(root):
        for change in (lost, doubled, emptied, halved, swapped):
            for hashed, how in _HOW.items():
                if hashed and path.stem == "captions" and change is swapped and path.parent.name == "tiny":
                    continue  # which text is whose is told by nothing else, but where captions are perturbed
                yield Fault(f"row {change.__name__}, {how}", _rows(path.relative_to(root), change, hashed), deep=hashed)


def _rows(path: Path, change: _Change, hashed: bool) -> Callable[[Path, np.random.Generator], bool]:
    def inject(root: Path, generator: np.random.Generator) -> bool:
        table = pq.read_table(root / path)
        changed = change(table, int(generator.integers(len(table))), generator)
        if changed is None or changed.equals(table):
            return False
        write(root / path, changed, hashed=hashed)
        return True

    return inject


def file_faults(root: Path) -> Iterator[Fault]:
    """Manifests and stored files deleted, damaged, exchanged, or somebody else's."""
    for path in sorted((root / "manifests").rglob("*.parquet")):
        place = path.relative_to(root)
        if place.name != "multimodal.parquet":
            yield Fault("manifest deleted", lambda at, generator, place=place: _delete(at / place))
        yield Fault("manifest cut short", lambda at, generator, place=place: _cut(at / place))
        yield Fault("manifest with a byte changed", lambda at, generator, place=place: _flip(at / place, generator))
        yield Fault("manifest made a text", lambda at, generator, place=place: _overwrite(at / place))
    for path in sorted(
        path for path in (root / "manifests/tiny").rglob("*") if path.suffix in (".md", ".png", ".html")
    ):
        place = path.relative_to(root)
        yield Fault("page or picture edited", lambda at, generator, place=place: _flip(at / place, generator))
        yield Fault("page or picture deleted", lambda at, generator, place=place: _delete(at / place))
    for path in sorted((root / "manifests/tiny").glob("*/videos.parquet")):
        place = path.parent.relative_to(root)
        yield Fault("suite deleted", lambda at, generator, place=place: _delete(at / place))
    for place in (Path("corpora/tiny/other/fog/1/a.mp4"), Path("corpora/other/mlvp/fog/1/a.mp4")):
        yield Fault("file of no suite", lambda at, generator, place=place: _plant(at / place))
    if (root / "manifests/tiny/SHA256SUMS").is_file():
        yield Fault("list deleted", lambda at, generator: _delete(at / "manifests/tiny/SHA256SUMS"))
    stored = sorted((root / "corpora").rglob("*.mp4"))
    for path in stored:
        place, other = path.relative_to(root), stored[(stored.index(path) + 1) % len(stored)].relative_to(root)
        yield Fault("file deleted", lambda at, generator, place=place: _delete(at / place))
        yield Fault("file cut short", lambda at, generator, place=place: _cut(at / place))
        yield Fault("file with a byte changed", lambda at, generator, place=place: _flip(at / place, generator))
        yield Fault("file of another row", lambda at, generator, a=place, b=other: _copy(at / b, at / a))
        yield Fault("folder in a file's place", lambda at, generator, place=place: _folder(at / place))
        yield Fault("link in a file's place", lambda at, generator, a=place, b=other: _link(at / a, at / b))
        yield Fault(
            "stranger's file", lambda at, generator, place=place: _copy(at / place, (at / place).with_name("s.mp4"))
        )
        name = f".{path.stem}.part-0123456789ab.mp4"
        yield Fault("leftover", lambda at, generator, a=place, name=name: _copy(at / a, (at / a).with_name(name)))
    for path in sorted({*(root / "work/tiny/videos").glob("*.mp4"), *(root / "videos").glob("[ab].mp4")}):
        place = path.relative_to(root)
        yield Fault("source deleted", lambda at, generator, place=place: _delete(at / place))
        yield Fault("source changed", lambda at, generator, place=place: _flip(at / place, generator))
        yield Fault("source cut short", lambda at, generator, place=place: _cut(at / place))


def _delete(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def _plant(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(b"a stranger's")


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _flip(path: Path, generator: np.random.Generator) -> None:
    data = bytearray(path.read_bytes())
    data[int(generator.integers(len(data)))] ^= 1 << int(generator.integers(8))
    path.write_bytes(data)


def _overwrite(path: Path) -> None:
    path.write_text("not a manifest")


def _copy(source: Path, target: Path) -> None:
    shutil.copy(source, target)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _link(path: Path, target: Path) -> None:
    path.unlink()
    path.symlink_to(target)


def forge(root: Path) -> None:
    """Write the lists of a tree again, as whoever changes a file together with its line does."""
    lying = [path for path in (root / "manifests").rglob("*") if path.is_file() and path.name != sums.NAME]
    for listing in (root / "manifests").rglob(sums.NAME):
        own = {path for path in lying if sums.list_of(path) == listing and path.name != "index.html"}
        names = {path.relative_to(listing.parent).as_posix(): storage.sha256(path) for path in own}
        listing.write_text(sums.text(names))


# --- the run ---------------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--corpus", type=Path, help="a corpus that an earlier run made")
    parser.add_argument("--fast", action="store_true", help="verify and repair without making anything again")
    parser.add_argument(
        "--forged", action="store_true", help="forge the lists too, and count what the root alone finds"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        sound = options.corpus or Path(folder) / "sound"
        if not sound.exists():
            make_corpus(sound)
        for fast in (True,) if options.fast else (True, False):
            if alarms := findings(sound, fast=fast):
                raise SystemExit("false alarms on a sound corpus:\n" + "\n".join(alarms[:20]))
        generator = np.random.default_rng(options.seed)
        known = [*cell_faults(sound), *metadata_faults(sound), *row_faults(sound), *file_faults(sound)]
        order = [
            int(place) for _ in range(-(-options.faults // len(known))) for place in generator.permutation(len(known))
        ]
        original = contents(sound)
        published = roots.roots(sound / "manifests").get(roots.ALL)
        results: dict[str, Counter[str]] = defaultdict(Counter)
        start, done = time.monotonic(), 0
        for place in order:
            if done == options.faults:
                break
            fault = known[place]
            tree = Path(folder) / "tree"
            shutil.rmtree(tree, ignore_errors=True)
            shutil.copytree(
                sound, tree, symlinks=True, ignore=shutil.ignore_patterns(".snakemake", "logs", "benchmarks")
            )
            if fault.inject(tree, generator) is False:
                continue
            done += 1
            if options.forged:
                forge(tree)
                by_root = roots.roots(tree / "manifests")[roots.ALL] != published
            is_fast = options.fast or not fault.deep or bool(findings(tree, fast=True))
            is_found, outcome = repair(tree, original, fast=is_fast)
            if options.forged and not is_found and by_root:
                is_found, outcome = True, "only by the root"
            results[fault.kind].update(["found" if is_found else "missed", outcome.partition(" to ")[0]])
            if not is_found or outcome not in ("mended", "reported", "only by the root"):
                print(f"{fault.kind} (fault {place}): {'' if is_found else 'missed; '}{outcome}", flush=True)
        for kind in sorted(results):
            counts = results[kind]
            total = counts["found"] + counts["missed"]
            outcomes = " | ".join(f"{counts[name]}" for name in ("found", "mended", "reported", "only by the root"))
            print(f"| {kind} | {total} | {outcomes} |")
        all_of = sum(results.values(), Counter())
        rooted = all_of["only by the root"]
        wrong = done - all_of["mended"] - all_of["reported"] - rooted
        kept = f"{all_of['mended']} mended, {all_of['reported']} reported, {wrong} repaired wrongly"
        print(f"{done} faults of {len(results)} classes: {all_of['found']} found, {rooted} only by the root; {kept}")
        print(f"{time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
