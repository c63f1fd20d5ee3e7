"""Methods on similarities: authors' recorded outputs, plain formulas, and what holds for all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from copies import ROOT
from looping import each

torch = pytest.importorskip("torch")

from perturbations import tta
from perturbations.base.errors import ConfigError
from perturbations.tta.encoders import DualEncoder
from perturbations.tta.methods import method_registry
from perturbations.tta.methods.shot import information_loss
from perturbations.tta.rescoring import potentials, signed

with np.load(ROOT / "tests" / "golden" / "rescoring.npz") as held:
    RECORDED = {name: held[name].astype(np.float64) for name in held.files}
RESCORING = [name for name, entry in method_registry.methods().items() if not entry.adapts and not entry.is_baseline]


class Table(torch.nn.Module):
    """An encoder of given features: a text is its row's number, a frame its features. What learns shifts them."""

    def __init__(self, features: Any) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(2)
        self.features = torch.as_tensor(features)

    def shift(self) -> Any:
        return self.norm.weight.sum() - 2

    def model(self) -> DualEncoder:
        return DualEncoder(
            vision=self.norm,
            text=self.norm,
            encode_frames=lambda frames: frames[:, :, 0, 0] + self.shift(),
            encode_texts=lambda ids, mask: self.features[ids[:, 0]] + self.shift(),
            pooling=None,
            modules=(self,),
        )


def scores(method: str, direction: str = "v2t", sizes: tuple[int, ...] = (5, 7), **options: Any) -> np.ndarray:
    """The method's scores of the recorded queries, in batches of these sizes."""
    features = {name: torch.as_tensor(options.pop(name, RECORDED[name])) for name in NAMES}
    queries = features["queries"]
    if direction == "v2t":
        given = queries[:, None, None, None].expand(-1, 1, 3, 1, -1)
    else:
        given = torch.arange(len(queries))[:, None]
    other = "t2v" if direction == "v2t" else "v2t"
    if method_registry.method(method).needs_bank:
        options["bank"] = gallery_of(other, features["bank"])
    if method_registry.method(method).takes_gallery_bank:
        options["gallery_bank"] = gallery_of(direction, features["gallery_bank"])
    gallery = gallery_of(direction, features["gallery"])
    batches = list(given.split(list(sizes)))
    run = tta.adapt(Table(queries).model(), method, batches, gallery, direction=direction, **options)
    return torch.cat(list(run)).numpy()


NAMES = ("queries", "gallery", "bank", "gallery_bank")


def gallery_of(direction: str, features: Any) -> tta.Gallery:
    return tta.Gallery(direction, features if direction == "v2t" else features[:, None])


def test_hsm_weighs_the_scores_of_qbnorm() -> None:
    """Eq. 6 of HAT-VTR, with QB-Norm's scores for all queries; the first batch has no history."""
    unit = {name: RECORDED[name] / np.linalg.norm(RECORDED[name], axis=1, keepdims=True) for name in NAMES}
    similarities, banked = (unit[name].astype(np.float64) @ unit["gallery"].T for name in ("queries", "bank"))
    normalized = np.exp(20 * similarities) / np.exp(20 * banked).sum(0)
    popular = np.exp(100 * similarities[:12]) / np.exp(100 * similarities[:12]).sum(0)
    sure = np.exp(10 * similarities[:12]) / np.exp(10 * similarities[:12]).sum(1, keepdims=True)
    second = (normalized[:12] * (0.5 * popular + 0.5 * sure))[5:]
    given = scores("hsm_qbnorm", parameters={"dynamic": False}, queries=RECORDED["queries"][:12])
    for scored, expected in ((given[:5], normalized[:5]), (given[5:], second)):
        np.testing.assert_allclose(
            scored / scored.max(1, keepdims=True), expected / expected.max(1, keepdims=True), 1e-4
        )


# --- as the authors' code ---------------------------------------------------------------------------------------------


@each("direction", tta.DIRECTIONS)
@each(
    ("method", "recorded", "parameters"),
    [
        ("dual_is", "dual_is_released", {"form": "released"}),
        ("dual_dis", "dual_dis_released", {"form": "released"}),
        ("sinkhorn", "sinkhorn", {}),
        ("dual_sinkhorn", "dual_sinkhorn", {}),
        ("invgc", "invgc_local", {"share": 0.2}),
        ("invgc", "invgc", {"local": False, "rate_gallery": 0.7, "rate_query": 2}),
    ],
)
def test_as_recorded(method: str, recorded: str, parameters: dict[str, object], direction: str) -> None:
    ours = scores(method, direction, parameters=parameters)
    np.testing.assert_allclose(ours, RECORDED[recorded], rtol=1e-6, atol=1e-12)


def in_order(values: np.ndarray, logs: np.ndarray) -> np.ndarray:
    """sign(values) * exp(logs) as numbers of the same order in each row, less the row's first."""
    lowest = np.minimum(logs.min(1, keepdims=True), 0) - 1
    ordered = np.where(values > 0, logs, 2 * lowest - logs)
    return np.asarray(ordered - ordered[:, :1])


@pytest.mark.parametrize("direction", tta.DIRECTIONS)
@pytest.mark.parametrize(
    ("method", "recorded", "parameters", "scale"),
    [
        ("qbnorm", "qbnorm", {}, 20),
        ("qbnorm", "qbnorm_k2_beta5", {"k": 2, "beta": 5}, 5),
        ("qbnorm", "is_bank", {"dynamic": False}, 20),
        ("dual_is", "dual_is", {}, 1),
        ("dual_dis", "dual_dis", {}, 1),
    ],
)
def test_the_logarithms_of_what_is_recorded(
    method: str, recorded: str, parameters: dict[str, object], scale: float, direction: str
) -> None:
    """Rows that a dynamic form leaves alone are the cosines."""
    ours, theirs = scores(method, direction, parameters=parameters), RECORDED[recorded]
    plain = np.isclose(theirs, cosines(), rtol=1e-9).all(1)
    np.testing.assert_allclose(ours[plain], cosines()[plain], rtol=1e-6)
    of_theirs = in_order(theirs, np.log(np.abs(theirs)) / scale)[~plain]
    np.testing.assert_allclose((ours - ours[:, :1])[~plain], of_theirs, rtol=1e-5, atol=1e-6)
    assert not plain.all()


def test_inverted_softmax_is_the_recorded_one_as_cosines() -> None:
    np.testing.assert_allclose(np.exp(20 * scores("inverted_softmax")), RECORDED["is_queries"], rtol=1e-6)


# --- by their formulas ------------------------------------------------------------------------------------------------


def cosines() -> np.ndarray:
    return np.asarray(RECORDED["queries"] @ RECORDED["gallery"].T)


@pytest.mark.parametrize("scale", [100, 1000])
def test_dsl_by_its_formula(scale: float) -> None:
    plain = cosines()
    logs = plain + (np.log(np.abs(plain)) - np.logaddexp.reduce(scale * plain, 0)) / scale
    ours = scores("dsl", parameters={"scale": scale})
    np.testing.assert_allclose(ours - ours[:, :1], in_order(plain, logs), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("method", "parameters"),
    [("dsl", {}), ("dsl", {"scale": 1000}), ("qbnorm", {"beta": 500}), ("dual_is", {"beta_query": 300.0})],
)
def test_ranks_in_float32_are_those_of_exact_numbers(method: str, parameters: dict[str, object]) -> None:
    """As products of exponentials, most of a row is 0 in float32, and the ranks are those of ties."""
    generator = np.random.default_rng(0)
    features = {name: generator.normal(size=(80, 4)) for name in NAMES}
    exact = scores(method, sizes=(80,), parameters=parameters, **features)
    rounded = scores(method, sizes=(80,), parameters=parameters, **{k: v.astype("f4") for k, v in features.items()})
    spread = np.sort(exact, 1)
    clear = np.diff(spread).min(1) > 1e-5 * np.abs(spread).max(1)
    assert clear.sum() > 30
    np.testing.assert_array_equal(rounded[clear].argsort(1), exact[clear].argsort(1))
    below = np.exp(np.float32(500) * (rounded - rounded.max(1, keepdims=True)))
    assert (below == 0).any(1).all()


def nearest_to(entries: np.ndarray, k: int) -> set[int]:
    return {int(item) for row in entries for item in np.argsort(-row)[:k]}


@each("direction", tta.DIRECTIONS)
@each("k", (1, 3))
@each("seed", range(6))
def test_dual_dis_asks_for_hubs_by_signed_similarities(direction: str, k: int, seed: int) -> None:
    """In few dimensions the largest |S| of a row is often a negative S. Each factor is exp(b S) / mass, or S itself."""
    generator = np.random.default_rng(seed)
    raw = {name: generator.normal(size=(30, 3)) for name in NAMES}
    unit = {name: rows / np.linalg.norm(rows, axis=1, keepdims=True) for name, rows in raw.items()}
    similarities = unit["queries"] @ unit["gallery"].T
    expected = np.ones_like(similarities)
    for bank, beta in (("bank", 1 / 1.99), ("gallery_bank", 3.0)):
        of_bank = unit[bank] @ unit["gallery"].T
        hubs, mass = nearest_to(of_bank, k), np.exp(beta * of_bank).sum(0)
        for query, row in enumerate(similarities):
            expected[query] *= np.exp(beta * row) / mass if int(np.argmax(row)) in hubs else row
    by_size = np.abs(similarities).argmax(1) != similarities.argmax(1)
    assert by_size.sum() > 5
    ours = scores("dual_dis", direction, sizes=(30,), parameters={"k": k}, **raw)
    np.testing.assert_array_equal(ours.argsort(1), expected.argsort(1))


@each("method", sorted(method_registry.methods()))
@each("direction", tta.DIRECTIONS)
def test_gallery_items_with_equal_features_tie(method: str, direction: str) -> None:
    """By every method, learning ones too: sums over a column round as its place in a block of memory has it."""
    if method in ("dual_is", "dual_dis"):
        forms: tuple[dict[str, object], ...] = ({}, {"form": "released"})
    else:
        forms = ({}, {"local": False}) if method == "invgc" else ({},)
    generator = np.random.default_rng(0)
    rows = {name: generator.normal(size=(203, 13)).astype(np.float32) for name in ("bank", "gallery")}
    rows["gallery"][-20:] = rows["gallery"][:20]
    rows |= {name: generator.normal(size=(12, 13)).astype(np.float32) for name in ("queries", "gallery_bank")}
    for parameters in forms:
        ours = scores(method, direction, parameters=parameters, **rows)
        assert np.array_equal(ours[:, -20:], ours[:, :20])
        assert len(np.unique(ours[0])) > 100


def test_signed_numbers_keep_the_order_of_products() -> None:
    values = torch.tensor([[0.5, 0.0, -0.5, -1e-3, 2.0, -0.5], [0.0] * 6])
    logs = torch.tensor([[-900.0, -torch.inf, -900.0, -5.0, -800.0, -700.0], [-torch.inf] * 6])
    first, zeros = signed(values, logs)
    assert first.argsort(descending=True).tolist() == [4, 0, 1, 2, 5, 3]
    assert len(set(zeros.tolist())) == 1


def test_csls_by_its_formula() -> None:
    plain, k = cosines(), 3
    expected = np.empty_like(plain)
    for query in range(len(plain)):
        for item in range(plain.shape[1]):
            near_items = sorted(plain[query])[-k:]
            near_queries = sorted(plain[:, item])[-k:]
            expected[query, item] = 2 * plain[query, item] - sum(near_items) / k - sum(near_queries) / k
    np.testing.assert_allclose(scores("csls", parameters={"k": k}), expected, atol=1e-6)


def test_shots_loss_by_its_formula() -> None:
    logits = 3 * np.random.default_rng(0).normal(size=(6, 9))
    logits[2, 4] = 30  # the only certain query
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    mean = p.mean(0)
    expected = -(p * np.log(p)).sum(1).mean() + (mean * np.log(mean + 1e-5)).sum()
    given = torch.as_tensor(logits)
    assert float(information_loss(given, 1.0, 0.1)) == pytest.approx(expected)
    certain = p.max(1) > 0.9
    with_labels = expected + 0.1 * -np.log(p[certain].max(1)).mean()
    assert certain.any()
    assert float(information_loss(given, 0.9, 0.1)) == pytest.approx(with_labels)


# --- what holds for all -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", RESCORING)
def test_online_methods_depend_on_no_other_query(method: str) -> None:
    """And a method declared to need all queries does depend on them, or the flag would be wrong."""
    together = scores(method)[:5]
    alone = scores(method, sizes=(5,), queries=RECORDED["queries"][:5])
    assert np.allclose(together, alone, rtol=1e-9) is not method_registry.method(method).needs_all_queries


@pytest.mark.parametrize("method", RESCORING)
def test_a_broken_query_harms_no_other(method: str) -> None:
    broken = RECORDED["queries"].copy()
    broken[3] = np.nan
    rest = np.delete(np.arange(len(broken)), 3)
    ours, expected = scores(method, queries=broken), scores(method, sizes=(4, 7), queries=broken[rest])
    np.testing.assert_allclose(ours[rest], expected, rtol=1e-9)
    assert np.isnan(ours[3]).any()


def test_without_a_gallery_bank_the_gallery_is_its_own() -> None:
    features = torch.as_tensor(RECORDED["gallery"])
    queries = torch.as_tensor(RECORDED["queries"])[:, None, None, None].expand(-1, 1, 3, 1, -1)
    bank = tta.Gallery("t2v", torch.as_tensor(RECORDED["bank"])[:, None])
    gallery = tta.Gallery("v2t", features)
    model = Table(features).model()

    def run(**options: Any) -> Any:
        return next(tta.adapt(model, "dual_is", [queries], gallery, direction="v2t", bank=bank, **options))

    assert torch.equal(run(), run(gallery_bank=gallery))
    assert not torch.equal(run(), run(gallery_bank=tta.Gallery("v2t", features[:3])))


def test_sinkhorn_keeps_its_digits_in_float32() -> None:
    """exp((S - 1) / tau) leaves float32 below a similarity of 0; the logarithms do not."""
    similarities = 2 * torch.rand(50, 40, generator=torch.Generator().manual_seed(0), dtype=torch.float64) - 1
    exact, ours = potentials(similarities, 0.01, 10), potentials(similarities.float(), 0.01, 10)
    assert bool(ours.isfinite().all())
    assert float((exact - ours).abs().max()) < 1e-5


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("dual_is", {"parameters": {"form": "released"}, "gallery_bank": RECORDED["gallery_bank"][:4]}, "4, and needs"),
        ("dual_is", {"parameters": {"form": "released"}, "gallery_bank": RECORDED["gallery"]}, "40, and needs as many"),
        ("dual_is", {"parameters": {"form": "both"}}, "form must be one of 'paper', 'released', not 'both'"),
        ("csls", {"parameters": {"kk": 3, "k": 0}}, "'kk' is unknown; allowed: k; did .*; k must be a whole number"),
    ],
)
def test_what_is_refused(method: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        scores(method, **options)
