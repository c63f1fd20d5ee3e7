"""`croissant.json`, which `mlcroissant` and dataset search engines read.

It describes tables and videos in the vocabulary of Croissant 1.1 (JSON-LD), with the terms of its Responsible AI part:
https://docs.mlcommons.org/croissant/docs/croissant-spec-1.1.html, croissant-rai-spec.html beside it, and
https://www.w3.org/TR/prov-o.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from perturbations import __version__
from perturbations.base import shown, storage
from perturbations.base.errors import ConfigError, short
from perturbations.exports import card, export_names
from perturbations.exports.exported_corpus import ExportedCorpus
from perturbations.suites import suite_registry as suites

_log = logging.getLogger("perturbations")

_NAME = "croissant.json"
REQUIRED = (
    *("rai:dataLimitations", "rai:dataBiases", "rai:personalSensitiveInformation", "rai:dataUseCases"),
    *("rai:dataSocialImpact", "rai:hasSyntheticData", "prov:wasDerivedFrom", "prov:wasGeneratedBy"),
)
"""The terms that NeurIPS' track of evaluations and datasets (2026) requires beside Croissant's own fields."""

_VERSION = "http://mlcommons.org/croissant/1.1"
_TERMS = (
    *("arrayShape", "citeAs", "column", "containedIn", "equivalentProperty", "extract", "field", "fileObject"),
    *("fileProperty", "fileSet", "format", "includes", "isArray", "isLiveDataset", "jsonPath", "key", "md5"),
    *("parentField", "path", "recordSet", "references", "regex", "repeated", "replace", "samplingRate", "separator"),
    *("source", "subField", "transform"),
)
_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "prov": "http://www.w3.org/ns/prov#",
    "dct": "http://purl.org/dc/terms/",
    **{term: f"cr:{term}" for term in _TERMS},
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "description": {"@container": "@language"},
    "name": {"@container": "@language"},
}
_TYPES = {
    pa.string(): "sc:Text",
    pa.int64(): "sc:Integer",
    pa.float64(): "sc:Float",
    pa.float32(): "sc:Float",
    pa.bool_(): "sc:Boolean",
}


def write(corpus: ExportedCorpus, records: Mapping[str, Sequence[Path]], videos: Sequence[str] = ()) -> None:
    """Describe the tables of each record set, by its name, and the videos, by patterns of their paths.

    The tables of a record set have one schema. The date of publication is today. Terms that the request lacks are
    reported and left out.
    """
    request, root = corpus.request, storage.sha256(corpus.request.manifest)
    output, responsible = request.output, {**responsible_terms(corpus), **request.rai}
    if lacking := _lacking(corpus, responsible):
        _log.warning("%s is without terms that data tracks ask for: %s", _NAME, ", ".join(lacking))
    distribution: list[dict[str, Any]] = []
    for name, tables in records.items():
        parts = [_file_object(output, table) for table in tables]
        patterns = [str(part["contentUrl"]) for part in parts]
        described = _file_set(f"{name}-tables", "The rows, as Parquet.", "application/x-parquet", patterns)
        distribution += [*parts, described]
    if videos:
        what = corpus.in_words("The videos, which `file_name` names; the column `sha256` has the hash of each.")
        distribution.append(_file_set("videos", what, f"{'image' if corpus.has_pictures else 'video'}/*", videos))
    creators = [{"@type": "sc:Person", "name": name} for name in request.creator]
    named = {"license": request.license, "creator": creators, "citeAs": request.citation, "url": request.url}
    described = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "name": corpus.title,
        "description": f"{corpus.in_words('Video-text retrieval')} under perturbations: {', '.join(records)}, "
        f"made by perturbations {__version__}.",
        "conformsTo": [_VERSION, "http://mlcommons.org/croissant/RAI/1.0"],
        # The corpus' own version: equal for equal corpora, different for different corpora of one version of the
        # software.
        "version": f"1.0.0+{root[:16]}",
        "identifier": f"sha256:{root}",
        "datePublished": datetime.now(UTC).date().isoformat(),
        "keywords": ["robustness", "perturbation", corpus.in_words("video-text retrieval"), "benchmark"],
        **({"inLanguage": language} if (language := card.language(corpus)) else {}),
        **{name: value for name, value in named.items() if value},
        **responsible,
        "distribution": distribution,
        "recordSet": [
            {**_named("RecordSet", name), "field": [_field(name, column) for column in pq.read_schema(tables[0])]}
            for name, tables in records.items()
        ],
    }
    storage.write_text(output / _NAME, json.dumps(described, indent=1) + "\n")


def responsible_terms(corpus: ExportedCorpus) -> dict[str, Any]:
    """The terms of the Responsible AI vocabulary of Croissant, and of PROV.

    Terms about the content of unpublished clips are left out: only the owner of the dataset knows them.
    """
    origin, adapter, shown_in = card.origin(corpus), card.adapter_of(corpus), {}
    if card.is_published(corpus) or card.is_synthetic(corpus):
        personal = "None: the package drew the clips." if card.is_synthetic(corpus) else _PERSONAL
        shown_in = {
            "rai:dataBiases": [corpus.in_words(_BIASES).format(origin=origin)],
            "rai:personalSensitiveInformation": [corpus.in_words(personal).format(origin=origin)],
        }
    named = {"@id": adapter.url} if adapter and adapter.url else {}
    software = {"@type": "prov:SoftwareAgent", "prov:label": f"perturbations {__version__}"}
    # None where all clips are clean.
    known = suites.suites()
    makers = [
        f"{known[name].title}, after {known[name].reference}" if name in known else f"the suite {name}"
        for name in corpus.identity[-1].split(",")
        if name != export_names.CLEAN
    ]
    return {
        **shown_in,
        "rai:dataLimitations": _limits(corpus, is_perturbed=bool(makers)),
        "rai:dataUseCases": [corpus.in_words(_USES)],
        "rai:dataSocialImpact": corpus.in_words(_IMPACT),
        "rai:hasSyntheticData": bool(makers) or card.is_synthetic(corpus),
        "prov:wasDerivedFrom": [{**named, "@type": "prov:Entity", "prov:label": origin}],
        "prov:wasGeneratedBy": [
            {"@type": "prov:Activity", "prov:label": maker, "prov:wasAssociatedWith": software}
            for maker in makers or [corpus.in_words("Selection and check of the clips")]
        ],
    }


_PERSONAL = "Clips and captions of {origin} may show or describe people. No perturbation makes them anonymous."
_BIASES = "Those of {origin}: a perturbation changes how clips and captions look, and not what they are of."
_USES = (
    "Evaluation: how robust models of video-text retrieval are, and whether adaptation at test time helps. It is no "
    "training data, and says nothing about perturbations that are not in it."
)
_IMPACT = (
    "Shows where retrieval fails before it is relied on. A good score is no proof that a model is safe under other "
    "conditions, or fair to the people in the clips."
)


def _limits(corpus: ExportedCorpus, *, is_perturbed: bool) -> list[str]:
    """The limits that users must know before they rely on the corpus."""
    comparability, lost = corpus.about.get("comparability"), card.left_out_sentence(corpus)
    rejected = sum(not row.accepted for row in corpus.texts)
    sentences = {
        f"Results are {comparability}.": comparability,
        f"{lost}; left_out.csv has the reasons.": lost,
        f"The fidelity gate rejected {shown.plural(rejected, 'caption')}: left out.": rejected,
        "Perturbations are simulated; natural ones may differ from them.": is_perturbed,
    }
    known = [sentence for sentence, is_true in sentences.items() if is_true]
    return known or [corpus.in_words("The clips are those of the source dataset, with its limits.")]


def read_rai(path: Path) -> dict[str, Any]:
    """The terms of a JSON file, each a member of `REQUIRED`. Raises `ConfigError`."""
    try:
        terms = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"--rai: {path}: {getattr(error, 'strerror', None) or error}") from error
    unknown = [name for name in terms if name not in REQUIRED] if isinstance(terms, dict) else [str(terms)]
    if unknown:
        raise ConfigError(f"--rai: {path}: no term {short(unknown[0])}; known: {', '.join(REQUIRED)}")
    return dict(terms)


def _lacking(corpus: ExportedCorpus, responsible: Mapping[str, Any]) -> list[str]:
    """The terms that are still empty, each with the option that gives it."""
    given = ("license", "creator", "citation", "url")
    lacking = [f"--{name}" for name in given if not getattr(corpus.request, name)]
    empty = [name for name in REQUIRED if responsible.get(name) in (None, "", [], {})]
    parents = responsible.get("prov:wasDerivedFrom") or ()
    if parents and not card.is_synthetic(corpus) and "@id" not in json.dumps(parents):
        empty.append("the `@id` of prov:wasDerivedFrom")
    return lacking + [f"{name} (--rai)" for name in empty]


def _file_object(output: Path, path: Path) -> dict[str, Any]:
    name = path.relative_to(output).as_posix()
    size = {"contentSize": f"{path.stat().st_size} B", "encodingFormat": "application/x-parquet"}
    return {**_named("FileObject", name), "contentUrl": name, **size, "sha256": storage.sha256(path)}


def _file_set(name: str, description: str, form: str, patterns: Sequence[str]) -> dict[str, Any]:
    described = {**_named("FileSet", name), "description": description, "encodingFormat": form}
    return {**described, "includes": patterns[0] if len(patterns) == 1 else list(patterns)}


def _field(record_set: str, column: pa.Field) -> dict[str, Any]:
    is_list = pa.types.is_list(column.type)
    kind = _TYPES[column.type.value_type if is_list else column.type]
    source = {"fileSet": {"@id": f"{record_set}-tables"}, "extract": {"column": column.name}}
    described = {**_named("Field", f"{record_set}/{column.name}", column.name), "dataType": kind, "source": source}
    return described | ({"isArray": True, "arrayShape": "-1"} if is_list else {})


def _named(kind: str, identifier: str, name: str | None = None) -> dict[str, Any]:
    """The first keys of an object in Croissant's vocabulary."""
    return {"@type": f"cr:{kind}", "@id": identifier, "name": name or identifier}
