"""What `adapt` promises whatever the method: shapes, small batches, sound weights, a model left as it was."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from looping import each
from tta_models import model_of, pooling_state, queries_and_gallery, random_texts, random_videos, tiny_clip

from perturbations import tta
from perturbations.base.errors import ConfigError
from perturbations.tta import losses
from perturbations.tta.methods.method_registry import method as method_of
from perturbations.tta.methods.method_registry import methods
from perturbations.tta.recording import Unadapted
from perturbations.tta.task import Task

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

EVERY = tuple(methods())
ADAPTING = tuple(name for name, entry in methods().items() if entry.adapts)


def run(model: Any, method: str, direction: str, sizes: list[int], **options: Any) -> list[Any]:
    batches, gallery = queries_and_gallery(direction, sizes)
    if method_of(method).needs_bank:
        options["bank"] = queries_and_gallery(direction, [5])[0][0]
    return list(tta.adapt(model, method, iter(batches), gallery, direction=direction, **options))


def snapshot(clip: Any) -> Any:
    tensors = {name: value.clone() for name, value in clip.state_dict().items()}
    flags = {name: (parameter.requires_grad, parameter.grad) for name, parameter in clip.named_parameters()}
    return tensors, flags, {name: module.training for name, module in clip.named_modules()}


def assert_same(before: Any, after: Any) -> None:
    assert all(torch.equal(value, after[0][name]) for name, value in before[0].items())
    assert before[1:] == after[1:]


@each("direction", tta.DIRECTIONS)
@each(
    ("pooling", "method"),
    [("clip4clip", method) for method in EVERY]
    + [("xpool", method) for method in EVERY if not method_of(method).needs_one_vector],
)
def test_any_batch_size_and_a_short_last_batch(pooling: str, direction: str, method: str) -> None:
    """With its steps counted, and its times of every batch."""
    sizes = [1, 3, 8, 2]
    recording = tta.Recording()
    assert recording.summary() == {}
    results = run(model_of(pooling), method, direction, sizes, recording=recording, steps=2)
    assert [tuple(result.shape) for result in results] == [(size, 20) for size in sizes]
    assert all(bool(torch.isfinite(result).all()) and not result.requires_grad for result in results)
    assert sum(recording.counts.values()) == (2 * len(sizes) if method in ADAPTING else 0)
    assert (recording.counts["updates"] > 0) == (method in ADAPTING)
    assert {len(values) for values in recording.ms.values()} == {len(sizes)}
    summary = recording.summary()
    assert summary["rerank_ms_p50"] > 0
    assert (summary["adapt_ms_p50"] > 0) == (method in ADAPTING)
    assert summary["total_ms_p95"] >= summary["total_ms_p50"] >= summary["encode_ms_p50"] > 0
    assert summary["peak_memory_mib"] > 50


@each("method", EVERY)
@each("direction", tta.DIRECTIONS)
def test_the_model_is_the_caller_s_again(direction: str, method: str) -> None:
    """After every batch, not only at the end; with the caller's modes, flags and gradients."""
    clip = tiny_clip().train()
    clip.logit_scale.requires_grad_(False)
    clip.vision_model.post_layernorm.weight.grad = torch.ones(32)
    before = snapshot(clip)
    batches, gallery = queries_and_gallery(direction, [4, 4])
    bank = queries_and_gallery(direction, [5])[0][0] if method_of(method).needs_bank else None
    seed_before = torch.random.get_rng_state()
    chosen = {"lr": 1e-2} if method in ADAPTING else {}
    running = tta.adapt(
        tta.clip4clip(clip), method, batches, gallery, direction=direction, bank=bank, parameters=chosen
    )
    next(running)
    assert torch.is_grad_enabled()
    assert_same(before, snapshot(clip))
    running.close()
    assert_same(before, snapshot(clip))
    assert torch.is_grad_enabled()
    assert torch.equal(seed_before, torch.random.get_rng_state())


def test_the_model_is_the_caller_s_again_after_an_error() -> None:
    clip = tiny_clip()
    before = snapshot(clip)
    running = tta.adapt(tta.clip4clip(clip), "tent", [random_videos(2), "no frames"], random_texts(5), direction="v2t")
    next(running)
    with pytest.raises(ValueError, match="frames are str"):
        next(running)
    assert_same(before, snapshot(clip))


@each("method", ADAPTING)
@each("direction", tta.DIRECTIONS)
def test_only_layer_norms_of_the_query_tower_learn(
    direction: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clip = tiny_clip()
    tower = clip.vision_model if direction == "v2t" else clip.text_model
    norms = {
        id(value) for part in tower.modules() if isinstance(part, torch.nn.LayerNorm) for value in part.parameters()
    }
    assert len(norms) == (12 if direction == "v2t" else 10)
    original = torch.optim.AdamW.step
    steps: list[bool] = []

    def step(self: Any, *given: Any) -> Any:
        trainable = {id(parameter) for parameter in clip.parameters() if parameter.requires_grad}
        optimized = {id(parameter) for group in self.param_groups for parameter in group["params"]}
        before = [(parameter, parameter.detach().clone()) for parameter in clip.parameters()]
        original(self, *given)
        changed = {id(parameter) for parameter, value in before if not torch.equal(parameter, value)}
        steps.append(trainable == optimized == changed == norms)

    monkeypatch.setattr(torch.optim.AdamW, "step", step)
    run(tta.clip4clip(clip), method, direction, [6], steps=1)
    assert steps == [True]


@pytest.mark.parametrize("method", ADAPTING)
def test_batches_build_on_each_other_and_scenarios_do_not(method: str) -> None:
    """Neither on the one before, nor on one that takes turns with it."""
    model, options = model_of("clip4clip"), {"direction": "v2t", "parameters": {"lr": 1e-2}}
    (batch, after), gallery = queries_and_gallery("v2t", [8, 8])
    alone = list(tta.adapt(model, method, [batch, after], gallery, **options))
    again = tta.adapt(model, method, [batch, after], gallery, **options)
    other = tta.adapt(model, "tcr", [after, batch], gallery, **options)
    assert all(torch.equal(a, b) for a, (b, _) in zip(alone, zip(again, other, strict=True), strict=True))
    (fresh,) = tta.adapt(model, method, [after], gallery, **options)
    assert not torch.allclose(alone[1], fresh, atol=1e-4)


def test_the_seed_is_for_models_that_draw() -> None:
    """No method draws anything: each repeats bit for bit whatever the seed."""
    for method in EVERY:
        model = model_of("clip4clip" if method_of(method).needs_one_vector else "xpool")
        first, *others = (torch.cat(run(model, method, "t2v", [5, 3], seed=seed)) for seed in (42, 42, 7))
        assert all(torch.equal(first, other) for other in others), method
    plain = model_of("clip4clip")
    noisy = replace(plain, encode_frames=lambda frames: plain.encode_frames(frames + torch.randn_like(frames)))
    same, again, other = (run(noisy, "none", "v2t", [4], seed=seed)[0] for seed in (1, 1, 2))
    assert torch.equal(same, again)
    assert not torch.equal(same, other)


@pytest.mark.parametrize("direction", tta.DIRECTIONS)
def test_methods_without_adaptation_share_the_features_of_one_pass(
    direction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    methods_without = [name for name in EVERY if name not in ADAPTING and not method_of(name).needs_one_vector]
    model, sizes = model_of("xpool"), [3, 2]
    alone = [torch.cat(run(model, method, direction, sizes)) for method in methods_without]
    encoded: list[int] = []
    encode = Task.encode
    monkeypatch.setattr(Task, "encode", lambda task, batch: encoded.append(1) or encode(task, batch))
    shared: Unadapted = {}
    recordings = [tta.Recording() for _ in methods_without]
    for method, own, expected in zip(methods_without, recordings, alone, strict=True):
        similarities = run(model, method, direction, sizes, unadapted=shared, recording=own)
        assert torch.equal(torch.cat(similarities), expected)
    assert len(encoded) == len(sizes)
    assert all(own.ms["encode"] == pytest.approx(recordings[0].ms["encode"]) for own in recordings)
    run(model, "tent", direction, sizes, unadapted=shared)
    assert len(encoded) > len(sizes)  # an adapted model has other features


# --- nothing to learn from, and numbers that are none ----------------------------------------------------------------


@pytest.mark.parametrize("method", ADAPTING)
def test_a_step_that_is_no_number_is_skipped_and_counted(method: str) -> None:
    """A broken query gives similarities that are no numbers; the queries after it do not suffer."""
    model = model_of("clip4clip")
    broken = random_videos(4)
    broken[1] = float("nan")
    batches = [broken, *(random_videos(4, seed=seed) for seed in (3, 4))]
    recording = tta.Recording()
    results = list(tta.adapt(model, method, batches, random_texts(9), direction="v2t", recording=recording))
    assert recording.counts["updates"] >= 6
    sound = torch.cat([results[0][[0, 2, 3]], *results[1:]])
    assert bool(torch.isfinite(sound).all())
    assert not bool(torch.isfinite(results[0][1]).any())
    if method in ("tent", "read", "tcr", "hatvtr"):  # the others choose among the queries, and leave it out
        assert recording.counts["non_finite"] + recording.counts["empty"] == 3
        after = list(tta.adapt(model, method, batches[1:], random_texts(9), direction="v2t"))
        if method != "hatvtr":  # whose column statistics are those of the sound past queries too
            assert torch.allclose(results[1], after[0], atol=1e-4)


@pytest.mark.parametrize("method", ["tcr", "hatvtr"])
def test_a_batch_of_which_none_passes_is_skipped(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "robust_entropy", lambda entropies, largest: None)
    recording = tta.Recording()
    model = model_of("clip4clip")
    scores = run(model, method, "v2t", [4], recording=recording)[0]
    assert recording.counts == {"updates": 0, "empty": 3, "non_finite": 0}
    if method == "tcr":
        assert torch.equal(scores, run(model, "none", "v2t", [4])[0])


def test_an_infinite_gradient_of_a_finite_loss_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "entropy", lambda logits: (logits - logits.detach()).sum(-1).sqrt())
    recording = tta.Recording()
    model = model_of("clip4clip")
    results = run(model, "tent", "v2t", [4, 4], recording=recording)
    assert recording.counts == {"updates": 0, "empty": 0, "non_finite": 6}
    plain = run(model, "none", "v2t", [4, 4])
    assert all(torch.allclose(a * 0.02, b, atol=1e-6) for a, b in zip(results, plain, strict=True))


# --- inputs ----------------------------------------------------------------------------------------------------------


def test_tokens_in_every_form_are_the_same() -> None:
    model = model_of("clip4clip")
    ids, mask = random_texts(6)
    held = {"input_ids": ids, "attention_mask": mask}
    forms = [(ids, mask), [ids, mask], held, transformers.BatchEncoding(held)]
    results = [next(tta.adapt(model, "tcr", [form], random_videos(8), direction="t2v")) for form in forms]
    assert all(torch.equal(results[0], result) for result in results[1:])
    full = torch.ones_like(ids)
    a, b = (next(tta.adapt(model, "none", [form], random_videos(8), direction="t2v")) for form in (ids, (ids, full)))
    assert torch.allclose(a, b, atol=1e-6)


def test_the_gallery_may_come_in_parts_or_encoded() -> None:
    model = model_of("xpool")
    videos, batch = random_videos(9), random_texts(3)
    whole = next(tta.adapt(model, "hatvtr", [batch], videos, direction="t2v"))
    parts = tta.encode_gallery(model, iter(videos.split(4)), "t2v")
    assert torch.allclose(next(tta.adapt(model, "hatvtr", [batch], parts, direction="t2v")), whole, atol=1e-6)
    with pytest.raises(ConfigError, match="encoded for t2v"):
        tta.adapt(model, "none", [], parts, direction="v2t")
    with pytest.raises(ValueError, match="empty"):
        tta.encode_gallery(model, iter([]), "t2v")


@pytest.mark.parametrize("direction", tta.DIRECTIONS)
def test_a_large_gallery_is_pooled_in_pieces(direction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(model_of("xpool"), "tent", direction, [4, 3])
    monkeypatch.setattr("perturbations.tta.gallery.PAIRS", 28)  # 7 items of 20, and 9
    pieces = run(model_of("xpool"), "tent", direction, [4, 3])
    assert all(torch.allclose(a, b, atol=1e-3) for a, b in zip(whole, pieces, strict=True))  # similarities / 0.02
    plain = run(model_of("xpool"), "none", direction, [4, 3])
    assert not torch.allclose(pieces[1] * 0.02, plain[1], atol=1e-4)


@each("method", EVERY)
@each("direction", tta.DIRECTIONS)
def test_a_model_in_double_precision_is_computed_in_it(direction: str, method: str) -> None:
    clip = tiny_clip()
    pooling = "clip4clip" if method_of(method).needs_one_vector else "xpool"
    single = torch.cat(run(model_of(pooling, clip), method, direction, [5, 3]))
    double = torch.cat(run(model_of(pooling, clip.double()), method, direction, [5, 3]))
    assert (single.dtype, double.dtype) == (torch.float32, torch.float64)
    assert not torch.equal(single, double.float())
    # Adam divides by the size of a gradient: where that is near zero, as in TCR, rounding decides a step.
    near = 5e-3 if method == "tcr" else 1e-5
    assert torch.allclose(single.double(), double, atol=near * float(double.abs().max()))


def test_inference_mode_and_no_grad_around_it_do_no_harm() -> None:
    model = model_of("clip4clip")
    expected = run(model, "tcr", "v2t", [4, 4])
    with torch.inference_mode():
        assert all(torch.equal(a, b) for a, b in zip(expected, run(model, "tcr", "v2t", [4, 4]), strict=True))
        encoded = tta.encode_gallery(model, random_texts(20), "v2t")
        batches = [random_videos(4, seed=seed) for seed in (0, 1)]
        results = list(tta.adapt(model, "tcr", batches, encoded, direction="v2t"))
        assert all(torch.equal(a, b) for a, b in zip(expected, results, strict=True))
        assert torch.is_inference_mode_enabled()
    with torch.no_grad():
        assert all(torch.equal(a, b) for a, b in zip(expected, run(model, "tcr", "v2t", [4, 4]), strict=True))
        assert not torch.is_grad_enabled()


@each(
    ("changed", "message"),
    [
        ({"method": "tend"}, "method 'tend' is unknown; allowed: none, tent"),
        ({"direction": "t2t"}, "direction 't2t' is unknown; allowed: v2t, t2v"),
        ({"steps": 0}, "steps is 0"),
        (
            {"parameters": {"temperature": 0, "rho": 1}},
            "tent: temperature must be a number from .*; parameter .rho. is unk",
        ),
        ({"parameters": {"lr": -1}}, "lr must be a number from 0 to 1, not -1"),
        ({"parameters": {"lr": float("nan")}}, "lr must .*, not nan"),
        ({"precision": "float8"}, "precision 'float8' is unknown; allowed: float32, tf32"),
        ({"method": "qbnorm"}, "needs a bank"),
        ({"method": "invgc", "bank": random_videos(2), "pooling": "xpool"}, "invgc needs one vector per video"),
        ({"bank": random_videos(2)}, "takes no bank"),
        ({"gallery_bank": random_texts(2)}, "takes no gallery bank"),
    ],
)
def test_a_wrong_setting_is_said_at_once(changed: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"method": "tent", "direction": "v2t", **changed}
    with pytest.raises(ConfigError, match=message):
        model = model_of(given.pop("pooling", "clip4clip"))
        tta.adapt(model, given.pop("method"), [], random_texts(3), **given)


OTHER: dict[str, object] = {
    "threshold": 0.0, "weight": 5.0,
    "lr": 0.0, "temperature": 1.0, "certain": 1.0, "rho": 5.0, "largest_entropy": 3.0, "alike": 1.0, "momentum": 0.0,
    "memory": 1, "share": 1.0, "t": 0.1, "filling": 1, "alpha": 1.0, "beta": 1.0, "m": 0.0, "k": 1, "scale": 1000.0,
    "bank_beta": 1.0, "bank_k": 3, "beta_query": 20.0, "beta_gallery": 20.0, "form": "released", "tau": 0.5,
    "iterations": 1, "rate_gallery": 0.0, "rate_query": 0.0,
}  # fmt: skip
"""Values that are not the defaults, and that change the results of a few batches."""

ENABLING: dict[str, dict[str, object]] = {"momentum": {"alike": 0.9}, "weight": {"threshold": 0.0}}
"""Values of other parameters without which one has no effect on so few queries."""


@each("method", EVERY)
def test_every_parameter_counts(method: str) -> None:
    """Each one reaches the method: another value gives other similarities, and the defaults give the same."""
    defaults = {parameter.name: parameter.default for parameter in method_of(method).parameters}
    learning = {"lr": 1e-2} if method in ADAPTING else {}
    for name, default in defaults.items():
        others = {**learning, **ENABLING.get(name, {})}
        about = method, "v2t" if name == "intra" else "t2v"
        changed = not default if isinstance(default, bool) else OTHER[name]
        changed = 3 if changed == default == 1 else changed
        assert not torch.equal(last(*about, **others), last(*about, **{**others, name: changed})), name
    written = {name: default for name, default in defaults.items() if default is not None}
    assert torch.equal(last(method, "t2v", **learning), last(method, "t2v", **{**written, **learning}))


@cache
def last(method: str, direction: str, **parameters: object) -> Any:
    """The similarities of the last of some batches."""
    sizes = [8] * 4 if method in ADAPTING else [5] * 4  # as many as items, which DBNorm's released form needs
    return run(model_of("clip4clip"), method, direction, sizes, parameters=parameters)[-1]


@pytest.mark.parametrize(
    ("batch", "direction", "message"),
    [
        (torch.zeros(2, 3, 32, 32), "v2t", "B x T x 3 x H x W"),
        (torch.zeros(2, 4, 3, 32, 32, dtype=torch.uint8), "v2t", "uint8"),
        (torch.zeros(0, 4, 3, 32, 32), "v2t", "nothing to encode"),
        (torch.zeros(2, 5), "t2v", "must be integers"),
        ((torch.zeros(2, 5, dtype=torch.long), torch.ones(2, 4)), "t2v", "attention mask is \\(2, 4\\)"),
        ("a caption", "t2v", "given as str"),
    ],
)
def test_a_wrong_shape_is_named(batch: Any, direction: str, message: str) -> None:
    gallery = queries_and_gallery(direction, [])[1]
    with pytest.raises(ValueError, match=message):
        next(tta.adapt(model_of("clip4clip"), "none", [batch], gallery, direction=direction))


def test_what_is_no_dual_encoder() -> None:
    with pytest.raises(ConfigError, match="has no vision_model"):
        tta.clip4clip(torch.nn.Linear(2, 2))
    with pytest.raises(ConfigError, match="linear_proj.weight"):
        tta.xpool(tiny_clip(), {})
    state = pooling_state()
    state["more"] = torch.zeros(1)
    with pytest.raises(ConfigError, match="do not fit"):
        tta.xpool(tiny_clip(), state)


# --- other encoders, precision, timings ------------------------------------------------------------------------------


def test_an_encoder_of_whole_videos() -> None:
    """One vector per video, as of encoders with attention over time."""
    plain = model_of("clip4clip")
    model = replace(plain, encode_frames=lambda frames: plain.encode_frames(frames).mean(1, keepdim=True))
    assert torch.allclose(run(model, "tcr", "v2t", [4])[0], run(plain, "tcr", "v2t", [4])[0], atol=1e-6)
    recording = tta.Recording()
    run(model, "hatvtr", "v2t", [4, 4], recording=recording)
    assert recording.counts["updates"] == 6


@pytest.mark.parametrize("direction", tta.DIRECTIONS)
def test_bfloat16_is_near(direction: str) -> None:
    model = model_of("clip4clip")
    exact = torch.cat(run(model, "tcr", direction, [8, 8]))
    short = torch.cat(run(model, "tcr", direction, [8, 8], precision="bfloat16"))
    assert short.dtype == torch.float32
    assert 1e-6 < float((exact - short).abs().max()) < 0.05
