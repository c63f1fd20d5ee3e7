"""Runs in an object store, whose jobs share no folder: plans for other machines, fetching, a run."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import kube_cluster
import needs
import pyarrow.fs as pafs
import pytest
import stores
from clips import video_row
from kube_cluster import Cluster
from test_workflow import Project, tiny_clip

from perturbations import read_manifest
from perturbations.base import storage, tars
from perturbations.base.errors import ConfigError
from perturbations.cli.main import main
from perturbations.config import file as config_file
from perturbations.config import sections as config
from perturbations.engine import packing
from perturbations.manifest import files, layout
from perturbations.manifest.kinds import VIDEOS
from perturbations.plan import clip_markers, paths, recipe, sharding, snakemake_inside, tiers
from perturbations.plan.costs import Workload
from perturbations.plan.listed import ListedClip
from perturbations.store import fetching, packs
from perturbations.store import planning as store
from perturbations.suites import registry

JOBS = store.Store(Path(), elsewhere=False, send=lambda file: None)


def files_of(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_original_clips_come_from_the_folder_in_which_snakemake_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home" / "videos").mkdir(parents=True)
    (tmp_path / "home" / "videos" / "x.mp4").write_bytes(b"x")
    monkeypatch.setenv(storage.STORE_VARIABLE, str(tmp_path / "home"))
    spans = [ListedClip(item_id=name, source_video_id="x", path="videos/x.mp4") for name in "ab"]
    packs.write_originals(tmp_path / "s0.tar", spans)
    with tarfile.open(tmp_path / "s0.tar") as tar:
        assert tar.getnames() == ["videos/x.mp4"]


# --- planning ---------------------------------------------------------------------------------------------------------


def parsed(**datasets: object) -> config.Config:
    tiny = {"adapter": "folder", "annotations": "captions.json", "videos": "videos"}
    return config_file.parse({"datasets": {"tiny": tiny, **datasets}, "suites": {"mlvp": {}}})


def test_a_plan_survives_its_way_to_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plan = sharding.DatasetPlan(
        ("s0", "s1"), {"s0": frozenset({"a", "ü\n"}), "s1": frozenset()}, 3, 1, 5, 2, 100, {"s0": Workload(1, 2, 3)}
    )
    store.write_plan(plan, "tiny/whole")
    assert store.read_plan("tiny/whole") == plan
    store.write_captions(["s1", "s2"], "tiny")
    assert store.read_captions("tiny") == ("s1", "s2")
    with pytest.raises(ConfigError, match=r"work/demo/plan\.json"):
        store.read_plan("demo")
    Path("work/tiny/plan.json").write_text("[")
    with pytest.raises(ConfigError, match=r"plan\.json"):
        store.read_plan("tiny")


@pytest.mark.parametrize("videos", ["/data/videos", "../videos"])
def test_videos_elsewhere_are_named_before_the_first_job(videos: str) -> None:
    elsewhere = {"adapter": "folder", "annotations": "captions.json", "videos": videos}
    with pytest.raises(ConfigError, match=rf"datasets\.tiny\.videos: {videos}.*ln -s"):
        store.clean_packs(parsed(tiny=elsewhere), "tiny", ["s0"])


@needs.wings("demo")
def test_a_job_brings_the_packs_of_the_clips_that_it_reads() -> None:
    settings = parsed(demo={"adapter": "demo"})
    plans = {"demo": sharding.DatasetPlan(("s0", "s1"), {"s0": frozenset(), "s1": frozenset()}, 2, 0)}.__getitem__
    fog = recipe.from_config(settings, "demo", "mlvp", "fog", 1)
    assert JOBS.video_inputs(settings, fog, "demo", "s0", plans)["packs"] == ["work/demo/sources/s0.tar"]
    insertion = recipe.from_config(settings, "demo", "mlvp", "event_insertion", 1)
    inputs = JOBS.video_inputs(settings, insertion, "demo", "s0", plans)
    assert inputs["packs"] == [
        "work/demo/sources/s0.tar",
        "work/demo/analyses/embedding/s0.tar",
        "work/demo/sources/s1.tar",
    ]
    assert "--packs" not in paths.options(inputs)
    assert store.clean_packs(settings, "tiny", ["s0"]) == ["work/tiny/shards/s0.tar"]


@pytest.mark.parametrize(
    "prefix", [None, "", "s3://bucket/a run", "s3://bucket/a'b", "s3://bucket/{x}", "s3://b/$HOME"]
)
def test_a_prefix_that_jobs_would_not_get_as_it_is_is_refused(prefix: str | None) -> None:
    with pytest.raises(ConfigError, match="--default-storage-prefix"):
        store.prefix(prefix)
    assert store.prefix("s3://bucket/a-b_c.d/e/") == "s3://bucket/a-b_c.d/e"


def test_commands_find_their_inputs_from_the_local_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    place = Path(".snakemake/storage/s3/bucket/pre")
    for _ in range(2):
        store.prepare(place)
    (place / "work").mkdir()
    (place / "work" / "x").write_text("brought")
    text = subprocess.run(
        ["sh", "-c", f"{store.shell_prefix(place)} cat {place}/work/x work/x; echo $PERTURB_STORE"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert text == f"broughtbrought{tmp_path}\n"
    with pytest.raises(ConfigError, match="absolute path"):
        store.prepare(Path("../elsewhere"))


def test_lists_of_shards_that_are_no_more_are_not_merged(tmp_path: Path) -> None:
    folder = tmp_path / "work" / "demo" / "shards"
    folder.mkdir(parents=True)
    for shard in ("s0", "s1"):
        (folder / f"{shard}.jsonl").touch()
    store.remove_stale_lists(tmp_path, sharding.DatasetPlan(("s1",), {}, 1, 0), "demo")
    assert [path.name for path in folder.iterdir()] == ["s1.jsonl"]


# --- what is known of objects -----------------------------------------------------------------------------------------


class Stored:
    """An object of a store that counts how often it is asked."""

    requests: ClassVar[list[str]] = []
    there: ClassVar[dict[str, float]] = {}

    def __init__(self, query: str) -> None:
        self.query = query
        self.bucket = "bucket"

    def bucket_exists(self) -> bool:
        self.requests.append("bucket")
        return bool(self.there)

    def exists(self) -> bool:
        self.requests.append("exists")
        return self.query in self.there

    def mtime(self) -> float:
        self.requests.append("mtime")
        return self.there[self.query]

    def size(self) -> int:
        self.requests.append("size")
        return 0

    def store_object(self) -> None:
        self.there[self.query] = self.there.get(self.query, 0.0) + 1

    def remove(self) -> None:
        del self.there[self.query]


def test_a_store_is_asked_once_until_an_object_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    moment = [0.0]
    monkeypatch.setattr(snakemake_inside.time, "monotonic", lambda: moment[0])
    registry = SimpleNamespace(default_storage_provider=SimpleNamespace(object=Stored))
    snakemake_inside.remember_objects(SimpleNamespace(storage_registry=registry), "s3://a/b")
    first, again, other = Stored("one"), Stored("one"), Stored("other")
    assert not first.exists()
    first.store_object()
    assert [first.exists(), again.exists(), other.exists()] == [True, True, False]
    assert [first.mtime(), again.mtime(), first.size(), again.size()] == [1, 1, 0, 0]
    assert Stored.requests == ["exists", "exists", "exists", "mtime", "size"]
    assert [first.bucket_exists(), other.bucket_exists()] == [True, True]
    first.store_object()
    assert again.mtime() == 2
    first.remove()
    assert not again.exists()
    assert not again.bucket_exists()
    first.store_object()
    assert again.bucket_exists()
    assert first.mtime() == 1
    assert Stored.requests.count("bucket") == 3
    Stored.there["one"] = 7  # by another machine
    moment[0] = 11
    assert first.mtime() == 7


# --- fetching ---------------------------------------------------------------------------------------------------------


def test_fetching_brings_what_manifests_name(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket, here = tmp_path / "bucket", tmp_path / "here"
    shutil.copytree(small, bucket)
    stored = sorted(name for name in files_of(bucket) if not name.startswith(("manifests", "work")))
    assert stored
    (bucket / "corpora" / "unnamed.mp4").write_bytes(b"of an earlier run")
    packs.write(bucket / "work" / "demo" / "s0.tar", [*stored, "corpora/unnamed.mp4"], bucket)
    # No manifest names the parts of captions, and evaluations read them.
    fields = {"dataset": "data", "suite": "msrvtt_p", "shard": "s0"}
    part = layout.at("text_part", perturbation="ocr", severity=1, **fields)
    marker = bucket / layout.at("text_marker", **fields)
    (bucket / part).parent.mkdir(parents=True)
    (bucket / part).write_bytes(b"rows")
    clip_markers.write_texts(marker, [bucket / part])
    packs.write(marker.with_suffix(".tar"), [part], bucket)
    (bucket / part).unlink()
    here.mkdir()
    monkeypatch.chdir(here)
    assert main(["fetch", str(bucket)]) == 0
    brought = {name: content for name, content in files_of(here).items() if not name.endswith("SHA256SUMS")}
    assert brought.pop(part) == b"rows"
    assert marker.relative_to(bucket).as_posix() in brought
    assert {name: files_of(bucket)[name] for name in brought} == brought
    assert "corpora/unnamed.mp4" not in brought
    named = read_manifest(here / "manifests/data/mlvp/videos.parquet")["path"].dropna()
    assert len(named) == 10
    assert all(Path(path).is_file() for path in named)


def test_the_pack_of_clips_in_a_tar_is_the_tar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job, other, here = tmp_path / "job", tmp_path / "other", tmp_path / "here"
    tar = Path("corpora/data/mlvp/fog/1/s1.tar")
    part = Path("work/data/mlvp/fog/1/s1.parquet")
    for folder in (job, other, here):
        folder.mkdir()
    monkeypatch.setenv(storage.STORE_VARIABLE, str(tmp_path))
    monkeypatch.chdir(job)
    tar.parent.mkdir(parents=True)
    for name in ("a", "b"):
        tar.with_name(f"{name}.mp4").write_bytes(name.encode() * 700)
    packing.pack(tar, {f"{name}.mp4": tar.with_name(f"{name}.mp4") for name in ("a", "b")})
    places = [tars.path_in(tar, offset, name) for name, offset, _ in tars.members(tar)]
    packs.write_beside(part, [*places, None])
    assert part.with_suffix(".tar").read_bytes() == tar.read_bytes()
    assert part.with_suffix(".tar").samefile(tar)

    monkeypatch.chdir(other)
    shutil.copytree(job / "work", "work")
    packs.unpack_brought()
    assert files_of(other / "corpora") == files_of(job / "corpora")

    monkeypatch.chdir(here)
    wanted = recipe.make(registry.get("mlvp/fog"), 1, seed=0, storage=tiers.stored_video("high"))
    rows = [video_row(wanted, item_id=Path(place).stem, path=place, storage="video/high") for place in places]
    files.write(job / "manifests/data/mlvp/videos.parquet", VIDEOS, rows, {"root": "../../.."})
    assert main(["fetch", str(job)]) == 1  # the source of these rows is nowhere
    assert tar.read_bytes() == (job / tar).read_bytes()
    assert [tars.is_file(place) for place in places] == [True, True]


def test_fetching_says_what_is_missing(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["fetch", str(small)]) == 1
    assert "not in the store: corpora/" in capsys.readouterr().out
    assert main(["fetch", str(tmp_path / "nothing")]) == 1
    assert "has no manifests" in capsys.readouterr().err


# --- a run ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """A project whose run in a store has ended."""

    cluster: Cluster
    project: Project
    prefix: str
    log: str


TARGET = "manifests/tiny/mlvp/videos.parquet"


@pytest.fixture(scope="module", params=["files", "tar"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    needs.store()
    root = tmp_path_factory.mktemp("project")
    for index, name in enumerate(("a b", "ü'q")):
        tiny_clip(root / "my videos" / f"{name}.mp4", seed=index)
    datasets = {"tiny": {"adapter": "folder", "annotations": "captions.json", "videos": "my videos"}}
    suites = {"mlvp": {"perturbations": ["fog"], "severities": [1]}}
    container = {"container": request.param}
    project = Project(root, {"datasets": datasets, "suites": suites, "storage": container})
    project.write_captions(["a b", "ü'q"])
    project.write_config()
    with stores.store(), kube_cluster.cluster() as cluster:
        prefix = f"s3://perturbations/{request.param}"  # moto keeps what an earlier server held
        done = stores.submit(cluster, project, prefix, TARGET)
        assert done.returncode == 0, done.stdout + "".join(map(cluster.log_of, cluster.jobs))
        yield Run(cluster, project, prefix, done.stdout)


def test_a_run_whose_jobs_share_no_folder(run: Run, tmp_path: Path) -> None:
    assert len(run.cluster.jobs) == 2, "one pod reads the clips, one perturbs them"
    assert run.cluster.deleted == set(run.cluster.jobs)
    assert not run.cluster.secrets
    assert set(run.cluster.installed()) == {"install --target .snakemake/pip-deployments snakemake-storage-plugin-s3"}
    assert not (run.project.root / "corpora").exists()
    fetched = stores.fetch(tmp_path / "fetched", run.prefix)
    rows = read_manifest(fetched / TARGET)
    assert set(rows["item_id"]) == {"a b", "ü'q"}
    assert set(rows["status"]) == {"complete"}
    # Makes every clip again, and compares.
    verified = subprocess.run(
        [sys.executable, "-m", "perturbations", "verify"], cwd=fetched, capture_output=True, text=True
    )
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_the_run_is_not_made_again(run: Run) -> None:
    assert "Nothing to be done" in stores.submit(run.cluster, run.project, run.prefix, "-n", TARGET).stdout


def test_a_run_without_a_store_goes_on_from_what_was_fetched(run: Run, tmp_path: Path) -> None:
    shutil.copytree(run.project.root / "my videos", tmp_path / "my videos")
    project = Project(tmp_path, run.project.config)
    project.write_captions(["a b", "ü'q"])
    stores.fetch(tmp_path, run.prefix)
    done = project.snakemake("-n", TARGET)
    assert "Nothing to be done" in done.stdout + done.stderr


def test_a_lost_pack_of_a_finished_corpus_is_seen_and_none_is_brought_to_a_merge() -> None:
    small, requests = parsed(), list[str]()
    unfinished, finished = store.Store(has=lambda file: False), store.Store(has=lambda file: not requests.append(file))
    assert unfinished.visible_clips(small, "tiny", "mlvp", ["s0"]) == []
    inputs = finished.visible_clips(small, "tiny", "mlvp", ["s0"])
    assert "work/tiny/mlvp/fog/1/s0.tar" in inputs
    assert len(inputs) == 60
    assert requests == [TARGET]
    assert finished.markers(small, "tiny", "mlvp", ["s0"]) == []


def test_a_lost_pack_is_made_again(run: Run) -> None:
    assert stores.submit(run.cluster, run.project, run.prefix, "mlvp_tiny").returncode == 0
    system, base = fetching._open(run.prefix)
    objects = system.get_file_info(pafs.FileSelector(f"{base}/work/tiny/mlvp/fog", recursive=True))
    (pack,) = (entry.path for entry in objects if entry.path.endswith(tars.SUFFIX))
    system.move(pack, f"{base}/elsewhere")
    planned = stores.submit(run.cluster, run.project, run.prefix, "-n", "mlvp_tiny").stdout
    system.move(f"{base}/elsewhere", pack)
    assert re.search(r"^videos +1$", planned, re.MULTILINE), planned


@needs.wings("calibration")
def test_what_cannot_be_made_in_a_store_says_so_before_the_first_job(run: Run) -> None:
    before = set(run.cluster.jobs)
    done = stores.submit(run.cluster, run.project, run.prefix, "calibrate_tiny")
    assert done.returncode == 1
    assert "a calibration cannot be made in an object store" in done.stdout
    assert set(run.cluster.jobs) == before
