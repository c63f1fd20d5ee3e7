"""Jobs that are killed at random moments and run again: what they work on, how they die, what is compared."""

from __future__ import annotations

import json
import os
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow.parquet as pq

from perturbations.base import storage
from perturbations.cli.main import main
from perturbations.config import sections as config
from perturbations.engine import render_clip, shards
from perturbations.guides import registry as guides
from perturbations.guides.guide import AnalysisRecipe
from perturbations.manifest.layout import INDEX
from perturbations.media import encoding
from perturbations.media.clip import Frame, Timing
from perturbations.plan import caption_recipes, listed, recipe, tiers
from perturbations.plan.listed import ListedCaption, ListedClip
from perturbations.suites import registry

TIERS = ("video/high", "frames/5", "recipe", "tar")
ANALYSES = ("motion", "main_object", "embedding")
TEXTS = ("mm_robustness/keyboard", "mm_robustness/char_swap", "mm_robustness/word_delete", "msrvtt_p/typos")
FRAMES = {"a": 9, "b": 12, "c": 8, "d": 10, "e": 11, "f b": 12}  # of each clip
KINDS = ("all", "main", "worker", "ffmpeg")
PATIENCE_S = 20.0


@dataclass(frozen=True)
class Job:
    """A command, what it belongs to, and which of its processes can be killed."""

    group: str
    name: str
    command: tuple[str, ...]
    kinds: tuple[str, ...]


# --- what jobs work on -----------------------------------------------------------------------------------------------


def draw_clips(folder: Path) -> None:
    rate = Fraction(10)
    folder.mkdir(parents=True)
    for index, (name, count) in enumerate(FRAMES.items()):
        height, width = (48, 64) if name != "d" else (40, 72)
        still = np.random.default_rng(index).integers(0, 256, (height // 8, width // 8, 3), dtype=np.uint8)
        still = still.repeat(8, axis=0).repeat(8, axis=1)
        frames = (Frame(np.roll(still, 3 * number, axis=1), number, number) for number in range(count))
        encoding.encode(frames, folder / f"{name}.mp4", storage.PROFILES["compatible"], Timing(1 / rate, rate))


def write_lists(base: Path) -> None:
    clips = [ListedClip(item_id=name, source_video_id=name, path=f"base/videos/{name}.mp4") for name in FRAMES]
    described = [
        ListedCaption(caption_id=f"{i}", item_id=name, text=f"a man rides the {i}th bicycle to {name}")
        for i, name in enumerate(list(FRAMES) * 8)
    ]
    listed.write(base / "listed.jsonl", clips)
    listed.write(base / "captions.jsonl", described)
    rows = [{"item_id": name, "caption": f"a caption of {name}"} for name in list(FRAMES)[:3]]
    (base / "annotations.json").write_text(json.dumps(rows))


def prepare(root: Path, recipes: Sequence[recipe.VideoRecipe]) -> list[Job]:
    """Write the inputs of jobs under `root/base`; returns the jobs of analyses and captions."""
    finish(fork(root, lambda: draw_clips(root / "base" / "videos")))
    write_lists(root / "base")
    sources = ("--sources", "base/sources.parquet")
    settings = json.dumps({"dataset": "drawn", "version": 1, "drawn": False})
    run_perturb(root, "rule", "sources", settings, "--listed", "base/listed.jsonl", "--part", sources[1])
    needed = {job_recipe.analysis.text: job_recipe.analysis for job_recipe in recipes if job_recipe.analysis}
    for name in ANALYSES:
        own = recipe.analysis(name, config.Backends(), tiers.Unstored())
        needed[own.text] = own
    jobs = []
    for text, analysis in needed.items():
        command = ("rule", "analyses", json.dumps({"recipe": json.loads(text)}), *sources, "--part")
        run_perturb(root, *command, part_of(analysis))
        name = f"{analysis.analysis} {getattr(analysis, 'num_frames', None) or ''}".strip()
        jobs.append(Job("analyses", name, (*command, "parts/s1.parquet"), KINDS[:3]))
    for key in TEXTS:
        entry, recipes = registry.get(key), f"base/{key.replace('/', '-')}.jsonl"
        followed = {
            f"{entry.name}/{severity}": caption_recipes.make(entry, severity).text for severity in entry.severities
        }
        listed.write_recipes(root / recipes, followed)
        command = ("rule", "texts", '{"dataset": "drawn"}', "--recipes", recipes, "--captions", "base/captions.jsonl")
        jobs.append(Job("captions", key, (*command, "--marker", "parts/s1.json"), ("main",)))
    return jobs


def part_of(analysis: AnalysisRecipe) -> str:
    """In a folder of its own, as the analysis' files lie beside it."""
    return f"base/{analysis.analysis}-{recipe.digest(analysis.text)}/s1.parquet"


def video_recipes(names: Sequence[str]) -> dict[tuple[str, str], recipe.VideoRecipe]:
    settings: dict[str, tiers.Storage] = {
        "video/high": tiers.stored_video("high"),
        "frames/5": tiers.StoredFrames(num_frames=5),
        "recipe": tiers.Unstored(),
        "tar": tiers.StoredFrames(num_frames=5),
    }
    return {
        (tier, entry.key): recipe.make(
            entry, min(3, len(entry.severities)), seed=0, storage=settings[tier], donors="drawn"
        )
        for tier in names
        for entry in registry.perturbations(kind="video")
    }


def video_job(tier: str, key: str, job_recipe: recipe.VideoRecipe) -> Job:
    settings = {"recipe": json.loads(job_recipe.text), **({"tar": True} if tier == "tar" else {})}
    command = ["rule", "videos", json.dumps(settings), "--sources", "base/sources.parquet"]
    if job_recipe.analysis:
        command += ["--donors" if job_recipe.donors else "--analysis", part_of(job_recipe.analysis)]
    markers = [] if tier == "recipe" else ["corpus/.s1.json"]
    command += ["--output+", *markers, "parts/s1.parquet"]
    is_codec = registry.get(key).method == "codec"
    return Job(tier, key, tuple(command), KINDS if is_codec else KINDS[:3])


# --- processes -------------------------------------------------------------------------------------------------------


def fork(folder: Path, call: Callable[[], int | None]) -> int:
    """Start a call in a process and session of its own, in `folder`; returns its id."""
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        os.setsid()
        os.chdir(folder)
        log = os.open("job.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for descriptor in (1, 2):
            os.dup2(log, descriptor)
        code = call() or 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        os._exit(code)


def finish(pid: int) -> None:
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise SystemExit("what the jobs need cannot be made")


def run_perturb(folder: Path, *command: str) -> None:
    finish(fork(folder, lambda: main(command)))


def note(word: str) -> None:
    """Append a word to the diary of the job in this folder."""
    file = os.open("diary", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, word.encode() + b"\n")
    os.close(file)


def noted(job: Job, run: int) -> int:
    """A job's run, by number, which writes down each item that it begins."""
    produce = render_clip.produce

    def begun(job_recipe: recipe.VideoRecipe, source: Any, *rest: Any, **named: Any) -> Any:
        note(f"item {run} {source.item_id}")
        return produce(job_recipe, source, *rest, **named)

    def telling(analyse: Callable[..., Any]) -> Callable[..., Any]:
        def look(analysis: AnalysisRecipe, clips: Any, *rest: Any, **named: Any) -> Any:
            note(f"item {run} {clips[0].item_id}")
            return analyse(analysis, clips, *rest, **named)

        return look

    shards.render_clip.produce = begun  # type: ignore[assignment]
    for kind in map(guides.analysis, guides.ANALYSES):
        kind.run = telling(kind.run)  # type: ignore[method-assign]
    return main(job.command)


def children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(word) for path in Path(f"/proc/{pid}/task").glob("*/children") for word in path.read_text().split()]
    return []


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def victims(pid: int, kind: str) -> list[int]:
    workers = children(pid)
    ffmpegs = [child for worker in workers for child in children(worker)]
    return {"all": [pid, *workers, *ffmpegs], "main": [pid], "worker": workers, "ffmpeg": ffmpegs}[kind]


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return -1


def strike(
    pid: int, kind: str, moment_s: float, folder: Path, *, on_journal: bool, number: int, seen: set[int]
) -> int | None:
    """Kill once a moment has come and there is something to kill; the exit code of a job that ends before."""
    due, journal = time.monotonic() + moment_s, folder / "parts" / "s1.jsonl"
    before = size_of(journal)
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        now = time.monotonic()
        if now >= due or (on_journal and size_of(journal) != before):
            killed = victims(pid, kind)
            if killed:
                break
        time.sleep(0.0005 if on_journal else max(0.001, min(due - now, 0.01)))
    seen.update(victims(pid, "all"))
    tell(folder, f"from {number}")
    for victim in killed:
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE_S
    while not all(map(is_gone, killed)) and time.monotonic() < deadline:
        time.sleep(0.0005)  # a process may still end the write that it is in
    tell(folder, f"till {number}")
    return None


def tell(folder: Path, word: str) -> None:
    with (folder / "diary").open("a") as file:
        file.write(f"{word}\n")


# --- rounds ----------------------------------------------------------------------------------------------------------


def new_folder(root: Path) -> Path:
    folder = Path(tempfile.mkdtemp(dir=root))
    (folder / "base").symlink_to(root / "base")
    return folder


def undisturbed(root: Path, job: Job) -> tuple[Path, float]:
    folder = new_folder(root)
    start = time.monotonic()
    finish(fork(folder, lambda: noted(job, 0)))
    return folder, time.monotonic() - start


def disturbed(root: Path, job: Job, whole_s: float, most: int, generator: random.Random) -> tuple[Path, Counter[str]]:
    """Run a job until it ends well, killing at most so often; returns its folder and what was counted."""
    folder, counts, seen = new_folder(root), Counter({"rounds": 1}), set[int]()
    code = None
    while code != 0:
        counts["runs"] += 1
        run = counts["runs"]
        pid, code, kind = fork(folder, lambda run=run: noted(job, run)), None, "none"
        while code is None and kind not in KINDS[:2]:
            kind = generator.choice(job.kinds)
            kills = sum(counts[each] for each in KINDS)
            moment = generator.uniform(0, whole_s) if kills < most else float("inf")
            on_journal = kills < most and generator.random() < 0.3
            code = strike(pid, kind, moment, folder, on_journal=on_journal, number=kills, seen=seen)
            counts[kind] += code is None
        if code is None:
            os.waitpid(pid, 0)
            tell(folder, f"ended {kills} {run}")
        counts["stopped"] += code == 1
        if (code or 0) > 1 or counts["stopped"] > 3 * most:
            raise SystemExit(f"{job.name}: exit status {code}: {(folder / 'job.log').read_text()[-2000:]}")
    deadline = time.monotonic() + PATIENCE_S
    while not all(map(is_gone, seen)) and time.monotonic() < deadline:
        time.sleep(0.01)
    counts["survivors"] += sum(not is_gone(pid) for pid in seen)
    return folder, counts


def redone(diary: Path) -> Counter[int | None]:
    """How many items were begun once more because of each kill; None: without any."""
    lines = [line.split(" ", 2) for line in diary.read_text().splitlines()] if diary.exists() else []
    first = {int(line[1]): at for at, line in enumerate(lines) if line[0] == "from"}
    last = {int(line[1]): at for at, line in enumerate(lines) if line[0] == "till"}
    for line in lines:
        if line[0] == "ended":  # what a run's processes still wrote as they died was before its end
            wrote = [at for at, other in enumerate(lines) if other[:2] == ["item", line[2]]]
            last[int(line[1])] = max([last[int(line[1])], *(at + 1 for at in wrote)])
    begun: dict[str, int] = {}
    again = set()
    for at, line in enumerate(lines):
        if line[0] == "item":
            item = line[2]
            if item in begun:
                killed = [number for number in first if last[number] > begun[item] and first[number] < at]
                again.add((killed[-1] if killed else None, item))
            begun[item] = at
    return Counter(number for number, _ in again)


def compared(expected: Path, actual: Path, folders: Sequence[str]) -> Counter[str]:
    """Differences of two folders' trees: cells, files, and what is beside the files.

    Not the page of pages: it says how much space is free, and a run without jobs writes none.
    """
    trees = [
        {p.relative_to(f): p for n in folders for p in (f / n).rglob("*") if p.is_file() and p != f / INDEX}
        for f in (expected, actual)
    ]
    counts = Counter({"leftovers": len(trees[1].keys() - trees[0].keys())})
    counts["files"] += len(trees[0].keys() - trees[1].keys())
    for name in trees[0].keys() & trees[1].keys():
        first, other = trees[0][name], trees[1][name]
        counts["files seen"] += 1
        if name.suffix == ".lock":
            continue  # it names the process that a kill ended, where nothing was left to do
        if name.suffix == ".jsonl":
            counts["files"] += set(first.read_text().splitlines()) != set(other.read_text().splitlines())
            continue
        counts["files"] += first.read_bytes() != other.read_bytes()
        if name.suffix == ".parquet":
            cells = [list(cells_of(path)) for path in (first, other)]
            counts["cells seen"] += len(cells[0])
            counts["cells"] += sum(a != b for a, b in zip(*cells, strict=False)) + abs(len(cells[0]) - len(cells[1]))
    return counts


def cells_of(path: Path) -> Iterator[str]:
    for row in pq.read_table(path, partitioning=None, use_threads=False).to_pylist():
        yield from (f"{name}={value!r}" for name, value in row.items())


def names_of(expected: Path, actual: Path) -> list[str]:
    """Which files only one of two folders has."""
    trees = [{str(path.relative_to(f)) for path in f.rglob("*") if path.is_file()} for f in (expected, actual)]
    return sorted(trees[0] ^ trees[1])[:8]
