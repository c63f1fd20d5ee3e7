"""Corpora of earlier versions, which never change: version 0.1.0 made both of drawn clips.

`kept_corpus.tar.xz` has an evaluation, and `kept_composed.tar.xz` composed retrieval in rows that no version has now.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from dataclasses import replace
from functools import partialmethod
from pathlib import Path
from typing import Any

import clips
import needs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from perturbations import open_clip, read_manifest
from perturbations.base.errors import ManifestError
from perturbations.base.records import canonical
from perturbations.cli.main import main
from perturbations.config import file as config_file
from perturbations.engine.journal import Journal, Measured
from perturbations.evaluation.rows import RESULTS
from perturbations.guides import registry as guides
from perturbations.manifest import cells, files, parquet, schemas, sets
from perturbations.manifest.kinds import ANALYSES, CAPTIONS, SOURCES, VIDEOS, TextRow, VideoRow
from perturbations.plan import caption_recipes, paths, recipe
from perturbations.plan.listed import ListedCaption
from perturbations.suites import registry
from perturbations.verify import run
from perturbations.verify.run import Options, Summary

REMEDY = """
Corpora of earlier versions must open. In its row type, a new column is `... | None` with the default None; the old name
of a renamed one stands in `renamed` of its RowKind. Then run `python docs/generate.py`. Any other change raises
SCHEMA_VERSION in `perturbations/manifest/parquet.py`, and CHANGELOG.md says that earlier corpora are refused."""


@pytest.fixture
def kept(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    name = getattr(request, "param", "kept_corpus")
    with tarfile.open(Path(__file__).with_name(f"{name}.tar.xz")) as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path)
    for path in (tmp_path / "manifests").rglob("*.parquet"):
        if files.is_former(path):
            continue
        kind = files.kind_of(path)
        problem = schemas.column_problem(kind, pq.read_schema(path))
        assert problem is None, f"{kind.row.__module__}.{kind.row.__name__}: {path.name}: {problem}.{REMEDY}"
    return tmp_path


def verified(**options: Any) -> dict[str, Summary]:
    return {
        summary.path.as_posix().removeprefix("manifests/tiny/"): summary
        for summary in run.verify([Path("manifests")], Options(stall_limit_s=60, **options))
    }


def contents(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in (root / "manifests").rglob("*") if path.is_file()}


def without(path: Path, name: str) -> None:
    """Take a column out of a manifest, as a version wrote it that did not have the column."""
    table, about = pq.read_table(path), files.read_metadata(path)
    table = table.drop_columns([name])
    about |= cells.describe(files.kind_of(path), cells.of_table(table))
    parquet.encode([table], about, path)


def test_a_kept_corpus_is_whole_and_says_what_it_does_not_record(kept: Path) -> None:
    summaries = verified()
    assert {name: summary.findings for name, summary in summaries.items() if summary.findings} == {}
    assert len(summaries) == len(list(Path("manifests").rglob("*.parquet")))
    for summary in summaries.values():
        (note,) = summary.notes
        assert "a hash of its metadata, its file and pages in a list" in note
        assert " 'recall_at_1'" not in note, "it was recorded under another name"


@needs.wings("composed")
@pytest.mark.parametrize("kept", ["kept_composed"], indirect=True)
def test_a_corpus_with_dropped_rows_of_composed_retrieval_is_whole_and_published(kept: Path) -> None:
    assert {name: summary.findings for name, summary in verified().items() if summary.findings} == {}
    results = read_manifest("manifests/ego/composed/results.parquet")
    assert set(results["perturbed"]) == {"nothing", "clips"}
    manifest = "manifests/ego/mlvp/videos.parquet"
    assert main(["export", manifest, "--format", "recipe", "-o", "published"]) == 0
    assert main(["regenerate", "published", "--clips", "videos/u", "-o", "again"]) == 0
    assert main(["verify", "again/manifests"]) == 0


ANALYSIS, FILMS, TEXT = "main_object.parquet", "mlvp/videos.parquet", "mm_robustness/captions.parquet"


def claim_version(name: str, version: int, perturbation: str, *, of_analysis: bool = False) -> int:
    """Write rows of a manifest as of another version, identities and hashes and all; returns how many."""
    path = Path("manifests/tiny") / name
    kind, sources = files.kind_of(path), files.read_rows(Path("manifests/tiny/sources.parquet"), SOURCES)
    items = {row.item_id: row for row in sources}

    def claimed(row: Any) -> Any:
        if getattr(row, "perturbation", perturbation) != perturbation:
            return row
        described = json.loads(row.recipe)
        part = described["guide"]["analysis"] if of_analysis and "guide" in described else described
        part["version"] = version
        text = canonical(described)
        if isinstance(row, TextRow):
            caption = ListedCaption(caption_id=row.caption_id, item_id=row.item_id, text=row.source_text)
            identity = caption_recipes.text_id(recipe.recorded_text(text), row.dataset, caption)
        elif isinstance(row, VideoRow):
            identity = recipe.recipe_id(recipe.recorded(text), items[row.item_id], row.guide)
        else:
            identity = recipe.recipe_id(guides.parse_analysis(text), items[row.item_id])
        return replace(row, recipe=text, recipe_id=identity)

    rows = files.read_rows(path, kind)
    other = [claimed(row) for row in rows]
    files.write(path, kind, other, files.read_metadata(path))
    return sum(old != new for old, new in zip(rows, other, strict=True))


def change_cell(name: str, row: int, **cells: Any) -> None:
    path = Path("manifests/tiny") / name
    rows = files.read_rows(path, files.kind_of(path))
    rows[row] = replace(rows[row], **cells)
    files.write(path, files.kind_of(path), rows, files.read_metadata(path))


def problems(name: str) -> tuple[list[str], dict[str, int]]:
    """What verifying says of the rows of one manifest, beside its place in lists, which the kept corpus has none of."""
    (summary,) = [*run.verify([Path("manifests/tiny") / name], Options(stall_limit_s=60))][:1]
    return [finding.problem for finding in summary.findings if finding.subject], dict(summary.remarks)


def test_an_analysis_of_another_version_is_not_recomputed_and_all_else_is(kept: Path) -> None:
    now = guides.analysis("main_object").recipe.model_fields["version"].default
    remark = f"not recomputed: made by main_object version 9, this is {now}"
    clips = claim_version(FILMS, 9, "main_object_occlusion", of_analysis=True)
    assert problems(FILMS) == ([], {remark: clips}), "the manifest beside it is of another version than its clips"
    rows = claim_version(ANALYSIS, 9, "")
    assert problems(ANALYSIS) == ([], {remark: rows})
    assert problems(FILMS) == ([], {}), "its facts are those of the analysis that made it"
    analysed = files.read_rows(Path("manifests/tiny") / ANALYSIS, ANALYSES)
    objects = json.loads(analysed[0].result or "")
    objects["boxes"] = [[0.0, 0.0, 2.0, 2.0] for _ in objects["boxes"]]
    change_cell(ANALYSIS, 0, result=canonical(objects), width=3)
    assert problems(ANALYSIS)[0] == [f"width is 3, and should be {analysed[0].width}"]
    differences, _ = problems(FILMS)
    assert {problem.partition(" is ")[0] for problem in differences} >= {"guide", "recipe_id"}


@pytest.mark.parametrize(("name", "key"), [(FILMS, "mlvp/fog"), (TEXT, "mm_robustness/keyboard")])
def test_rows_of_another_version_are_not_recomputed_and_all_else_is(name: str, key: str, kept: Path) -> None:
    perturbation = key.partition("/")[2]
    rows = claim_version(name, 9, perturbation)
    now = registry.get(key).version
    assert problems(name) == ([], {f"not recomputed: made by {key} version 9, this is {now}": rows})
    every = files.read_rows(Path("manifests/tiny") / name, files.kind_of(Path("manifests/tiny") / name))
    place = next(place for place, row in enumerate(every) if row.perturbation == perturbation)
    change_cell(name, place, seed=every[place].seed + 1)
    assert problems(name)[0] == ["seed is 1, and should be 0"]
    if name == FILMS:
        Path(every[place].path).write_bytes(b"")
        assert any("the file is not the one that the row describes" in problem for problem in problems(name)[0])


def test_another_version_of_an_analysis_regenerates_what_uses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_file.parse({"datasets": {"d": clips.DATASET}, "suites": {"mlvp": {}}})

    def recipes() -> dict[str, str]:
        pairs = recipe.scenarios(config, "mlvp")
        texts = {name: recipe.from_config(config, "d", "mlvp", name, severity).text for name, severity in pairs}
        return texts | {name: paths.analysis_recipe(config, name).text for name in paths.ANALYSES}

    before = recipes()
    kind = guides.analysis("main_object").recipe
    monkeypatch.setattr(kind, "__init__", partialmethod(kind.__init__, version=9))
    changed = {name for name, text in recipes().items() if text != before[name]}
    assert changed == {"main_object", "main_object_occlusion", "caption_embedding"}


def test_a_kept_corpus_is_read_and_exported(kept: Path) -> None:
    for path in (kept / "manifests").rglob("*.parquet"):
        assert len(read_manifest(path)) == len(files.read_rows(path, files.kind_of(path)))
    frame = read_manifest("manifests/tiny/mlvp/videos.parquet")
    assert len(open_clip(frame.iloc[0])) == frame.iloc[0]["frame_count"]
    assert main(["export", "manifests/tiny/mlvp/videos.parquet", "--format", "webdataset", "-o", "out"]) == 0
    assert any((kept / "out").rglob("*.tar"))


@pytest.mark.parametrize("name", ["ssim", "storage_psnr_db", "cut"])
def test_a_column_that_an_earlier_version_did_not_have_is_empty(name: str, kept: Path) -> None:
    path = kept / "manifests/tiny/mlvp/videos.parquet"
    before = files.read_rows(path, VIDEOS)
    empty: dict[str, Any] = {name: None}
    for manifest in (kept / "manifests").rglob("*.parquet"):
        if name in parquet.columns_in(manifest):
            without(manifest, name)
    assert files.read_rows(path, VIDEOS) == [replace(row, **empty) for row in before]
    assert read_manifest(path)[name].isna().all()
    older = contents(kept)
    for fast in (True, False):
        summary = verified(fast=fast)["mlvp/videos.parquet"]
        assert summary.findings == []
        assert any(f"the column '{name}'" in note for note in summary.notes)
    stored = next((kept / "corpora").rglob("*.mp4"))
    whole = stored.read_bytes()
    stored.unlink()
    verified(fast=True, repair=True)
    assert stored.read_bytes() == whole
    assert contents(kept) == older, "a repair gives an earlier version's manifest no column"


def test_merged_parts_say_which_columns_some_of_them_lack(kept: Path) -> None:
    rows = files.read_rows(kept / "manifests/tiny/mlvp/videos.parquet", VIDEOS)
    for name, part in (("a", rows[:3]), ("b", rows[3:])):
        files.write(kept / f"parts/{name}.parquet", VIDEOS, part)
    assert sets.unrecorded(kept / "parts", VIDEOS) == {}
    without(kept / "parts/a.parquet", "ssim")
    about = sets.unrecorded(kept / "parts", VIDEOS)
    assert about == {"unrecorded": ["ssim"]}
    parts = sorted((kept / "parts").glob("*"))
    path = kept / "manifests/tiny/mlvp/videos.parquet"
    files.concatenate(parts, path, VIDEOS, {**files.read_metadata(path), **about})
    summary = verified()["mlvp/videos.parquet"]
    assert summary.findings == []
    assert any("the column 'ssim'" in note for note in summary.notes)


FORMER = pa.table({"dataset": ["tiny"], "gallery": ["local_full"], "strategy": ["visual"], "r1": [50.0]})


@needs.wings("composed")
def test_a_kind_that_a_version_dropped_opens_as_a_table(
    kept: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    path = kept / "manifests/tiny/composed/results.parquet"
    path.parent.mkdir()
    about = {"kind": "composed_results", "schema_version": 5, "package_version": "0.1.0", "root": "../../.."}
    parquet.encode([FORMER], about | cells.describe(RESULTS, cells.of_table(FORMER)), path)
    assert read_manifest(path)["r1"].to_list() == [50.0]
    with pytest.raises(ManifestError, match="composed_results, which no job reads any more.*run snakemake again"):
        files.kind_of(path)
    summaries = verified(fast=True)
    assert not any(summary.findings for summary in summaries.values()), "its ranks are no lost file"
    summary = summaries["composed/results.parquet"]
    assert summary.rows == 1
    assert "an earlier version made it" in summary.notes[0]
    pytest.importorskip("torch")
    own = str(next((kept / "manifests/tiny/adaptation").rglob("results.parquet")))
    assert main(["report", "--results", own, str(path), "-o", "report.html"]) == 0, capsys.readouterr().err
    assert f"{path} is of an earlier version" in caplog.text
    parquet.encode([FORMER.slice(0, 0)], about | cells.describe(RESULTS, cells.of_table(FORMER)), path)
    assert "changed after it was written" in verified(fast=True)["composed/results.parquet"].findings[0].problem


def _retyped(table: pa.Table) -> pa.Table:
    place = table.column_names.index("severity")
    return table.set_column(place, "severity", table["severity"].cast(pa.float64()))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda table: table.drop_columns(["recipe_id"]), "lacks 'recipe_id'"),
        (lambda table: table.append_column("unheard_of", pa.nulls(len(table), pa.string())), "the column 'unheard_of'"),
        (_retyped, "'severity' is of the type double, and int64"),
    ],
)
def test_a_changed_meaning_is_refused_with_the_way_out(
    change: Callable[[pa.Table], pa.Table], named: str, kept: Path
) -> None:
    path = kept / "manifests/tiny/mlvp/videos.parquet"
    about = files.read_metadata(path)
    parquet.encode([change(pq.read_table(path))], about, path)
    for read in (read_manifest, lambda path: files.read_rows(path, VIDEOS)):
        with pytest.raises(ManifestError, match=f"{named}.*open it with that version, or delete it and run snakemake"):
            read(path)
    problems = {
        finding.place: finding.problem for summary in verified(fast=True).values() for finding in summary.findings
    }
    assert named in problems[path.relative_to(kept)]


def test_a_kept_corpus_is_evaluated(kept: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    import tiny_models
    from test_evaluation import job

    from perturbations.evaluation import backbone, galleries, runner, scenarios

    videos = sets.read_part(kept / "manifests/tiny/mlvp/videos.parquet", VIDEOS)
    asking = [row for row in videos if (row.perturbation, row.severity) == ("fog", 5)]
    fog = {"suite": "mlvp", "level": asking[0].level, "perturbation": "fog", "severity": 5}
    settings: Any = job("v2t", ["tcr"], dataset="tiny", side="query", **fog)
    loaded = backbone.load(settings, str(tiny_models.save_clip(kept / "model")), None, "cpu")
    clean = scenarios.Clean(
        sets.read_part(kept / "manifests/tiny/sources.parquet", SOURCES),
        sets.read_part(kept / "manifests/tiny/captions.parquet", CAPTIONS),
    )
    galleries.write(kept / "gallery.safetensors", loaded, clean, "captions", settings["num_frames"])
    features = {"captions": galleries.read(kept / "gallery.safetensors", loaded, "captions")}
    given = runner.EvaluationJob(settings, loaded, clean, features, None)  # type: ignore[arg-type]
    results, ranks, _ = runner.evaluate(given, lambda scenario, modality: (asking, "hash"), kept / "journal.jsonl")
    assert [row.queries for row in results] == [len(ranks)] == [2]
    assert {row.method for row in files.read_rows(next(kept.rglob("results.parquet")), RESULTS)} == {"none", "tcr"}


def test_a_journal_line_of_another_version_is_made_again(tmp_path: Path) -> None:
    class Older(Measured):
        """What a version measured that knew a column more."""

        loudness_db: float | None = None

    path, identity = tmp_path / "s1.jsonl", "0" * 32
    Journal(path, Older, {identity}).add(identity, Older(frame_count=1, stored_frames=0))
    assert Journal(path, Measured, {identity}).find(identity, None) is None
    Journal(path, Measured, {identity}).add(identity, Measured(frame_count=2, stored_frames=0))
    row = Journal(path, Measured, {identity}).find(identity, None)
    assert row is not None
    assert row.frame_count == 2
