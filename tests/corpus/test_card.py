"""What a corpus may be compared with."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import clips
import pytest
from looping import each

from perturbations.corpus import corpus_card
from perturbations.corpus.comparability import verdict
from perturbations.corpus.plan import caption_recipes, recipe, tiers
from perturbations.corpus.tally import Tally
from perturbations.manifest import sets
from perturbations.manifest.rows import COMPLETE, QUARANTINED, TextRow, VideoRow
from perturbations.models.guides.backend_settings import Backends
from perturbations.suites import published_cells as tables
from perturbations.suites import suite_registry


def video(key: str, severity: int = 3, variant: str | None = None, **more: Any) -> VideoRow:
    wanted = recipe.make(suite_registry.get(key), severity, variant=variant, seed=0, storage=tiers.UNSTORED, **more)
    return clips.video_row(wanted)


def comparability(videos: Sequence[VideoRow], texts: Sequence[TextRow] = (), *, adapter: str) -> str:
    return verdict(Tally().counted(videos), Tally().counted(texts), adapter=adapter)


def text(key: str, backend: str = "offline", variant: str | None = None, severity: int = 1) -> TextRow:
    wanted = caption_recipes.make(suite_registry.get(key, variant), severity, backend=backend)
    return clips.text_row(wanted, source_text="a man sings", text="a man sinfs")


@pytest.fixture(autouse=True)
def _split_of_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the published splits were what `a_split` lists."""
    known = sets.ids_sha256(f"video{number}" for number in range(1_000)), ""
    splits = dict.fromkeys([("msrvtt", 1_000), ("flickr30k", 1_000)], known)
    monkeypatch.setattr(tables, "HASHES", {**tables.HASHES, **splits})


def a_split(key: str, count: int = 1_000, start: int = 0, **columns: Any) -> list[VideoRow]:
    """A row of each clip of a split."""
    row = replace(video(key), status=COMPLETE, **columns)
    return [replace(row, item_id=f"video{number}") for number in range(start, start + count)]


def test_a_whole_published_split_compares_as_far_as_a_corpus_can() -> None:
    of_hat_vtr = "comparable with published numbers of HAT-VTR, of the same model and weights"
    assert comparability(a_split("mlvp/fog"), adapter="msrvtt") == of_hat_vtr
    close = a_split("mlvp/fog", storage="video/high", storage_psnr_db=40.0)
    assert comparability(close, adapter="msrvtt") == of_hat_vtr
    stored = a_split("msrvtt_p/jpeg", storage="video/released", storage_psnr_db=33.0)
    assert comparability(stored, adapter="msrvtt").startswith("comparable with published numbers of MSRVTT-P")
    assert comparability([], captions(7), adapter="msrvtt") == of_hat_vtr
    pictures = a_split("mm_robustness/contrast", variant="released", storage="video/jpeg", storage_psnr_db=33.0)
    of_pictures = comparability(pictures, adapter="flickr30k")
    assert of_pictures.startswith("comparable with published numbers of Qiu et al."), of_pictures


def captions(severity: int, per_item: int = 1, items: int = 1_000) -> list[TextRow]:
    """A row of each caption of a split."""
    row = text("mm_robustness/ocr", variant="released", severity=severity)
    places = product(range(items), range(per_item))
    return [replace(row, item_id=f"video{item}", caption_id=f"{item}#{place}") for item, place in places]


@each(
    ("severity", "per_item", "adapter", "reason"),
    [
        (7, 20, "msrvtt", "20,000 captions are listed, and the published split of msrvtt has 1,000"),
        (7, 1, "flickr30k", "1,000 captions are listed, and the published split of flickr30k has 5,000"),
        (3, 1, "msrvtt", "no retrieval with captions of mm_robustness at these severities was published for msrvtt"),
        (2, 5, "flickr30k", "no retrieval with captions of mm_robustness at these severities was published for flickr"),
        (3, 5, "flickr30k", ""),
    ],
)
def test_captions_are_those_of_the_split_at_a_severity_of_the_tables(
    severity: int, per_item: int, adapter: str, reason: str
) -> None:
    sentence = comparability([], captions(severity, per_item), adapter=adapter)
    assert sentence.startswith(f"not comparable with published numbers: {reason}" if reason else "comparable with")


@each(
    ("rows", "adapter", "reason"),
    [
        (
            a_split("mlvp/fog", 8),
            "demo",
            "retrieval with videos of mlvp was published for msrvtt, activitynet, lsmdc, ",
        ),
        (
            a_split("mm_robustness/fog"),
            "msrvtt",
            "no retrieval with videos of mm_robustness was published, only with im",
        ),
        (a_split("transmission/packet_loss", 2), "msrvtt", "no retrieval with videos of transmission was published"),
        (a_split("mlvp/fog", 999), "msrvtt", "999 items are listed, and the published split of msrvtt has 1,000"),
        (a_split("mlvp/fog", start=1), "msrvtt", "the 1,000 listed items are not those of the published split of "),
        (
            a_split("mlvp/fog") + a_split("mlvp/snow", 1, variant="paper"),
            "msrvtt",
            "the variant is paper; the authors'",
        ),
        (
            a_split("mlvp/fog", storage="video/compatible", storage_psnr_db=39.9),
            "msrvtt",
            "39.9 dB against the intended",
        ),
        (a_split("mlvp/fog", params='{"thickness": 9}'), "msrvtt", "parameters are not the published ones: fog"),
        (
            a_split("mlvp/fog", backend='{"style": {"backend": "offline"}}'),
            "msrvtt",
            "offline backends made fog (style)",
        ),
        (
            [*a_split("mlvp/fog", 999), replace(video("mlvp/fog"), item_id="x", status="quarantined")],
            "msrvtt",
            "1 of 1,",
        ),
    ],
)
def test_what_differs_from_the_published_experiment_is_named(rows: list[VideoRow], adapter: str, reason: str) -> None:
    sentence = comparability(rows, adapter=adapter)
    assert sentence.startswith("not comparable with published numbers: ")
    assert reason in sentence


def test_all_reasons_stand_in_one_sentence() -> None:
    assert comparability([], adapter="msrvtt").startswith("not comparable")
    frost = replace(video("mm_robustness/frost"), backend=json.dumps({"frost": {"backend": "offline"}}))
    own = video("mm_robustness/gaussian_noise", replaced={"sigma": 0.5})
    sentence = comparability([video("mm_robustness/fog"), frost, own], adapter="folder")
    assert sentence == (
        "not comparable with published numbers: no retrieval with videos of mm_robustness was published, only with "
        "images; the variant is paper; the authors' code makes these otherwise: fog, frost, gaussian_noise; offline "
        "backends made frost (frost); parameters are not the published ones: gaussian_noise"
    )


@pytest.mark.parametrize("donors", ["data", "twin"])
@pytest.mark.parametrize(("donor", "is_named"), [("a" * 64, True), ("b" * 64, False)])
def test_donors_that_are_evaluated_themselves_are_named(donors: str, donor: str, is_named: bool) -> None:
    """Whatever their dataset is called: the hash of a donor's file tells."""
    row = replace(video("mlvp/event_insertion", donors=donors), dataset="data", source_sha256="a" * 64)
    row = replace(row, donor_id="x", guide=json.dumps({"donor": {"sha256": donor}}))
    assert ("donors are clips of the evaluated dataset" in comparability([row], adapter="msrvtt")) == is_named


@pytest.mark.parametrize("images", [None, "paintings"])
def test_styles_that_the_package_draws_are_named(images: str | None) -> None:
    style = {"backend": "pretrained", "encoder": "e", "encoder_sha256": "0" * 64, "decoder": "d", "images": images}
    backends = Backends.model_validate({"style": {**style, "decoder_sha256": "0" * 64}})
    row = replace(video("mlvp/style_transfer", backends=backends), guide="{}")
    assert ("styles are drawn by the package" in comparability([row], adapter="msrvtt")) == (images is None)


def test_offline_players_of_captions_are_named_with_what_they_change() -> None:
    rows = [text("msrvtt_p/back_trans"), text("msrvtt_p/keyboard")]
    assert (
        f"offline backends made back_trans (translator); offline, back_trans "
        f"{suite_registry.get('msrvtt_p/back_trans').not_comparable}"
    ) in comparability([], rows, adapter="msrvtt")


def test_the_card_says_what_became_of_every_listed_clip() -> None:
    rows = [replace(video("mlvp/fog", severity), psnr_db=20.0 + severity) for severity in (1, 2)]
    rows.append(replace(rows[0], item_id="other", status=QUARANTINED, psnr_db=None))
    listed = sets.Listed(listed=1000, listed_sha256="0", complete=1, quarantined=1, missing=998, scenarios=2)
    about = {"dataset": "data", "package_version": "1.2.3", "config_digest": "abc"}
    lines = corpus_card.card(suite_registry.suite("mlvp"), Tally().counted(rows), listed, about).splitlines()
    assert "- 1 of 1,000 listed clips complete; 1 quarantined; 998 missing" in lines
    assert "- 2 of 2,000 videos; perturbations: 1, severities: 1, 2" in lines
    assert "| fog | " in lines[-1]
    assert lines[-1].endswith("| 2 | none | 21.0 / 22.0 |")
    assert "made by perturbations 1.2.3; configuration abc" in "\n".join(lines)


def test_a_clip_that_did_not_change_is_no_part_of_the_mean_and_a_card_without_a_video_is_one() -> None:
    values = [(1, math.inf), (1, 30.0), (1, 20.0), (2, math.inf), (3, None)]
    rows = [replace(video("mlvp/temporal_scrambling", severity), psnr_db=value) for severity, value in values]
    listed = sets.Listed(listed=3, listed_sha256="0", complete=3, quarantined=0, missing=0, scenarios=3)
    line = corpus_card.card(
        suite_registry.suite("mlvp"), Tally().counted(rows), listed, {"dataset": "data"}
    ).splitlines()[-1]
    assert line.endswith("| 25.0 / equal / - |")
    listed = sets.Listed(listed=2, listed_sha256="0", complete=0, quarantined=0, missing=2, scenarios=5)
    text = corpus_card.card(suite_registry.suite("mlvp"), Tally(), listed, {"dataset": "data"})
    assert "0 of 2 listed clips complete; 2 missing" in text
