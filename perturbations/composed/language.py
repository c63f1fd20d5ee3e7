"""The prompts of EgoCVR's authors for a language model, and its answers in a split. Standard library only.

The prompts are the paper's (supplement D.2 to D.4; `data/prompts.json` says which words are not). The authors used
GPT-4; any causal language model of transformers can answer here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perturbations.base.errors import AnnotationError, short
from perturbations.composed.split import ComposedQuery, ModificationKind, Split
from perturbations.datasets import parsing
from perturbations.datasets.fields import checked_all

if TYPE_CHECKING:
    from perturbations.models.language_model import LanguageModel

_PARTS = ("instruction", "kind", "modified_caption")
"""What a language model can write into a split."""

_NARRATIONS = {"source": "Source Narration", "target": "Target Narration", "instruction": "Instruction"}


@cache
def _prompts() -> Any:
    """The paper's words: the prompts, and examples in their order."""
    text = resources.files("perturbations.composed").joinpath("data", "prompts.json").read_text(encoding="utf-8")
    return json.loads(text)


def instruction_prompt(narration: str, target_narration: str) -> str:
    """Which instruction leads from one narration to another (D.2)."""
    fields = {"source": narration, "target": target_narration}
    return _few_shot("instruction", _prompts()["pairs"], ("source", "target", "instruction"), fields)


def caption_prompt(caption: str, instruction: str) -> str:
    """What a clip's caption becomes under an instruction (TF-CVR, D.3)."""
    fields = {"source": caption, "instruction": instruction}
    return _few_shot("target_caption", _prompts()["pairs"], ("source", "instruction", "target"), fields)


def temporal_prompt(instruction: str) -> str:
    """Whether an instruction is about what happens: yes, or about objects only: no (D.4)."""
    examples = _prompts()["temporal"]["examples"]
    return _few_shot("temporal", examples, ("instruction", "answer"), {"instruction": instruction})


def _few_shot(name: str, examples: Sequence[Mapping[str, str]], keys: Sequence[str], fields: Mapping[str, str]) -> str:
    """The prompt, its examples, and the question up to where the answer begins."""
    names = {key: _NARRATIONS.get(key, "Answer") for key in keys}
    blocks = ["\n".join(f"{names[key]}: {example[key]}" for key in keys) for example in examples]
    question = "\n".join(f"{names[key]}: {' '.join(fields[key].split())}" for key in keys[:-1])
    return "\n\n".join([_prompts()[name]["prompt"], *blocks, f"{question}\n{names[keys[-1]]}:"])


def read_captions(path: Path, split: Split) -> dict[str, str]:
    """The captions of a split's query clips by a captioner, from a CSV of `clip_name` and `caption`.

    Raises `AnnotationError` where a query clip has none, or a clip has two.
    """
    captions: dict[str, str] = {}
    names = ("clip_name", "caption")
    for place, row in checked_all(path, parsing.table(path, names), names, caption="caption"):
        text = row["caption"].strip()
        if text and captions.setdefault(row["clip_name"], text) != text:
            raise AnnotationError(f"{path}, {place}: another caption of {short(row['clip_name'])}")
    if lacking := [query.clip_id for query in split.queries if query.clip_id not in captions]:
        raise AnnotationError(f"{path} has no caption of {len({*lacking})} query clips, the first {short(lacking[0])}")
    return captions


def rewritten(
    split: Split, model: LanguageModel, parts: Sequence[str] = _PARTS, captions: Mapping[str, str] | None = None
) -> Split:
    """The split with parts that a language model wrote; each query says so in its sources.

    An instruction needs both narrations, a modified caption the query clip's narration, or its caption in `captions`:
    where they are missing, or the model answers nothing, the query keeps what it has. Labels are of the new
    instructions. Each prompt is asked once.
    """
    answer, says_yes = cache(model.answer), cache(model.says_yes)

    def of(query: ComposedQuery) -> ComposedQuery:
        if "instruction" in parts and query.narration and query.target_narration:
            text = answer(instruction_prompt(query.narration, query.target_narration))
            if text:
                query = replace(query, instruction=text, instruction_source=model.source)
        if "kind" in parts:
            change: ModificationKind = "temporal" if says_yes(temporal_prompt(query.instruction)) else "object"
            query = replace(query, change=change, change_source=model.source)
        caption = query.narration if captions is None else captions[query.clip_id]
        if "modified_caption" in parts and caption:
            text = answer(caption_prompt(caption, query.instruction))
            if text:
                source = model.source if captions is None else f"{model.source}, of given captions"
                query = replace(query, modified_caption=text, caption_source=source)
        return query

    return replace(split, queries=tuple(map(of, split.queries)))
