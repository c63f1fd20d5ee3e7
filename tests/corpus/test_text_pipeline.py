"""Captions through the pipeline: rows, keys, independence, odd input, errors, the gate."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import clips
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_support import ENTRIES, GIRL, KEYS, PERSON, msrvtt, role

import perturbations
from perturbations.base.errors import BackendError, UnknownPerturbationError
from perturbations.base.rng import seeded_globals
from perturbations.corpus.captions import fidelity_gate, pipeline
from perturbations.corpus.captions.fidelity_gate import Similarities
from perturbations.corpus.plan import caption_recipes
from perturbations.manifest.rows import CaptionRow
from perturbations.models import role_registry as models
from perturbations.models.text_similarity import SentenceEncoder
from perturbations.pages import category_distances
from perturbations.suites import published_cells, suite_registry
from perturbations.suites.suite_registry import Perturbation
from perturbations.text.fluency import fluency_change

CAPTIONS = [
    GIRL,
    PERSON,
    "add the oil to the pan",
    "",
    "a man talks about cars",
    "two dogs run over the big field",
    "Cats.",
]
LISTED = [CaptionRow(dataset="d", caption_id=f"c{at}", item_id=f"v{at}", text=text) for at, text in enumerate(CAPTIONS)]
MAN = [CaptionRow(dataset="d", caption_id="c", item_id="v", text="man")]


def available(entry: Perturbation) -> str:
    """The key of a perturbation; skips the test where a role of its offline form is not installed."""
    for name in [*entry.roles, *(["similarity"] if entry.gated else [])]:
        role(name)
    return entry.key


def perturbed(
    key: str, listed: Sequence[CaptionRow] = LISTED, severity: int = 1, variant: str | None = None
) -> list[pipeline.PerturbedText]:
    wanted = caption_recipes.make(suite_registry.get(key, variant), severity, seed=3)
    return list(pipeline.perturb_captions(wanted, "demo", listed))


@pytest.mark.parametrize("adapter", ["msrvtt", "youcook2", "folder"])
def test_every_published_distance_of_its_dataset_stands_beside_ours(adapter: str) -> None:
    names = ["append_irr", "gender_swap", "typos", "no_nouns", "drop_first", "back_trans", "tense"]
    rows = [
        clips.text_row(
            caption_recipes.make(suite_registry.get(f"msrvtt_p/{name}"), 1), source_text=GIRL, text=f"{GIRL} now"
        )
        for name in names
    ]
    distances = {"bleu4": 0.25, "meteor": 0.5, "rouge1": 0.75}
    scenarios = [replace(pipeline.statistics([row]), **distances) for row in rows]
    distance_table = category_distances.table(scenarios, adapter)
    head, table = distance_table["heads"], distance_table["rows"]
    ours = [[text for name, text in zip(head, line, strict=True) if name != "paper"] for line in table]
    assert ours == [[suite_registry.get(f"msrvtt_p/{name}").category, "0.25", "0.50", "0.75"] for name in names]
    places = [place for place, name in enumerate(head) if name == "paper"]
    printed = {(line[0], metric): line[place] for line in table for metric, place in zip("bmr", places, strict=False)}
    cells = [
        cell for cell in published_cells.cells() if (cell.paper, cell.table, cell.dataset) == ("msrvtt_p", "6", adapter)
    ]
    assert {key: text for key, text in printed.items() if text} == {
        (cell.perturbation, cell.metric[0]): cell.printed for cell in cells
    }


# --- rows and keys ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", ENTRIES, ids=KEYS)
def test_every_perturbation_gives_a_row_a_caption(entry: Perturbation) -> None:
    for severity in (entry.severities[0], entry.severities[-1]):
        available(entry)
        rows = list(pipeline.rows_of(caption_recipes.make(entry, severity, seed=3), "demo", LISTED))
        assert [row.caption_id for row in rows] == [clean.caption_id for clean in LISTED]
        for row, clean in zip(rows, LISTED, strict=True):
            assert (row.dataset, row.item_id, row.severity) == ("demo", clean.item_id, severity)
            assert (row.suite, row.perturbation, row.level) == (entry.suite, entry.name, entry.category)
            assert row.changed == (row.text != clean.text)
            assert row.backend
            assert 1 <= row.attempts <= 100
            assert (row.similarity is not None) == (entry.gated or entry.measured)
            assert not row.effective_change or row.changed
            assert (row.unchanged is None) == row.changed
            if not row.changed:
                assert row.fluency_change in (0, None)
            if entry.gated and row.similarity is not None:
                assert row.accepted == (row.similarity >= role("similarity").threshold)
            else:
                assert row.accepted


@pytest.mark.parametrize("entry", ENTRIES, ids=KEYS)
def test_a_captions_result_depends_on_nothing_but_its_key(entry: Perturbation) -> None:
    key, severity = available(entry), 1 if entry.gated else entry.severities[-1]  # the gate's last tries cost seconds
    whole = perturbed(key, severity=severity)
    order = (4, 1, 6, 0, 2)
    assert perturbed(key, [LISTED[at] for at in order], severity) == [whole[at] for at in order]
    # other captions beside it, and calls before it
    assert perturbations.perturb_text(PERSON, key, severity, seed=3, item_id="c1", dataset="demo") == whole[1]


@pytest.mark.parametrize("entry", [e for e in ENTRIES if e.draw == "caption"], ids=lambda e: e.key)
def test_the_key_is_seed_dataset_and_caption(entry: Perturbation) -> None:
    long = " ".join([PERSON, "while", "another", "woman", "quickly", "opens", "several", "green", "boxes"] * 3)
    key = available(entry)

    def text(**changed: Any) -> str:
        arguments = {"seed": 3, "item_id": "c1", "dataset": "demo", **changed}
        return perturbations.perturb_text(long, key, 1 if entry.gated else entry.severities[-1], **arguments).text

    assert text() == text()
    others = [text(seed=seed) for seed in range(4, 9)]
    assert any(other != text() for other in others)
    assert any(text(item_id=f"c{at}") != text() for at in range(2, 7))
    assert any(text(dataset=f"demo{at}") != text() for at in range(5))


def test_the_global_generators_are_left_alone() -> None:
    random.seed(1)
    np.random.seed(1)
    before = (random.getstate(), np.random.get_state()[1].tobytes())
    for entry in ENTRIES:
        if not entry.roles:
            perturbed(entry.key)
    assert (random.getstate(), np.random.get_state()[1].tobytes()) == before


@pytest.mark.parametrize(
    "keys", [["mm_robustness/ocr"], ["mm_robustness/synonym_replace", "msrvtt_p/swap_syn_wordnet"]]
)
def test_the_hash_seed_changes_nothing(keys: list[str]) -> None:
    pairs = [(available(suite_registry.get(key)), seed) for key in keys for seed in range(5)]
    texts = [perturbations.perturb_text(PERSON, key, seed=seed, item_id="c").text for key, seed in pairs]
    script = (
        "import perturbations\n"
        f"texts = [perturbations.perturb_text({PERSON!r}, key, seed=s, item_id='c').text for key, s in {pairs!r}]\n"
        f"assert texts == {texts!r}, texts"
    )
    root = Path(perturbations.__file__).parents[1]
    own = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    environment = {**os.environ, "PYTHONHASHSEED": own, "PYTHONPATH": str(root)}
    subprocess.run([sys.executable, "-c", script], check=True, cwd=root, env=environment)


def test_seeded_globals_repeat_and_restore() -> None:
    torch = pytest.importorskip("torch")

    def draws(seed: int) -> tuple[float, float, float]:
        with seeded_globals(np.random.default_rng(seed)):
            return random.random(), np.random.random(), torch.rand(1).item()

    random.seed(5)
    before = (random.getstate(), torch.random.get_rng_state().tolist())
    assert draws(1) == draws(1) != draws(2)
    assert (random.getstate(), torch.random.get_rng_state().tolist()) == before


# --- the public function ----------------------------------------------------------------------------------------------


def test_perturb_text_says_what_it_did_and_severity_zero_is_the_caption() -> None:
    result = perturbations.perturb_text(GIRL, "msrvtt_p/gender_male", seed=0, item_id="ret1")
    assert result == pipeline.PerturbedText(
        text="a little boy does gymnastics",
        changed=True,
        effective_change=True,
        unchanged=None,
        similarity=None,
        fluency_change=fluency_change(GIRL, "a little boy does gymnastics"),
        attempts=1,
        accepted=True,
        backend="rules",
    )
    with pytest.raises(FrozenInstanceError):
        result.text = ""  # type: ignore[misc]
    result = perturbations.perturb_text(GIRL, "mm_robustness/ocr", 0, seed=0, item_id="ret1")
    assert (result.text, result.changed, result.accepted) == (GIRL, False, True)
    assert result.unchanged == "severity 0 changes nothing"


@pytest.mark.parametrize(
    ("key", "text", "reason"),
    [
        ("msrvtt_p/active_to_passive", "a dog sleeps", "active_to_passive found nothing to change"),
        ("msrvtt_p/active_to_passive", "собака спит", "it is made for English"),
        ("msrvtt_p/back_trans", "123", "the round trip gave the caption back: it is no back-translation"),
    ],
)
def test_an_unchanged_caption_says_why(key: str, text: str, reason: str) -> None:
    available(suite_registry.get(key))
    assert perturbations.perturb_text(text, key, seed=0, item_id="ret1").unchanged == reason


def test_what_does_not_exist_is_refused() -> None:
    with pytest.raises(UnknownPerturbationError, match="msrvtt_p/gender_swap"):
        perturbations.perturb_text(GIRL, "msrvtt_p/gender_swp", seed=0, item_id="c")
    with pytest.raises(UnknownPerturbationError, match=r"no severity 8; choose one of \[1, 2, 3, 4, 5, 6, 7\]"):
        perturbations.perturb_text(GIRL, "mm_robustness/ocr", 8, seed=0, item_id="c")
    with pytest.raises(UnknownPerturbationError, match="no variant 'printed'"):
        perturbations.perturb_text(GIRL, "mm_robustness/ocr", seed=0, item_id="c", variant="printed")
    with pytest.raises(UnknownPerturbationError, match="mlvp/fog perturbs videos"):
        perturbations.perturb_text(GIRL, "mlvp/fog", seed=0, item_id="c")
    with pytest.raises(UnknownPerturbationError, match="msrvtt_p/typos perturbs captions"):
        perturbations.perturb(np.zeros((1, 2, 2, 3), np.uint8), "msrvtt_p/typos", 1, seed=0, item_id="c", fps=25)
    with pytest.raises(BackendError, match=r"no backend 'gpu'; choose one of \['offline', 'pretrained'\]"):
        perturbations.perturb_text(GIRL, "msrvtt_p/no_nouns", seed=0, item_id="c", backend="gpu")


# --- odd input --------------------------------------------------------------------------------------------------------

ODD = [
    "",
    " ",
    "\n\t",
    "man",
    "😀",
    "a man 👍🏽 runs",
    "رجل يعزف على البيتار في الحديقة",
    "a man\nplays\tguitar  ",
    "<b>a man</b> plays <i>guitar</i> &amp; sings",
    "ein Mann spielt Gitarre in der Straße",
    "男人在弹吉他",
    "... !!! ???",
    "isn't",
    "n't",
    "not",
    "[UNK]",
    "a\x00b c",
    "\ud800 a man",
    "a^b $x/ \\ {c} [d] @e *f #g ~h",
    "x" * 3000,
    " ".join(["a man plays the guitar and sings"] * 96)[:3000],
]
UNGATED = [entry for entry in ENTRIES if not entry.gated]


@pytest.mark.parametrize("entry", ENTRIES, ids=KEYS)
def test_odd_captions_give_sensible_rows(entry: Perturbation) -> None:
    listed = [CaptionRow(dataset="d", caption_id=str(at), item_id=str(at), text=text) for at, text in enumerate(ODD)]
    if entry.gated:  # the long ones cost the gate seconds each
        listed = [clean for clean in listed if len(clean.text) < 100][::2]
    severity = 1 if entry.gated else entry.severities[-1]
    for result, clean in zip(perturbed(available(entry), listed, severity), listed, strict=True):
        assert isinstance(result.text, str)
        assert result.changed == (result.text != clean.text)
        if not clean.text.strip():
            assert not result.changed
        else:
            assert result.text.strip()


# Not those that start a program: what it takes is tested above.
@pytest.mark.parametrize("entry", [e for e in UNGATED if "translator" not in e.roles], ids=lambda e: e.key)
@settings(max_examples=10)
@given(text=st.text(max_size=80), seed=st.integers(0, 5))
def test_any_caption_can_be_perturbed(entry: Perturbation, text: str, seed: int) -> None:
    result = perturbations.perturb_text(text, available(entry), entry.severities[-1], seed=seed, item_id="c")
    assert result.changed == (result.text != text)
    if entry.category == "DropText":
        assert len(result.text.split()) == len(text.split())


# --- the gate ---------------------------------------------------------------------------------------------------------


def fake_encoder(embedded: list[list[str]] | None = None) -> SentenceEncoder:
    """Texts as unit vectors in the plane: "0.9" is at cosine 0.9 to everything that is no number."""

    def embed(texts: Sequence[str]) -> Any:
        if embedded is not None:
            embedded.append(list(texts))
        cosines = [float(text) if text[0].isdigit() else 1.0 for text in texts]
        return np.array([[cosine, np.sqrt(1 - cosine**2)] for cosine in cosines])

    return SentenceEncoder(embed, 0.9)


def draws(*texts: str) -> Any:
    return iter(texts).__next__


def first_accepted(originals: list[str], drawn: list[Any], tries: int, encoder: SentenceEncoder | None = None) -> Any:
    return fidelity_gate.first_accepted(originals, drawn, Similarities(encoder or fake_encoder()), tries)


def test_the_gate_takes_the_first_that_is_similar_enough_or_the_last_try() -> None:
    outcomes = first_accepted(["a", "b"], [draws("0.5", "0.95", "0.99"), draws("0.9")], 100)
    assert outcomes == [("0.95", 0.95, 2, True), ("0.9", 0.9, 1, True)]
    outcomes = first_accepted(["a"], [draws("0.8", "0.1", "0.2")], 3)
    assert outcomes == [("0.2", 0.2, 3, False)]
    outcomes = first_accepted(["a", "b"], [draws("0.89996"), draws("0.89994")], 1)
    assert [(similarity, accepted) for _, similarity, _, accepted in outcomes] == [(0.9, True), (0.8999, False)]
    embedded: list[list[str]] = []
    drawn = [draws("0.1", "0.1", "1.0"), draws("0.2", "0.95"), draws("c")]
    first_accepted(["a", "b", "c"], drawn, 100, fake_encoder(embedded))
    assert embedded == [["a", "0.1", "b", "0.2"], ["0.95"], ["1.0"]]


def test_a_similarity_is_computed_once_and_a_full_memory_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [("a", "0.5"), ("a", "0.25"), ("b", "0.5"), ("\x00", "0.75"), ("\ud800", "0.5")]
    cosines = [0.5, 0.25, 0.5, 0.75, 0.5]
    embedded: list[list[str]] = []
    known = Similarities(fake_encoder(embedded))
    assert known.of(pairs) == known.of(pairs) == cosines
    assert len(embedded) == 1
    assert known.of([("a", "0.125")]) == [0.125]
    assert embedded[1:] == [["0.125"]]  # the original is known
    monkeypatch.setattr(fidelity_gate, "_MOST", 1)
    full = Similarities(fake_encoder())
    assert full.of(pairs) == full.of(pairs) == cosines


def test_a_hundred_tries_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the similarity of the product; the synonym is given, and far from the word."""
    loaded = {"wordnet": lambda word, tag: ("bicycle",), "similarity": role("similarity"), "tagger": role("tagger")}
    monkeypatch.setattr(models, "load", lambda name, backend: loaded[name])
    results = perturbed("mm_robustness/synonym_replace", MAN, 7)
    assert [(result.attempts, result.accepted) for result in results] == [(100, False)]


def test_what_has_no_chance_in_it_is_tried_once_and_an_unchanged_caption_passes() -> None:
    role("styler"), role("similarity")
    (result,) = perturbed("mm_robustness/casual", MAN)
    assert (result.text, result.attempts) == ("guy", 1)
    (result,) = perturbed("mm_robustness/word_swap", MAN)
    assert (result.text, result.similarity, result.attempts, result.accepted) == ("man", 1.0, 1, True)


# --- the real captions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "variant", "count"),
    [
        ("gender_female", "released", 338),
        ("gender_male", "released", 243),
        ("gender_swap", "released", 532),
        ("gender_neutral", "released", 528),
        ("gender_female", "paper", 336),
        ("gender_male", "paper", 244),
    ],
)
def test_gender_changes_the_papers_share_of_msrvtt(reference: Path, name: str, variant: str, count: int) -> None:
    """33.8, 24.3, 53.2 and 52.8 % (Schiappa et al., Sec. 5), and what the corrected word table gives."""
    available(suite_registry.get(f"msrvtt_p/{name}"))
    results = perturbed(f"msrvtt_p/{name}", msrvtt(reference), variant=variant)
    assert len(results) == 1000
    assert sum(result.changed for result in results) == count
