"""What the jobs of an evaluation ask a cluster for, against what they were measured to take."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from clips import DATASET

from perturbations.base import storage
from perturbations.base.errors import OutputError
from perturbations.config import file as config_file
from perturbations.config import sections as config
from perturbations.corpus.sharding import DatasetPlan
from perturbations.evaluation import planning
from perturbations.evaluation import sizes as evaluation_sizes
from perturbations.evaluation.method_settings import ADAPTED, AS_IT_IS
from perturbations.evaluation.rows import Run

V2T, T2V = ("v2t", "none", "clean", "clean"), ("t2v", "none", "clean", "clean")
THOUSAND = DatasetPlan((), {}, listed=1000, rejected=0, captions=1000)


def wanted(**evaluated: Any) -> config.Config:
    raw = {"datasets": {"demo": DATASET}, "suites": {"mlvp": {}}}
    return config_file.parse({**raw, "evaluation": {"pretrained": "openai/clip-vit-base-patch32", **evaluated}})


def memory(given: config.Config, job: Any, group: str = ADAPTED, plan: DatasetPlan = THOUSAND) -> int:
    return evaluation_sizes.job_memory_mb(given, runs(given, job, group), plan)


def runs(given: config.Config, job: Any, group: str) -> list[Run]:
    return planning.jobs(given, "demo", THOUSAND.listed)["/".join((*job, group))]


@pytest.mark.parametrize(
    ("job", "group", "batch_size", "measured_mib"),
    [
        (V2T, "adapted", 16, 4198),
        (V2T, "adapted", 8, 2662),
        (V2T, "adapted", 4, 1966),
        (V2T, "none", 4, 1096),
        (T2V, "adapted", 16, 1580),
        (T2V, "adapted", 16, 1666),  # SAR
    ],
)
def test_a_job_asks_for_more_than_it_takes_and_not_for_much_more(
    job: Any, group: str, batch_size: int, measured_mib: int
) -> None:
    requested_mib = memory(wanted(batch_size=batch_size), job, group) * 10**6 / 2**20
    assert measured_mib * 1.05 < requested_mib < measured_mib * 1.3 + 2500


def test_memory_follows_the_towers_of_the_model(tmp_path: Path) -> None:
    def of(kind: str = "clip", **vision: object) -> int:
        (tmp_path / "config.json").write_text(json.dumps({"model_type": kind, "vision_config": vision}))
        return memory(wanted(pretrained=str(tmp_path)), V2T)

    assert of() == of(patch_size=[32]) == of(patch_size=32, hidden_size=768) == memory(wanted(), V2T)
    assert of() < of("blip") == of("no such model")
    assert 3 * of() > of(patch_size=16) > 2 * of() > 2 * of(hidden_size=1)
    of(patch_size=16)
    of_larger = wanted(pretrained=str(tmp_path), num_frames=12)
    assert encoding_minutes(of_larger) > 2 * encoding_minutes(wanted(num_frames=12))


def encoding_minutes(given: config.Config) -> int:
    return evaluation_sizes.encoding_minutes(given, THOUSAND, "clips")


def test_memory_follows_what_a_job_does() -> None:
    plain = memory(wanted(), V2T)
    assert memory(wanted(), T2V) < plain
    assert memory(wanted(), V2T, AS_IT_IS) < plain
    assert memory(wanted(num_frames=24), V2T) > 1.5 * plain
    assert memory(wanted(device="cuda"), V2T) < plain
    assert memory(wanted(pretrained=None), V2T) < 2000
    many = DatasetPlan((), {}, listed=20_000, rejected=0, captions=400_000)
    assert memory(wanted(), V2T, plan=many) > plain + 4 * 20_000 * 400_000 / 10**6
    every = {name: wanted(severities=severities) for name, severities in (("one", [5]), ("all", [1, 2, 3, 4, 5]))}
    single, all_severities = (memory(given, ("v2t", "query", "mlvp", "low")) for given in every.values())
    assert single < all_severities


def test_the_gallery_and_the_check_of_the_model() -> None:
    few, many = THOUSAND, DatasetPlan((), {}, listed=100_000, rejected=0, captions=1)
    for given in (wanted(), wanted(pretrained=None), wanted(device="cuda")):
        sizes = [evaluation_sizes.gallery_memory_mb(given, plan) for plan in (few, many)]
        assert evaluation_sizes.mb(evaluation_sizes.model_mib(given)) < sizes[0] < sizes[1]
    assert evaluation_sizes.gallery_memory_mb(wanted(pretrained=None), few) > 563  # the demo's, measured


# --- A disk too small for the frames of an evaluation stops the job with a message, not with a signal ---


@pytest.mark.parametrize("number", [0, errno.EOPNOTSUPP, errno.EINVAL, None, errno.ENOSPC])
def test_the_space_of_a_file_is_taken_before_it_is_written_where_that_can_be(
    number: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: int) -> None:
        assert number is not None
        raise OSError(number, os.strerror(number))

    if number is None:  # as on macOS
        monkeypatch.delattr(os, "posix_fallocate", raising=False)
    elif number:
        monkeypatch.setattr(os, "posix_fallocate", refused, raising=False)
    if number == errno.ENOSPC:
        with pytest.raises(OutputError, match=r"cannot write .*frames: No space left on device"):
            storage.reserve(tmp_path / "frames", 3_000_000)
        return
    storage.reserve(tmp_path / "frames", 3_000_000)
    status = (tmp_path / "frames").stat()
    assert status.st_size == 3_000_000
    assert number != 0 or not hasattr(os, "posix_fallocate") or status.st_blocks * 512 >= 3_000_000


def test_queries_reserve_their_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    import numpy as np

    from perturbations.evaluation import encoding
    from perturbations.evaluation.processors import Images

    pixels = np.arange(2 * 8 * 8 * 3, dtype=np.uint8).reshape(2, 8, 8, 3)
    monkeypatch.setattr(encoding.Clip, "sampled", lambda *_: pixels)
    reserved: list[int] = []
    monkeypatch.setattr(storage, "reserve", lambda path, size: reserved.append(size) or path.write_bytes(bytes(size)))
    clips = encoding.Clips([None, None, None], 2, Images(4), tmp_path)  # type: ignore[list-item]
    assert reserved == [3 * 2 * 3 * 4 * 4]
    assert len(clips) == 3
    assert (clips.batch(slice(0, 3)).values[2].numpy() == Images(4).resized(pixels)).all()


def test_the_time_follows_from_queries_frames_methods_and_scenarios() -> None:
    """Against the measured seconds per query: 1.03 without adapting, 6.03 by TCR, of 12 frames."""

    def minutes(job: Any = V2T, group: str = ADAPTED, plan: DatasetPlan = THOUSAND, **evaluated: Any) -> int:
        given = wanted(**{"methods": ["tcr"], "querybank": "demo", "num_frames": 12, **evaluated})
        return evaluation_sizes.job_minutes(given, runs(given, job, group), plan)

    assert minutes(group=AS_IT_IS) > 1030 / 60
    assert minutes() > (1030 + 6030) / 60 > minutes(group=AS_IT_IS)
    assert minutes(T2V, AS_IT_IS) < minutes(T2V)
    assert minutes(device="cuda") < minutes()
    large = DatasetPlan((), {}, listed=100_000, rejected=0, captions=100_000)
    assert minutes(plan=large) == 1440, "its journal keeps what is done, and many partitions allow a day"
    clips, texts = (evaluation_sizes.encoding_minutes(wanted(), large, name) for name in ("clips", "captions"))
    assert clips > texts > evaluation_sizes.encoding_minutes(wanted(), THOUSAND, "captions")
