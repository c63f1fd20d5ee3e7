"""The items of one shard, one after another: rows out, failures quarantined, finished items kept after a kill."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from perturbations import analyses, guidance, jsontext, manifest, media, pipeline, registry, storage, supervise
from perturbations.errors import MediaError
from perturbations.media import Frame
from perturbations.progress import Tick, no_tick, ticking
from perturbations.recipe import RECIPE_ID_LENGTH, Recipe, analysis_of, canonical, recipe_id
from perturbations.rendering import Cut, Row, Source, clip_of, cut_of, source_of

log = logging.getLogger("perturbations")

NOTHING_KNOWN = guidance.Known()


def source_row(dataset: str, listed: Row, tick: Tick = no_tick) -> Row:
    """Decode a listed clip whole and describe it. Raises `MediaError` when anything about it is wrong."""
    path = Path(listed["path"])
    info = media.probe(path)
    if listed["bytes"] is not None and path.stat().st_size != listed["bytes"]:
        raise MediaError("the file changed while the run was starting; run again")
    digest = hashlib.sha256()
    count = 0
    last: Frame | None = None
    for last in ticking(media.decode(clip_of(listed, path)), tick):
        digest.update(last.image.data)
        count += 1
    assert last is not None
    return {
        **_listed_columns(dataset, listed),
        "bytes": path.stat().st_size,
        "sha256": storage.sha256(path),
        "frames_sha256": digest.hexdigest(),
        "codec": info.codec,
        "pix_fmt": info.pix_fmt,
        "width": last.image.shape[1],
        "height": last.image.shape[0],
        "fps": float(info.frame_rate),
        "frame_count": count,
        "duration_s": float(last.pts * info.time_base + 1 / info.frame_rate),
        "rotation": info.rotation,
        "status": manifest.COMPLETE,
    }


def quarantined_source_row(dataset: str, listed: Row, stage: str, error: str) -> Row:
    """The row of a listed clip that cannot be used, with the reason."""
    return {**_listed_columns(dataset, listed), "status": manifest.QUARANTINED, "stage": stage, "error": error}


def _listed_columns(dataset: str, listed: Row) -> Row:
    names = ("split", "item_id", "source_video_id", "path", "start_s", "end_s")
    return {"dataset": dataset, **{name: listed.get(name) for name in names}}


def video_row(
    recipe: Recipe,
    source: Row,
    relative_path: str | None,
    known: guidance.Known = NOTHING_KNOWN,
    cut: Cut | None = None,
) -> Row:
    """The columns of a corpus entry that are known before it is made.

    Raises `MediaError` when what a guided recipe must know of the clip is not known.
    """
    facts = guidance.facts(recipe, source, known) if "guide" in recipe else None
    return _video_row(recipe, source, relative_path, known, facts, cut)


def _video_row(
    recipe: Recipe,
    source: Row,
    relative_path: str | None,
    known: guidance.Known,
    facts: Row | None = None,
    cut: Cut | None = None,
) -> Row:
    entry = registry.get(f"{recipe['suite']}/{recipe['perturbation']}")
    columns = {name: source[name] for name in ("dataset", "item_id", "start_s", "end_s")}
    about_source = {"source_path": source["path"], "source_sha256": source["sha256"]}
    measured = {name: source[name] for name in ("width", "height", "fps", "frame_count", "duration_s")}
    guide = None if facts is None else canonical(facts)
    donor = (facts or {}).get("donor", {})
    place = None if cut is None else canonical(asdict(cut))
    return {
        **columns,
        **about_source,
        "source_frame_count": source["frame_count"],
        **measured,
        **{name: recipe[name] for name in ("suite", "perturbation", "severity", "variant", "draw", "seed")},
        "level": entry.level,
        "params": canonical(recipe["params"]),
        "backend": canonical(guidance.backend_of(recipe, known, source["item_id"])),
        "guide": guide,
        "donor_id": donor.get("item_id"),
        "donor_similarity": (facts or {}).get("similarity"),
        "recipe": canonical(recipe),
        "recipe_id": recipe_id(recipe, source["dataset"], {**columns, **about_source}, guide, place),
        "cut": place,
        "path": relative_path,
        "storage": storage_name(recipe),
    }


def storage_name(recipe: Recipe) -> str:
    """`video/high`, `frames/12` or `recipe`."""
    settings = recipe["storage"]
    return "/".join(str(settings[name]) for name in ("tier", "profile", "num_frames") if name in settings)


def run_sources(
    dataset: str, listed: Sequence[Row], *, stall_limit_s: float, prepare: Callable[[Row], None] | None = None
) -> Iterator[Row]:
    """Yield the `sources` row of each listed clip, complete or quarantined.

    `prepare` is called with each listed clip first (the demo draws its videos there).
    """

    def work(row: Row, tick: Tick) -> Row:
        if prepare is not None:
            prepare(row)
        return source_row(dataset, row, tick)

    for outcome in supervise.run(work, listed, stall_limit_s=stall_limit_s):
        if outcome.error is None:
            assert outcome.result is not None
            yield outcome.result
        else:
            log.warning("quarantined %r: %s", outcome.task["item_id"], outcome.error)
            yield quarantined_source_row(dataset, outcome.task, "source", outcome.error)


def run_videos(
    recipe: Recipe,
    sources: Sequence[Row],
    *,
    root: Path,
    folder: Path,
    journal: Path,
    stall_limit_s: float,
    known: guidance.Known = NOTHING_KNOWN,
    videos: Sequence[Row] = (),
    check: bool = True,
) -> Iterator[Row]:
    """Yield the `videos` row of every complete source, making what is not there yet.

    `folder` takes the files and `journal` the finished rows, so that an interrupted shard goes on where it was.
    Paths in rows are relative to `root`. `known` is what guided recipes need of the clips. `videos` are the rows of the
    whole videos, where clips are cut from those.
    """
    suffix = pipeline.extension(recipe)
    cut_of_source = _Cuts(videos) if recipe.get("whole_videos") else lambda source: None
    rows: list[Row] = []
    failed: list[Row] = []
    for source in sources:
        target = folder / (storage.file_stem(source["item_id"]) + suffix) if suffix else None
        path = target.relative_to(root).as_posix() if target else None
        stage = "source"
        try:
            cut = cut_of_source(source)
            stage = "analysis"
            rows.append(video_row(recipe, source, path, known, cut))
        except MediaError as error:
            log.warning("quarantined %r: %s", source["item_id"], error)
            failed.append(_quarantined(_video_row(recipe, source, None, known), stage, str(error)))
        if target:
            storage.remove_leftovers(target)
    by_item = {source["item_id"]: source for source in sources}

    def work(task: Sequence[Row], tick: Tick) -> list[Row]:
        (row,) = task
        facts = json.loads(row["guide"] or "{}")
        motion = _motion_file(known.rows[row["item_id"]], root) if _follows_motion(recipe) else None
        cut = Cut(**json.loads(row["cut"])) if row["cut"] else None
        clip = source_of(by_item[row["item_id"]])
        source = replace(clip, facts=facts, motion=motion, cut=cut, scratch=Path(scratch) if cut else None)
        target = root / row["path"] if row["path"] else root
        made = pipeline.produce(recipe, source, target, tick, check=check)
        return [{**row, **made, "status": manifest.COMPLETE}]

    yield from failed
    # Clips of one video follow each other: they share what was decoded or encoded of it.
    rows.sort(key=lambda row: (row["source_path"], row["start_s"] or 0.0, row["item_id"]))
    with storage.scratch_directory() as scratch:
        yield from _resumed(rows, work, 1, "video", journal, root, stall_limit_s)


class _Cuts:
    """Where clips stand in their videos; `videos` are rows of a `sources` manifest."""

    def __init__(self, videos: Sequence[Row]) -> None:
        self._rows = {row["item_id"]: row for row in videos}
        self._found: dict[str, Source] = {}

    def __call__(self, source: Row) -> Cut:
        """Raises `MediaError` when the video cannot be used, or does not have the clip's frames."""
        video_id = source["source_video_id"]
        row = self._rows.get(video_id)
        if row is None:
            raise MediaError("its whole video is not listed: run the workflow, which lists it")
        if row["status"] != manifest.COMPLETE:
            raise MediaError(f"its whole video cannot be used: {row['error']}")
        if video_id not in self._found:
            self._found[video_id] = source_of(row)
        return cut_of(source, self._found[video_id])


def source_with_facts(recipe: Recipe, source: Row, donors: Sequence[Row] = ()) -> Source:
    """A clip ready to be rendered on its own, analysed here and now; `donors` are source rows like `source`.

    Motion is not analysed ahead: rendering follows it. Raises `MediaError` when nothing suitable was found.
    """
    clip = source_of(source)
    analysis = analysis_of(recipe)
    if "guide" not in recipe or _follows_motion(recipe):
        return clip
    rows: list[Row] = []
    if analysis is not None:
        analyse = analyses.analyser(analysis, {})
        for one in (source, *donors):
            (found,) = analyse([source_of(one)], [None], no_tick)
            if isinstance(found, MediaError):
                raise found
            rows.append({**analyses.row_of(analysis, one, None), **found, "status": manifest.COMPLETE})
    known = guidance.Known({row["item_id"]: row for row in rows[:1]}, rows[1:])
    return replace(clip, facts=guidance.facts(recipe, source, known))


def _follows_motion(recipe: Recipe) -> bool:
    analysis = analysis_of(recipe)
    return analysis is not None and analysis["analysis"] == "motion"


def _motion_file(row: Row, root: Path) -> Path | None:
    """A clip's motion as it was analysed; None, so that it is computed once more, when the file is not what it was."""
    path = root / str(row["path"])
    if path.is_file() and storage.sha256(path) == row["sha256"]:
        return path
    log.warning("the motion of %r is no longer in %s: computing it again", row["item_id"], path)
    return None


def run_analysis(
    recipe: Recipe,
    sources: Sequence[Row],
    *,
    root: Path,
    folder: Path,
    journal: Path,
    stall_limit_s: float,
    captions: Mapping[str, Row] | None = None,
) -> Iterator[Row]:
    """Yield the `analyses` row of every complete source, analysing what was not analysed before.

    `folder` takes the files that an analysis keeps beside its rows. `captions` are the main-object rows by item, for
    the analysis "caption_embedding".
    """
    suffix = analyses.extension(recipe)
    rows = []
    for source in sources:
        target = folder / (storage.file_stem(source["item_id"]) + suffix) if suffix else None
        rows.append(analyses.row_of(recipe, source, target.relative_to(root).as_posix() if target else None))
        if target:
            storage.remove_leftovers(target)
    by_item = {source["item_id"]: source for source in sources}
    analyse = analyses.analyser(recipe, captions or {})

    def work(task: Sequence[Row], tick: Tick) -> list[Row]:
        clips = [source_of(by_item[row["item_id"]]) for row in task]
        targets = [root / row["path"] if row["path"] else None for row in task]
        found = analyse(clips, targets, tick)
        return [
            _quarantined(row, "analysis", str(one))
            if isinstance(one, MediaError)
            else {**row, **one, "status": manifest.COMPLETE}
            for row, one in zip(task, found, strict=True)
        ]

    yield from _resumed(rows, work, analyses.clips_at_once(recipe), "analysis", journal, root, stall_limit_s)


def _resumed(
    rows: Sequence[Row],
    work: Callable[[Sequence[Row], Tick], list[Row]],
    together: int,
    stage: str,
    journal: Path,
    root: Path,
    stall_limit_s: float,
) -> Iterator[Row]:
    """Yield each row finished, those of the journal first. `work` takes up to `together` rows at once."""
    finished = _Journal(journal, root, {row["recipe_id"] for row in rows})
    todo = []
    for row in rows:
        done = finished.find(row)
        if done is None:
            todo.append(row)
        else:
            yield done
    if len(todo) < len(rows):
        log.info("%d of %d were finished before and are kept", len(rows) - len(todo), len(rows))
    tasks = [todo[start : start + together] for start in range(0, len(todo), together)]
    for outcome in supervise.run(work, tasks, stall_limit_s=stall_limit_s):
        if outcome.error is None:
            made = outcome.result or []
        elif len(outcome.task) == 1:
            made = [_quarantined(outcome.task[0], stage, outcome.error)]
        else:
            log.warning("%d clips failed together, trying each alone: %s", len(outcome.task), outcome.error)
            yield from _resumed(outcome.task, work, 1, stage, journal, root, stall_limit_s)
            continue
        for row in made:
            if row["status"] == manifest.COMPLETE:
                finished.add(row)
            else:
                log.warning("quarantined %r: %s", row["item_id"], row["error"])
            yield row


def _quarantined(row: Row, stage: str, error: str) -> Row:
    return {**row, "path": None, "status": manifest.QUARANTINED, "stage": stage, "error": error}


class _Journal:
    """The finished rows of a shard, one JSON line each, written as they are finished.

    All shards' journals are looked at: when items come or go, an item's shard may get another name.
    """

    def __init__(self, path: Path, root: Path, wanted: set[str]) -> None:
        self._path = path
        self._root = root
        self._rows: dict[str, Row] = {}
        for journal in sorted(path.parent.glob("*.jsonl")):
            self._rows.update({row["recipe_id"]: row for row in _whole_lines(journal, wanted)})
        # Anew, so that a line cut short by a kill does not swallow the next one.
        storage.write_text(path, "".join(map(_line, self._rows.values())))

    def find(self, row: Row) -> Row | None:
        """The finished form of `row`, when its file is still what it was; paths may have moved."""
        done = self._rows.get(row["recipe_id"])
        if done is None:
            return None
        if row["path"] is not None:
            target = self._root / row["path"]
            if not target.is_file() or target.stat().st_size != done.get("bytes"):
                return None
            if storage.sha256(target) != done.get("sha256"):
                return None
        return {**done, **row}

    def add(self, row: Row) -> None:
        with storage.output_errors(self._path), self._path.open("a", encoding="utf-8") as file:
            file.write(_line(row))


def _line(row: Row) -> str:
    return f"{row['recipe_id']}{json.dumps(row, sort_keys=True)}\n"


def _whole_lines(path: Path, wanted: set[str]) -> Iterator[Row]:
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
        # The id stands first, so that other shards' lines need not be parsed.
        if line[:RECIPE_ID_LENGTH] in wanted:
            try:
                row = jsontext.parse(line[RECIPE_ID_LENGTH:])
            except ValueError:
                continue  # cut short by a kill
            if isinstance(row, dict) and row.get("recipe_id") == line[:RECIPE_ID_LENGTH]:
                yield row
