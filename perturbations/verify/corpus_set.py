"""A corpus as a set: the expected rows of a videos manifest, from its neighbours and the declarations."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from pathlib import Path

from perturbations.base import storage, tars
from perturbations.base.errors import ConfigError, ManifestError, MediaError
from perturbations.engine import clip_rows, guided, packing, render_clip
from perturbations.engine.source import Cut, Cuts, parse_cut
from perturbations.guides import registry as guides
from perturbations.guides.registry import Known
from perturbations.manifest import layout, locations, sets
from perturbations.manifest.kinds import ANALYSES, COMPLETE, SOURCES, AnalysisRow, CompleteSource, SourceRow, VideoRow
from perturbations.manifest.machine import tool_versions
from perturbations.manifest.row_groups import GROUP, StoredRows
from perturbations.media import sound
from perturbations.plan import clip_markers
from perturbations.plan.recipe import VideoRecipe, other_version, recorded
from perturbations.verify.clip_checks import ClipCheck
from perturbations.verify.derived import doubled
from perturbations.verify.findings import Finding, name_of
from perturbations.verify.tree import Manifest, Tree

_Scenario = tuple[str, int]
_Expecting = Callable[[CompleteSource, VideoRow | None], VideoRow]
_Making = Callable[..., ClipCheck]


class VerifiedCorpus:
    """A videos manifest with its neighbours."""

    def __init__(self, tree: Tree, manifest: Manifest[VideoRow]) -> None:
        self._tree = tree
        self.manifest = manifest
        self.rows = manifest.rows
        neighbour = tree.near(manifest, SOURCES)
        self.sources: Sequence[SourceRow] | None = None if neighbour is None else neighbour.rows
        self.findings: list[Finding] = []
        self._folders: dict[str, str] = {}
        self.recipes = self._current_recipes()

    def _current_recipes(self) -> dict[_Scenario, VideoRecipe]:
        """Each scenario's recipe: the most frequent recipe of its rows."""
        counted: dict[_Scenario, Counter[str]] = defaultdict(Counter)
        for row in self.rows:
            try:
                recipe = recorded(row.recipe)
            except ManifestError as error:
                self._find(row, str(error))
                continue
            counted[recipe.perturbation, recipe.severity][row.recipe] += 1
        return {scenario: recorded(texts.most_common(1)[0][0]) for scenario, texts in counted.items()}

    def _find(self, row: object, problem: str) -> None:
        self.findings.append(Finding(self.manifest.path, name_of(row, self.manifest.kind.key), problem))

    def check_set(self) -> None:
        """Check counts, hashes and membership, as far as the neighbours are available."""
        self.findings += doubled(self.manifest)
        if self.sources is not None:
            described = self.manifest.part(sets.SET).get("scenarios")
            scenarios = len(self.recipes) or (described if isinstance(described, int) else 0)
            listed = sets.of_corpus(self.sources, self.rows, scenarios)
            recorded = self.manifest.about.get(sets.SET)
            if recorded != listed.columns():
                problem = f"its metadata says {recorded}, but its rows give {listed.columns()}"
                self.findings.append(Finding(self.manifest.path, "", problem))
        for path in sorted({path for recipe in self.recipes.values() for path in self._analyses_of(recipe)}):
            if not path.is_file():
                self.findings.append(Finding(path, "", "the manifest is missing"))

    def _analyses_of(self, recipe: VideoRecipe) -> list[Path]:
        """The manifests of analyses that the workflow makes together with videos of a recipe."""
        if self.manifest.collection is None or recipe.donors is None:
            return []
        dataset, analysis = recipe.donors
        return [self.manifest.root / layout.at(ANALYSES.name, dataset=dataset, analysis=analysis)]

    def tasks(self, *, fast: bool, remake: bool) -> Iterator[list[ClipCheck]]:
        """Every existing or missing row, with its expected content, in lists that have room in memory.

        Unexpected rows become findings.
        """
        tools = tool_versions()
        make = partial(
            ClipCheck,
            root=self.manifest.root,
            fast=fast,
            remake=remake,
            same_tools=all(self.manifest.part("tools").get(name) == version for name, version in tools.items()),
            unrecorded=self.manifest.unrecorded,
            with_sound=sound.is_wanted(row.audio for row in self.rows),
        )
        expecting = {scenario: self._expecting(recipe, make) for scenario, recipe in self.recipes.items()}
        for rows, sources in self._in_pieces():
            yield list(self._tasks_of(rows, sources, expecting))

    def _tasks_of(
        self,
        rows: Sequence[VideoRow],
        sources: Mapping[str, CompleteSource],
        expecting: Mapping[_Scenario, tuple[_Expecting, _Making]],
    ) -> Iterator[ClipCheck]:
        held: dict[tuple[str, _Scenario], VideoRow] = {}
        for stored in rows:
            held.setdefault((stored.item_id, (stored.perturbation, stored.severity)), stored)
        for scenario, (expected_of, make) in expecting.items():
            for item_id, source in sources.items():
                row = held.pop((item_id, scenario), None)
                if row is None and self.sources is None:
                    continue
                try:
                    expected = expected_of(source, row)
                except (MediaError, ManifestError, ConfigError) as error:
                    subject = f"{item_id} {scenario[0]} {scenario[1]}"
                    if row is None or row.status == COMPLETE:
                        self.findings.append(Finding(self.manifest.path, subject, str(error)))
                    continue
                refused = "" if expected.path is None else self._refused(expected.path)
                yield make(row, expected, refused=refused)
        for stranger in held.values():
            self._find(stranger, "the row is unexpected: its clip is not listed as complete")

    def _in_pieces(self) -> Iterator[tuple[Sequence[VideoRow], dict[str, CompleteSource]]]:
        """The rows, and the clips that are perturbed: all at once, or of a large manifest some items after others.

        The rows of a large manifest are in the order of their items.
        """
        if not isinstance(self.rows, StoredRows):
            yield self.rows, self._sources_of(self.rows)
            return
        every = self._sources_of([])
        listed = sorted(every)

        def sources(count: int) -> dict[str, CompleteSource]:
            return self._sources_of(held) if self.sources is None else {name: every[name] for name in listed[:count]}

        held: list[VideoRow] = []
        for row in self.rows:
            if len(held) >= GROUP and held[-1].item_id < row.item_id:
                count = bisect_right(listed, held[-1].item_id)
                yield held, sources(count)
                listed, held = listed[count:], []
            held.append(row)
        yield held, sources(len(listed))

    def _refused(self, path: str) -> str:
        """Why a stored file's path leaves the corpus; "" where it does not, as long as the file itself is no link."""
        folder, _, name = path.rpartition("/")
        place = folder if folder and name not in ("", ".", "..") and "\0" not in name else path
        if place not in self._folders:
            try:
                locations.confined(self.manifest.root, place)
                self._folders[place] = ""
            except ManifestError as error:
                self._folders[place] = str(error)
        return self._folders[place]

    def _sources_of(self, rows: Sequence[VideoRow]) -> dict[str, CompleteSource]:
        """The clips that are perturbed: from the sources manifest, or, without it, from rows."""
        if self.sources is not None:
            return {row.item_id: row for row in self.sources if isinstance(row, CompleteSource)}
        return {row.item_id: _source_from(row) for row in sorted(rows, key=self._tells_the_source)}

    def _tells_the_source(self, row: VideoRow) -> int:
        """How much of its source a row describes: perturbations may change the length, or also the size."""
        recipe = self.recipes.get((row.perturbation, row.severity))
        return -4 if recipe is None else -len(recipe.entry.changed_columns)

    def _expecting(self, recipe: VideoRecipe, make: _Making) -> tuple[_Expecting, _Making]:
        """How the expected row of a recipe's clip is computed, and its check made."""
        known = self._known(recipe)
        if other := other_version(recipe):
            make = partial(make, fast=True, remake=False, remark=f"not recomputed: {other}")
        elif known is None and recipe.analysis is not None and (other := guides.other_version(recipe.analysis)):
            make = partial(make, remark=f"not recomputed: {other}")
        cuts = self._cuts() if recipe.whole_videos else None
        collection = self.manifest.collection
        kind = guides.get(recipe.guide.kind) if recipe.guide else None
        suffix = render_clip.extension(recipe)
        names = {"suite": recipe.suite, "perturbation": recipe.perturbation, "severity": recipe.severity}
        folder = layout.at("clips", dataset=collection, **names)
        members = cache(lambda: packing.members_in(self.manifest.root, folder))
        marked = cache(lambda: {*chain.from_iterable(clip_markers.clips_in(self.manifest.root / folder))})

        def place(item_id: str, stored: str | None) -> str | None:
            """The path of a clip: in a tar where its row says so, or where no row says anything."""
            if suffix is None:
                return None
            held, name = f"{folder}/{storage.file_stem(item_id)}{suffix}", packing.member_name(item_id, suffix)
            if stored is None:
                return members().get(name, held)
            if tars.named(stored) is None:
                return held
            if stored != f"{folder}/{tars.from_folder(stored)}" or not stored.endswith(f"/{name}"):
                return members().get(name, held)
            if tars.is_file(self.manifest.root / stored) or tars.from_folder(stored) in marked():
                return stored  # also where its tar is damaged, or exchanged with another
            return members().get(name, stored)

        def expected(source: CompleteSource, row: VideoRow | None) -> VideoRow:
            path = None if row is None else row.path
            if collection is not None:
                path = place(source.item_id, path)
            cut = self._cut(source, row, cuts) if recipe.whole_videos else None
            if known is not None:
                return clip_rows.expected_video(recipe, source, path, known, cut)
            # The analysis is not available: the row's own facts are used, and its id must fit them.
            facts = kind.facts() if kind and kind.on_the_fly else None
            if row is not None:
                facts = guided.parse_facts(recipe, row.guide)
            described = clip_rows.video_with_facts(recipe, source, path, facts, cut)
            is_analysed = recipe.analysis is not None and not (kind and kind.on_the_fly)
            return replace(described, backend=row.backend) if row is not None and is_analysed else described

        return expected, make

    def _known(self, recipe: VideoRecipe) -> Known | None:
        """The results of the analyses, from their manifests; None where they are not available."""
        if recipe.guide is None:
            return clip_rows.NOTHING_KNOWN
        if other_version(recipe):
            return None
        if guides.get(recipe.guide.kind).on_the_fly:
            return None
        if recipe.analysis is None:
            # A folder of images may have changed since; the row's own facts name the image that was used.
            return None if recipe.guide.chooses_files() else clip_rows.NOTHING_KNOWN
        own = self._analysis(self.manifest.beside(ANALYSES.name, analysis=recipe.analysis.analysis))
        is_other = bool(guides.other_version(recipe.analysis))
        if own is None or (is_other and any(row.recipe != recipe.analysis.text for row in own.values())):
            return None
        if recipe.donors is None:
            return Known(own)
        dataset, analysis = recipe.donors
        donors = self._analysis(self.manifest.root / layout.at(ANALYSES.name, dataset=dataset, analysis=analysis))
        return None if donors is None else Known(own, [row for row in donors.values() if row.status == COMPLETE])

    def _analysis(self, path: Path) -> Mapping[str, AnalysisRow] | None:
        manifest = self._tree.neighbour(path, ANALYSES)
        return None if manifest is None else {row.item_id: row for row in manifest.rows}

    def _cuts(self) -> Cuts | None:
        manifest = self._tree.near(self.manifest, SOURCES, f"{layout.WHOLE}/{SOURCES.name}")
        if manifest is None:
            return None
        return Cuts([locations.located(row, manifest.root) for row in manifest.rows])

    def _cut(self, source: CompleteSource, row: VideoRow | None, cuts: Cuts | None) -> Cut | None:
        if cuts is not None:
            return cuts.of(source)
        return None if row is None else parse_cut(row.cut)


def _source_from(row: VideoRow) -> CompleteSource:
    """A clean clip as a row of a corpus describes it, where there is no sources manifest."""
    return CompleteSource(
        dataset=row.dataset,
        split="",
        item_id=row.item_id,
        start_s=row.start_s,
        end_s=row.end_s,
        path=row.source_path,
        bytes=0,
        sha256=row.source_sha256,
        frames_sha256="",
        codec="",
        pix_fmt="",
        width=row.width,
        height=row.height,
        fps=row.fps,
        frame_count=row.source_frame_count,
        duration_s=row.duration_s,
        rotation=0,
        sample_aspect_ratio=row.sample_aspect_ratio,
        status=COMPLETE,
    )
