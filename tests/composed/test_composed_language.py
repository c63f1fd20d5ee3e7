"""A language model that writes instructions, labels and modified captions: the paper's prompts, and a tiny model."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from perturbations.base.errors import AnnotationError, ConfigError
from perturbations.cli.main import main
from perturbations.composed import manifests, official
from perturbations.composed.language import (
    caption_prompt,
    instruction_prompt,
    read_captions,
    rewritten,
    temporal_prompt,
)
from perturbations.composed.split import ComposedQuery, PoolClip, Split
from perturbations.composed.split_rules import split_settings
from perturbations.config import file as config_file
from perturbations.models import language_model

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

QUERY = ComposedQuery(
    query_id="0",
    clip_id="v_0_8",
    targets='["v_10_18"]',
    instruction="Shake it.",
    narration="#C C takes the sieve",
    target_narration="#C C shakes the sieve",
    change="object",
    change_source="rule 1",
    instruction_source="official",
)
SPLIT = Split(tuple(PoolClip(clip_id=name, video_id="v", narration="") for name in ("v_0_8", "v_10_18")), (QUERY,), {})


class Told:
    """A model that answers what it is told, and remembers its prompts."""

    source = "llm told"

    def __init__(self, text: str, *, yes: bool) -> None:
        self.text, self.yes = text, yes
        self.prompts: list[str] = []

    def answer(self, prompt: str) -> str:
        self.prompts.append(prompt)
        return self.text

    def says_yes(self, prompt: str) -> bool:
        self.prompts.append(prompt)
        return self.yes


def test_prompts_are_the_papers_with_all_examples_and_end_where_the_answer_begins() -> None:
    caption = caption_prompt("#C C takes  the sieve", "Shake it.")
    assert caption.startswith("I have a video. Given a brief description of the source video and a instruction")
    assert caption.count("Source Narration:") == 16
    assert (
        "Source Narration: #C C picks up the jug.\nInstruction: The person is cleaning.\nTarget Narration:" in caption
    )
    assert caption.endswith("\n\nSource Narration: #C C takes the sieve\nInstruction: Shake it.\nTarget Narration:")
    instruction = instruction_prompt("takes", "shakes")
    assert instruction.endswith("\n\nSource Narration: takes\nTarget Narration: shakes\nInstruction:")
    assert instruction.count("\nInstruction:") == 16
    temporal = temporal_prompt("Shake it.")
    assert temporal.count("Answer: yes") == temporal.count("Answer: no") == 5
    assert temporal.endswith("\n\nInstruction: Shake it.\nAnswer:")
    assert "##" not in caption


def test_a_split_says_who_wrote_what() -> None:
    model = Told("Shake the sieve.", yes=True)
    (query,) = rewritten(SPLIT, model).queries
    assert query.instruction == query.modified_caption == "Shake the sieve."
    assert query.change == "temporal"
    assert {query.instruction_source, query.change_source, query.caption_source} == {"llm told"}
    # The label and the caption follow the new instruction.
    assert "Shake the sieve." in model.prompts[1]
    assert "Shake the sieve." in model.prompts[2]


def test_only_wanted_parts_change_and_equal_questions_are_asked_once() -> None:
    (query,) = rewritten(SPLIT, Told("other", yes=False), ["kind"]).queries
    assert query == replace(QUERY, change_source="llm told")
    silent = Told("", yes=True)
    assert rewritten(SPLIT, silent, ["instruction", "modified_caption"]) == SPLIT
    bare = replace(SPLIT, queries=(replace(QUERY, narration=""),))
    assert rewritten(bare, Told("x", yes=True), ["instruction", "modified_caption"]) == bare
    model = Told("Shake it.", yes=True)
    rewritten(replace(SPLIT, queries=(QUERY,) * 5), model)
    assert len(model.prompts) == 3


def test_captions_that_the_user_brings_stand_for_narrations(tmp_path: Path) -> None:
    path = tmp_path / "lavila.csv"
    path.write_text(f'clip_name,caption\n{QUERY.clip_id},"#C C shakes, then drops a ""sieve"""\nother,x\n')
    model = Told("Changed.", yes=True)
    (query,) = rewritten(SPLIT, model, ["modified_caption"], read_captions(path, SPLIT)).queries
    assert model.prompts == [caption_prompt('#C C shakes, then drops a "sieve"', QUERY.instruction)]
    assert (query.modified_caption, query.caption_source) == ("Changed.", f"{model.source}, of given captions")
    path.write_text("clip_name,caption\nother,x\nother,y\n")
    with pytest.raises(AnnotationError, match=r"lavila\.csv, line 3: another caption of 'other'"):
        read_captions(path, SPLIT)
    path.write_text("clip_name,caption\nother,x\n")
    with pytest.raises(AnnotationError, match="has no caption of 1 query clips, the first"):
        read_captions(path, SPLIT)


# --- a tiny model -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model of two layers, and a tokenizer of bytes."""
    tiny_models = pytest.importorskip("tiny_models")
    return tiny_models.language_model(tmp_path_factory.mktemp("llm") / "tiny-llm")


def test_answers_repeat_and_are_one_line(folder: Path) -> None:
    first, second = (language_model.load(str(folder)) for _ in range(2))
    prompts = [caption_prompt("#C C takes the sieve", text) for text in ("Shake it.", "Drop it.", "Cut it.")]
    answers = [first.answer(prompt) for prompt in prompts]
    assert answers == [second.answer(prompt) for prompt in reversed(prompts)][::-1]
    assert any(answers)
    assert not any("\n" in answer for answer in answers)
    assert first.source.startswith("llm tiny-llm sha256:")


def test_yes_or_no_follows_the_logits_of_the_two_tokens(folder: Path) -> None:
    torch = pytest.importorskip("torch")
    model = language_model.load(str(folder))
    prompts = [temporal_prompt(text) for text in ("Shake it.", "Use a knife.", "Drop it instead.", "x", "y", "z")]
    tokenizer, inner = model._tokenizer, model._model
    # A byte per token: " yes" and " no" begin alike and are no choice, which leaves the first letters.
    yes, no = ([tokenizer.convert_tokens_to_ids(letter) for letter in pair] for pair in ("yY", "nN"))
    for prompt in prompts:
        with torch.inference_mode():
            logits = inner(**tokenizer(prompt, return_tensors="pt")).logits[0, -1]
        assert model.says_yes(prompt) == bool(logits[yes].max() > logits[no].max())
    with torch.no_grad():
        inner.lm_head.weight[:] = 0  # type: ignore[attr-defined]
    assert not model.says_yes(prompts[0])


def test_a_chat_template_is_used_where_there_is_one(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "chat")
    (tmp_path / "chat" / "chat_template.jinja").write_text(TEMPLATE)
    model = language_model.load(str(tmp_path / "chat"))
    written = model._tokenizer.decode(model._inputs("Shake it.")["input_ids"][0])
    assert written == "<|im_start|>user\nShake it.<|im_end|>\n<|im_start|>assistant\n"


def test_models_of_another_kind_are_refused(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "other")
    described = json.loads((folder / "config.json").read_text())
    for kind in ("clip", "never_heard_of"):
        (tmp_path / "other" / "config.json").write_text(json.dumps({**described, "model_type": kind}))
        with pytest.raises(ConfigError, match=f"is '{kind}', which transformers does not know as a causal"):
            language_model.load(str(tmp_path / "other"))
    with pytest.raises(ConfigError, match="there is no such folder"):
        language_model.load("/nowhere/model")


def test_the_configured_model_writes_the_split_of_a_dataset(folder: Path, tmp_path: Path) -> None:
    official.write(replace(SPLIT, queries=(replace(QUERY, modified_caption="#C C takes"),)), tmp_path)
    dataset = {"adapter": "egocvr", "annotations": str(tmp_path / official.ANNOTATIONS), "videos": str(tmp_path)}
    writer = {"model": str(folder), "parts": ["kind", "modified_caption"]}
    given = {"datasets": {"mine": dataset}, "suites": {"mlvp": {}}}
    config = config_file.parse({**given, "composed": {"language_model": writer}})
    output = tmp_path / "manifests/mine/composed"
    arguments = [split_settings(config, "mine"), json.dumps({"device": "cpu"})]
    arguments += ["--queries", str(output / "queries.parquet")]
    arguments += [
        "--instructions",
        str(tmp_path / "instructions.jsonl"),
        "--rejected",
        str(tmp_path / "rejected.jsonl"),
    ]
    assert main(["rule", "composed_split", *arguments]) == 0
    split = manifests.read(output)
    (query,) = split.queries
    source = language_model.load(str(folder)).source
    assert (query.change_source, query.caption_source, query.instruction_source) == (source, source, "official")
    assert query.modified_caption != "#C C takes"
    plain = config_file.parse(given)
    assert "language_model" not in split_settings(plain, "mine")
