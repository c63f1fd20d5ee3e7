"""Mixed benchmarks are choices of rows."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import clips
import pytest

from perturbations.corpus.captions import mixes
from perturbations.corpus.plan import caption_recipes, recipe, tiers
from perturbations.manifest.rows import SOURCE_STORAGE, CompleteSource, MixRow, TextRow, VideoRow
from perturbations.suites import suite_registry

NAMES = ["fog", "snow", "style_transfer"]


def rows(items: int, seed: int = 0, dataset: str = "data") -> list[VideoRow]:
    videos = []
    for name in NAMES:
        for severity in range(1, 6):
            wanted = recipe.make(suite_registry.get(f"mlvp/{name}"), severity, seed=seed, storage=tiers.UNSTORED)
            for item in (f"i{number}" for number in range(items)):
                path, recipe_id = f"{name}/{severity}/{item}", f"{name}/{severity}"
                videos.append(clips.video_row(wanted, dataset=dataset, item_id=item, path=path, recipe_id=recipe_id))
    return videos


def sources(items: int) -> list[CompleteSource]:
    return [clips.made_up_source(f"i{item}") for item in range(items)]


def chosen(mix: Iterable[MixRow]) -> dict[tuple[float | None, str, str | None], int]:
    return {(row.share, row.item_id, row.perturbation): row.severity for row in mix}


def test_mixed_severity_has_each_item_once_a_perturbation_at_any_severity() -> None:
    mix = list(mixes.mixed_severity(rows(400)))
    assert Counter(row.perturbation for row in mix) == dict.fromkeys(NAMES, 400)
    counts = Counter(row.severity for row in mix)
    assert set(counts) == {1, 2, 3, 4, 5}
    assert max(counts.values()) - min(counts.values()) < 90  # 240 each, standard deviation 14
    # An item's severity is drawn again for each perturbation.
    by_name = {name: [row.severity for row in mix if row.perturbation == name] for name in NAMES}
    assert by_name["fog"] != by_name["snow"]


def test_mixed_types_perturbs_the_share_and_leaves_the_rest_clean() -> None:
    mix = list(mixes.mixed_types(rows(50), sources(50)))
    for share in mixes.SHARES:
        of_share = [row for row in mix if row.share == share]
        assert len({row.item_id for row in of_share}) == len(of_share) == 50
        clean = [row for row in of_share if row.severity == 0]
        assert len(clean) == 50 - round(share * 50)
        assert all(row.path == f"{row.item_id}.mp4" and row.storage == SOURCE_STORAGE for row in clean)
    perturbed = {(row.perturbation, row.severity) for row in mix if row.severity}
    assert len(perturbed) > 10


def test_every_batch_has_its_share_in_the_order_of_the_evaluation() -> None:
    ids = [f"i{number}" for number in range(50)]
    batches = [ids[start : start + 16] for start in range(0, 50, 16)]
    mix = mixes.drawn(mixes.PER_BATCH, rows(50), sources(50), "", batches)
    of_all = mixes.drawn("mixed_types", rows(50), sources(50), "", batches)
    assert of_all == list(mixes.mixed_types(rows(50), sources(50)))
    for share, counts in zip(mixes.SHARES, [[3, 3, 3, 0], [6, 6, 6, 1], [10, 10, 10, 1], [13, 13, 13, 2]], strict=True):
        perturbed = {row.item_id: row.path for row in mix if row.share == share and row.severity}
        assert [sum(item in perturbed for item in batch) for batch in batches] == counts
        assert perturbed.items() <= {row.item_id: row.path for row in mix if row.share == 0.8}.items()
    assert mixes.drawn(mixes.PER_BATCH, rows(50), sources(50), "seed 7", batches) != mix


def test_an_item_keeps_what_became_of_it_from_share_to_share() -> None:
    mix = list(mixes.mixed_types(rows(30), sources(30)))
    by_share = {
        share: {row.item_id: row.path for row in mix if row.share == share and row.severity} for share in mixes.SHARES
    }
    assert by_share[0.2].items() < by_share[0.4].items() < by_share[0.6].items() < by_share[0.8].items()


def test_mixes_depend_on_the_seed_the_dataset_and_the_item_only() -> None:
    plain = chosen(mixes.mixed_severity(rows(20)))
    shuffled = rows(20)
    random.Random(4).shuffle(shuffled)
    assert chosen(mixes.mixed_severity(shuffled)) == plain
    assert chosen(mixes.mixed_types(shuffled, sources(20))) == chosen(mixes.mixed_types(rows(20), sources(20)))
    assert chosen(mixes.mixed_severity(rows(20, seed=1))) != plain
    assert chosen(mixes.mixed_severity(rows(20, dataset="other"))) != plain
    more = chosen(mixes.mixed_severity(rows(21)))
    assert {key: more[key] for key in plain} == plain


@pytest.mark.parametrize("items", [0, 1, 2])
def test_few_items(items: int) -> None:
    mix = list(mixes.mixed_types(rows(items), sources(items)))
    assert len(mix) == 4 * items
    assert len(list(mixes.mixed_severity(rows(items)))) == 3 * items


def test_a_quarantined_scenario_stays_a_row() -> None:
    broken = [replace(row, status="quarantined", path=None) for row in rows(5)]
    assert {row.status for row in mixes.mixed_severity(broken)} == {"quarantined"}


def perturbed_captions(names: list[str], items: int) -> list[TextRow]:
    wanted = caption_recipes.make(suite_registry.get("msrvtt_p/keyboard"), 1)
    return [
        clips.text_row(
            wanted,
            caption_id=f"c{item}.{number}",
            item_id=f"i{item}",
            perturbation=name,
            text=f"{name} {item} {number}",
            recipe_id=f"text/{name}",
        )
        for item in range(items)
        for number in range(2)
        for name in names
    ]


def test_combinations_join_a_caption_with_its_own_video() -> None:
    combined = suite_registry.Combined(severity=3, video=("fog", "snow"), text=("typos", "tense"))
    captions = perturbed_captions(["typos", "tense", "ocr"], 4)
    mix = list(mixes.multimodal(rows(3), captions, combined))
    assert Counter((row.perturbation, row.text_perturbation) for row in mix) == {
        (video, text): 6 for video in ("fog", "snow") for text in ("typos", "tense")
    }
    for row in mix:
        assert row.severity == 3
        assert row.path == f"{row.perturbation}/3/{row.item_id}"
        number = row.item_id[1:]
        assert row.caption_id.startswith(f"c{number}.")
        assert row.text.startswith(f"{row.text_perturbation} {number}")
        assert (row.text_recipe_id, row.recipe_id) == (f"text/{row.text_perturbation}", f"{row.perturbation}/3")
    combined = suite_registry.suite("msrvtt_p").combined
    assert combined is not None
    assert len(combined.video) * len(combined.text) == 66
    assert len(combined.video) * len([name for name in combined.text if not name.startswith("gender")]) == 48
    assert set(combined.video) <= {entry.name for entry in suite_registry.perturbations("msrvtt_p", "video")}
    assert set(combined.text) <= {entry.name for entry in suite_registry.perturbations("msrvtt_p", "text")}
    mix = list(mixes.multimodal(rows(2), perturbed_captions(list(combined.text), 2), combined))
    assert mix == []  # none of these videos is of the suite
