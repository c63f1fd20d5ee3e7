"""Counts for `perturbations.text.fluency`: words and pairs of classes in WordNet's glosses and examples.

python docs/fluency_table.py perturbations/text/data
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from perturbations.models.text_wordnet import wordnet_folder
from perturbations.text.fluency import EDGE, CountModel

FREQUENT = 200
LEAST_WORD, LEAST_PAIR = 4, 3
LICENCE = "Counts in the glosses and examples of WordNet 3.0 (WordNet 3.0 licence, Princeton University)"


def glosses(folder: Path) -> Iterator[str]:
    """Definition and examples of every synset of a WordNet."""
    for name in ("noun", "verb", "adj", "adv"):
        for line in (folder / f"data.{name}").read_text(encoding="utf-8").splitlines():
            if not line.startswith(" "):
                yield line.partition(" | ")[2].strip()


def sentences() -> list[list[str]]:
    """The words of each definition and example."""
    parts = (part for gloss in glosses(wordnet_folder()) for part in re.split(r"[;:()\"]", gloss.lower()))
    return [words for part in parts if (words := re.findall(r"[a-z]+(?:['-][a-z]+)*", part))]


def main(folder: Path) -> None:
    """Write the two tables."""
    listed = sentences()
    counts = Counter(word for words in listed for word in words)
    known = {word: count for word, count in counts.items() if count >= LEAST_WORD}
    frequent = frozenset(word for word, _ in counts.most_common(FREQUENT))
    model = CountModel(known, frequent, {}, {}, {})
    pairs: dict[str, Counter[str]] = defaultdict(Counter)
    for words in listed:
        for last, word in pairwise([EDGE, *words, EDGE]):
            pairs[model.class_of(last)][model.class_of(word)] += 1
    lines = [f"{word} {count}" for word, count in sorted(known.items())]
    (folder / "fluency_words.txt").write_text(
        "\n".join([f"# {LICENCE}: word, count.", *lines]) + "\n", encoding="utf-8"
    )
    rows = []
    for last, nexts in sorted(pairs.items()):
        kept = [f"{kind} {count}" for kind, count in sorted(nexts.items()) if count >= LEAST_PAIR]
        if kept:
            rows.append(" ".join([last, *kept]))
    (folder / "fluency_pairs.txt").write_text(
        "\n".join([f"# {LICENCE}: class of a word, then classes that follow it, each with its count.", *rows]) + "\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
