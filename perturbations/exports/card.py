"""The end of an export: its card, README.md, whose front matter the Hugging Face Hub and its libraries read, and lists.

What the card says is what the manifest knows of the corpus, and the terms that only its publisher knows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from perturbations import __version__
from perturbations.base import shown, storage
from perturbations.corpus.corpus_card import TAGS, TASKS
from perturbations.datasets import adapter_registry as datasets
from perturbations.datasets.adapter_registry import Adapter
from perturbations.exports import export_folder
from perturbations.exports.exported_corpus import ExportedCorpus
from perturbations.manifest import manifest_paths

_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
"""The Hugging Face Hub's classes of size: the first number that is not reached, and the class."""

_LICENSES = re.compile(
    r"(cc0-1\.0|cc-by(-nc)?(-sa|-nd)?-[1-4]\.[05]|apache-2\.0|mit|bsd(-[23]-clause)?|odbl|odc-by|pddl|cdla-[a-z-]+-[12]"
    r"\.0|a?gpl-3\.0|lgpl-(2\.1|3\.0)|mpl-2\.0|unlicense|other|unknown)"
)
"""Names of licences on the Hub (https://huggingface.co/docs/hub/repositories-licenses); another one is `other`."""


def config(name: str, patterns: Iterable[str], *, is_default: bool = False) -> dict[str, Any]:
    """A part of a dataset that can be loaded by its name, as the front matter has it: the patterns of its files.

    `is_default` says whether it is loaded where no name is given; one called `default` is without it.
    """
    chosen = {"default": True} if is_default else {}
    return {"config_name": name, **chosen, "data_files": [{"split": "test", "path": list(patterns)}]}


def adapter_of(corpus: ExportedCorpus) -> Adapter | None:
    """What the dataset was read with, whatever it is called; None where no manifest says it."""
    return datasets.adapters().get(str(corpus.about.get("adapter")))


def origin(corpus: ExportedCorpus) -> str:
    """The dataset that a corpus was made from, with its paper where that is known."""
    adapter = adapter_of(corpus)
    if adapter is None or not (adapter.reference or adapter.synthetic):
        return f"the dataset {corpus.dataset}"
    return adapter.title + (f" ({adapter.reference})" if adapter.reference else "")


def is_synthetic(corpus: ExportedCorpus) -> bool:
    """Whether the package drew the clips itself."""
    return getattr(adapter_of(corpus), "synthetic", None) is not None


def is_published(corpus: ExportedCorpus) -> bool:
    """Whether the clips are of a published dataset, which may not be passed on without its authors' leave."""
    return bool(getattr(adapter_of(corpus), "reference", ""))


def language(corpus: ExportedCorpus) -> str | None:
    """The captions' language (ISO 639-1); None where no manifest says it."""
    return corpus.about.get("language")


def left_out_sentence(corpus: ExportedCorpus) -> str:
    """What was left out, in a sentence without its end; empty where all is there."""
    count = len(corpus.left_out)
    return f"{shown.plural(count, corpus.in_words('clip'))} {'was' if count == 1 else 'were'} left out" if count else ""


def finish(
    corpus: ExportedCorpus,
    configs: Sequence[Mapping[str, Any]],
    paragraphs: Sequence[str],
    features: Sequence[Mapping[str, Any]] = (),
) -> None:
    """List what is not in an export, and write its card.

    The card has the configurations (`config`), the paragraphs, and the body of the corpus's own card where it has one.
    `features` are those of all configurations for `datasets`; none lets the library read them from the files.
    """
    export_folder.finish(corpus.request.output, corpus.left_out)
    request, manifest = corpus.request, corpus.request.manifest
    front = _front(corpus, configs, features)
    counted = shown.plural(corpus.count, {"queries": "query"}.get(corpus.records, corpus.in_words(corpus.records)[:-1]))
    clips = shown.plural(len(corpus.videos), corpus.in_words("clip"))
    if corpus.videos and corpus.records != "clips":
        counted = f"{clips} and {counted}"
    elif corpus.videos and corpus.count != len(corpus.videos):  # of mixes, which show a clip several times
        counted = f"{clips} in {shown.plural(corpus.count, 'row')}"
    if left_out := left_out_sentence(corpus):
        counted += f"; {left_out}: `left_out.csv` has the reasons"
    citation = request.citation
    cited = ["", "## Citation", "", "```", *shown.lines(citation).splitlines(), "```"] if citation else []
    of_clips = corpus.in_words("The licence of the clips is that of the dataset that they were made from")
    licensed = f"Licence: {shown.name(request.license)}. " if request.license else ""
    lines = [
        "---",
        yaml.safe_dump(front, sort_keys=False, allow_unicode=False, width=120).rstrip(),
        "---",
        "",
        f"# {shown.name(corpus.title)}",
        "",
        *(line for paragraph in paragraphs for line in (corpus.in_words(paragraph), "")),
        f"{counted}. Exported by perturbations {__version__}. {licensed}"
        f"{of_clips}, {shown.name(origin(corpus))}; check it before you publish them.",
        f"The root of what was exported, the SHA-256 of `{manifest.name}`, is `{storage.sha256(manifest)}`.",
        *cited,
        *_body(manifest.with_name(manifest_paths.name("card"))),
    ]
    storage.write_text(request.output / manifest_paths.name("card"), "\n".join(lines) + "\n")


def _front(
    corpus: ExportedCorpus, configs: Sequence[Mapping[str, Any]], features: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    names = [own["config_name"] for own in configs if features]
    return {
        "pretty_name": corpus.title,
        **_license(corpus.request.license),
        **({"language": [known]} if (known := language(corpus)) else {}),
        "size_categories": [next((name for most, name in _SIZES if corpus.count < most), "1M<n<10M")],
        "task_categories": list(TASKS),
        "tags": [corpus.in_words(tag) for tag in TAGS],
        **_gate(corpus),
        "configs": list(configs),
        **({"dataset_info": [{"config_name": name, "features": list(features)} for name in names]} if names else {}),
    }


def _license(name: str) -> dict[str, str]:
    """The license as the Hub's front matter has it: one of its names, or `other` with a name and a link."""
    if not name:
        return {"license": "unknown"}
    if _LICENSES.fullmatch(name.lower()):
        return {"license": name.lower()}
    link = {"license_link": name} if name.startswith(("https://", "http://")) else {}
    words = "-".join(re.findall(r"[a-z0-9.]+", name.lower().partition("://")[-1 if link else 0]))
    return {"license": "other", "license_name": words or "other", **link}


def _gate(corpus: ExportedCorpus) -> dict[str, str]:
    """What readers must agree to before they get a dataset's clips, where a repository's owner turns that on."""
    is_free = is_synthetic(corpus) or (corpus.request.license and not is_published(corpus))
    if is_free or not corpus.videos:
        return {}
    begin = corpus.in_words("The clips are derived from")
    end = corpus.in_words("They are only for those who may use that dataset's clips.")
    return {"extra_gated_prompt": f"{begin} {origin(corpus)}. {end}"}


def _body(path: Path) -> list[str]:
    """A corpus's own card without its front matter; nothing where it has none."""
    text = path.read_text("utf-8", errors="replace") if path.is_file() else ""
    if not text.startswith("---\n") or "\n---\n" not in text:
        return []
    body = "\n" + shown.lines(text.split("\n---\n", 1)[1].strip())
    return ["", "## The corpus", body.replace("\n# ", "\n### ")]
