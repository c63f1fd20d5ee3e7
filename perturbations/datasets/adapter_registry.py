"""The type of an adapter, the settings of a dataset in `config.yaml`, and the look-up of adapters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Union

from pydantic import Discriminator, Field, Tag, field_validator
from pydantic.config import JsonDict

from perturbations.base import plugins
from perturbations.base.errors import did_you_mean, short
from perturbations.base.settings import MOST_ITEMS, Strict, Whole
from perturbations.datasets.listing import VIDEO_EXTENSIONS, AnnotationPlace, Collector
from perturbations.text.languages import SCRIPTS

_OWN = {
    **plugins.in_package(
        "perturbations.datasets",
        *("activitynet", "carebench", "coco", "composed_table", "covr_r", "dense_webvid_covr", "didemo", "dream_1k"),
        *("egocvr", "fine_cvr", "flickr30k", "folder", "lovr", "lsmdc", "msrvtt", "msvd", "omni_cvr", "pictures"),
        *("tf_covr", "webvid_covr", "youcook2"),
    ),
    **plugins.in_package(
        "perturbations.questions.adapters",
        *("egoschema", "mvbench", "next_qa", "perception_test", "questions", "video_mme"),
    ),
    "demo": "perturbations.demo.dataset",
}

_ColumnName = Annotated[str, Field(min_length=1, max_length=1000)]


def _with_names(schema: JsonDict) -> None:
    """Let the JSON schema list the adapters."""
    schema["enum"] = list(adapters())


class ColumnsSection(Strict):
    """The meaning of the columns of a `folder` dataset's table; further ones stay with each item."""

    item_id: _ColumnName = Field(
        "item_id",
        description="the item's name; rows that share it are captions of one item. In a table without it, the file's",
    )
    video: _ColumnName | None = Field(
        None, description="file below `videos`; without it the item_id plus a video extension"
    )
    caption: _ColumnName = Field(
        "caption", description="the text, or in JSON and Parquet a list of texts; a table may have none"
    )
    start_s: _ColumnName | None = Field(
        None, description="start of the clip in seconds; without it the video's beginning"
    )
    end_s: _ColumnName | None = Field(None, description="end of the clip in seconds; without it the video's end")


class Dataset(Strict):
    """One video-text dataset: the adapter that reads its annotations, and where its files are."""

    adapter: str = Field(
        description="which annotation format to read",
        json_schema_extra=_with_names,
    )
    annotations: Path | None = Field(None, description="the annotation file")
    videos: Path | None = Field(None, description="the directory that holds the videos")
    split: str | None = Field(
        None,
        description="the split's name for the manifests; youcook2's and msrvtt's official JSON: which split to read; "
        "folder, pictures: the key of the entries, where a JSON file has them by splits",
    )
    ids: Path | None = Field(
        None,
        description="text file with one video id of the split per line. msvd: its items; youcook2: more whole videos, "
        "which no clip of the annotations is a part of",
    )
    captions: Literal["first", "all"] = Field("first", description="msvd: one caption per video, as the papers, or all")
    language: str = Field(
        "en",
        description="what the captions are written in, as ISO 639-1 has it; perturbations made for other languages or "
        "letters are skipped",
        json_schema_extra={"enum": [*sorted(SCRIPTS)]},
    )
    columns: ColumnsSection = Field(default_factory=ColumnsSection, description="folder: the caption table's columns")
    subset: tuple[str, ...] | None = Field(
        None, min_length=1, description="only these item ids; everything else is not listed"
    )
    clips: Whole = Field(8, ge=1, le=10_000, description="demo: how many clips to generate")
    donors: str | None = Field(
        None, description="the dataset whose clips event insertion takes segments from; the default is this one itself"
    )
    max_failed_items: Whole | None = Field(
        None,
        ge=0,
        le=MOST_ITEMS,
        description="how many items may fail before the run does; the default is the global value",
    )

    @field_validator("annotations", "videos", "ids", mode="before")
    @classmethod
    def _is_no_empty_path(cls, value: object) -> object:
        """pathlib takes an empty text for the working directory."""
        if value == "":
            raise ValueError("the path is empty; `.` is the working directory")
        return value

    @field_validator("adapter")
    @classmethod
    def _is_known(cls, name: str) -> str:
        if name not in adapters():
            *names, last = map(repr, adapters())
            raise ValueError(f"must be {', '.join(names)} or {last}, not {short(name)}{did_you_mean(name, adapters())}")
        return name

    @field_validator("language")
    @classmethod
    def _has_a_script(cls, language: str) -> str:
        if language not in SCRIPTS:
            names = sorted(SCRIPTS)
            near = [name for name in names if name == language.lower()[:2]]
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"unknown language {short(language)}; known: {', '.join(names)}{hint}")
        return language

    @property
    def has_gender(self) -> bool:
        """Whether captions mention men and women."""
        return adapters()[self.adapter].gender

    @property
    def has_pictures(self) -> bool:
        """Whether the items are pictures."""
        return adapters()[self.adapter].pictures

    @property
    def has_spans(self) -> bool:
        """Whether the items are parts of longer videos."""
        spans = adapters()[self.adapter].spans
        return spans(self) if callable(spans) else spans


class ComposedEntry(NamedTuple):
    """A query as its annotations have it; names are those of clips. `gallery` is empty where no row has one."""

    where: AnnotationPlace
    query_id: str
    source: str
    targets: tuple[str, ...]
    instruction: str
    category: str
    gallery: Sequence[str]
    source_caption: str
    target_caption: str
    modified_caption: str


@dataclass(frozen=True, kw_only=True)
class Adapter:
    """One annotation format. Its functions take a dataset of its `settings`.

    Attributes:
        name: its name in `config.yaml`.
        title: the dataset's title, for tables.
        reference: the papers of the dataset and of its split; empty where the format belongs to no published dataset.
        url: the dataset's page, by which descriptions of corpora name their parent; empty where it has none.
        annotations: the file or files that it reads.
        published: the size of the published split.
        read: the function (dataset, collector) that lists every entry of the annotations: as an item, or with the
            reason why it cannot be used.
        split: the split's name for the manifests, where the configuration has none, or a function of the dataset that
            returns it.
        needs: paths that the configuration must have.
        takes: further keys that it may have, of `ids`, `columns`, `captions` and `clips`; the others refuse them.
        settings: the keys that `config.yaml` may have: a subclass of `Dataset` adds keys.
        spans: whether items are parts of longer videos, or a function of the dataset that returns it.
        gender: whether captions mention men and women. YouCook2's instructions do not (Schiappa et al.).
        extensions: for videos whose names are listed without an extension.
        pictures: whether items are pictures, each a clip of one frame.
        synthetic: width, height and frames of each clip, where the package generates the videos.
        questions: whether its entries are questions of multiple choice, which the collector is given too.
        takes_folder: whether the annotations may be a folder of files.
        whole: of adapters whose datasets may have spans: what to say of one whose items are whole videos.
        queries: of composed retrieval, the function (dataset, collector) that yields the queries of the annotations.
        further_files: a function of the dataset: annotation files beside the main one; the default is its `pool`.
        gallery: of composed retrieval, the gallery in which the authors evaluate, or a function of the dataset that
            returns it; empty where the annotations bring one, or there are no authors.
        source_in_gallery: of composed retrieval, whether the authors leave the query's own clip in the gallery.
    """

    name: str
    title: str
    reference: str
    annotations: str
    published: str
    read: Callable[[Any, Collector], None]
    url: str = ""
    split: str | Callable[[Dataset], str] = "test"
    needs: tuple[str, ...] = ("annotations", "videos")
    takes: tuple[str, ...] = ()
    settings: type[Dataset] = Dataset
    spans: bool | Callable[[Any], bool] = False
    gender: bool = True
    extensions: tuple[str, ...] = VIDEO_EXTENSIONS
    pictures: bool = False
    synthetic: tuple[int, int, int] | None = None
    questions: bool = False
    takes_folder: bool = False
    whole: str = "its items are whole videos, and a split needs several clips of each video"
    queries: Callable[[Any, Collector], Iterable[ComposedEntry]] | None = None
    further_files: Callable[[Any], Sequence[Path]] = lambda dataset: [*filter(None, [pool_of(dataset)])]
    gallery: str | Callable[[Any], str] = ""
    source_in_gallery: bool = False


@plugins.cached
def adapters() -> dict[str, Adapter]:
    """The adapters by name: published datasets first, synthetic ones last."""
    every = plugins.load_all("perturbations.datasets", _OWN, "ADAPTER", Adapter)
    ordered = sorted(
        every.values(), key=lambda adapter: (not adapter.reference, adapter.synthetic is not None, adapter.name)
    )
    return {adapter.name: adapter for adapter in ordered}


def settings_of_any() -> object:
    """The type of a dataset in `config.yaml`, for pydantic: the settings of the dataset's adapter.

    An unknown adapter is checked as a plain `Dataset`, whose error lists the known names.
    """
    # In a fixed order: the schema is a file that is compared.
    every: list[type[Dataset]] = [Dataset, *(adapter.settings for adapter in adapters().values())]
    kinds = list(dict.fromkeys(every))
    if len(kinds) == 1:
        return Dataset
    tagged = tuple(Annotated[kind, Tag(kind.__name__)] for kind in kinds)

    def tag(raw: object) -> str:
        name = raw.get("adapter") if isinstance(raw, dict) else getattr(raw, "adapter", None)
        adapter = adapters().get(name) if isinstance(name, str) else None
        settings = adapter.settings if adapter else Dataset
        return (settings if settings in kinds else Dataset).__name__  # a user's file brings no keys

    return Annotated[Union[tagged], Discriminator(tag)]  # noqa: UP007


def get(name: str) -> Adapter:
    """The adapter of a checked configuration."""
    return adapters()[name]


def annotations_of(dataset: Dataset) -> Path:
    """The annotation file; the configuration check made sure that it is set."""
    assert dataset.annotations is not None
    return dataset.annotations


def pool_of(dataset: Dataset) -> Path | None:
    """The table of all clips of composed retrieval, where the configuration names one."""
    return getattr(dataset, "pool", None)


def split_of(dataset: Dataset) -> str:
    """The split's name: the configuration's, or the name of the split that the papers evaluate."""
    split = get(dataset.adapter).split
    return dataset.split or (split(dataset) if callable(split) else split)
