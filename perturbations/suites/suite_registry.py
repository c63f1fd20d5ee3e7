"""The declarations of perturbations and suites, and how to find them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from perturbations.base import plugins
from perturbations.base.bounds import Bounds, problem_of
from perturbations.base.errors import UnknownPerturbationError, did_you_mean, nearest, short
from perturbations.base.kernel import Function, Kernel

if TYPE_CHECKING:
    from perturbations.text.languages import Languages

_OWN = plugins.in_package(
    "perturbations.suites", "controls", "mlvp", "mm_robustness", "msrvtt_p", "tampering", "transmission"
)

ParameterValue = bool | int | float | str | list[str] | list[int]
"""A parameter of a kernel. A caption's kernel may take lists: tags of words, positions in a sentence."""

KernelParameters = Mapping[str, ParameterValue]
Medium = Literal["video", "text"]
Draw = Literal["clip", "frame", "caption", "none"]


@dataclass(frozen=True, kw_only=True)
class Perturbation(Kernel):
    """One named entry of a suite: its kernel, its parameters and where they are printed.

    Attributes:
        suite: the suite's name.
        name: the entry's name, unique in its suite.
        kind: "video" or "text", what it perturbs.
        category: the suite's own ("low", "mid", "high" for MLVP; "noise", "blur", ... for the others).
        variant: which of the suite's variants this is.
        by_severity: one parameter set per severity, 1 first.
        paper_severities: the severities that are the paper's levels, in their order: all, unless the authors' code
            makes more.
        draw: one realization a "clip", a "frame" or a "caption"; "none" where nothing is random.
        roles: the models that a kernel needs of a backend (`perturbations.models`), arguments of those names.
        gated: whether a result must keep the topic: similar enough to the original, or drawn again.
        measured: whether a result's similarity to the original is measured though no gate judges it.
        not_comparable: why results of the offline models are not comparable with published ones, apart from being
            made by stand-ins: what people read and counted (`docs/measurements/captions.md`); empty where nobody did.
        languages: what captions it is made for; it is skipped on others.
        summary: one line for menus and catalogues.
        source: paper, section, table.
        differences: how this variant differs from the paper's text, and which published figures that shaped; empty
            where it does not differ.
        monotonic: whether distortion is known to grow with severity.
        others: variant -> the same perturbation as that variant makes it; variants that make it alike are left out.
    """

    suite: str
    name: str
    kind: Medium = "video"
    category: str
    variant: str
    by_severity: tuple[KernelParameters, ...]
    paper_severities: tuple[int, ...]
    draw: Draw
    roles: tuple[str, ...] = ()
    gated: bool = False
    measured: bool = False
    not_comparable: str = ""
    languages: Languages = "any language"
    summary: str
    source: str
    differences: str = ""
    monotonic: bool = True
    others: Mapping[str, Perturbation] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """`suite/name`, the perturbation's identity."""
        return f"{self.suite}/{self.name}"

    @property
    def used_roles(self) -> tuple[str, ...]:
        """The roles whose models are used when a caption is perturbed: the makers, and the one of similarity."""
        return (*self.roles, "similarity") if self.gated or self.measured else self.roles

    @property
    def makers(self) -> tuple[str, ...]:
        """The roles on which the text depends: the kernel's, and the gate's."""
        return (*self.roles, "similarity") if self.gated else self.roles

    @property
    def severities(self) -> tuple[int, ...]:
        """1 up to as many as there are parameter sets."""
        return tuple(range(1, len(self.by_severity) + 1))

    @property
    def levels_of_paper(self) -> str:
        """Which severities are the paper's, in words; empty where all are."""
        if self.paper_severities == self.severities:
            return ""
        first, *_, last = self.paper_severities
        return f"severities {first} to {last} are the paper's levels 1 to {len(self.paper_severities)}"

    def forms(self) -> list[Perturbation]:
        """The declarations that differ: the first variant's, and those of variants that make it differently."""
        first = get(self.key)
        return [first, *(first.in_variant(variant) for variant in first.others)]

    def in_variant(self, variant: str) -> Perturbation:
        """The whole declaration as another variant of the suite makes it.

        Raises `UnknownPerturbationError` when the suite has no such variant.
        """
        return self if variant == self.variant else get(self.key, variant)

    def parameters(self, severity: int) -> dict[str, ParameterValue]:
        """The published numbers of one severity. Raises `UnknownPerturbationError` when there is no such severity."""
        if severity not in self.severities or isinstance(severity, bool | float):
            raise UnknownPerturbationError(
                f"{self.key} has no severity {severity!r}; choose one of {list(self.severities)}"
            )
        return dict(self.by_severity[severity - 1])


@dataclass(frozen=True, kw_only=True)
class Form:
    """A perturbation as another variant makes it; what is absent is as in the suite's first variant.

    Attributes:
        kernel: of videos.
        table: one parameter set per severity.
        differences, monotonic: see `Perturbation`; no differences where the variant does as the text says.
    """

    kernel: Kernel | None = None
    table: tuple[KernelParameters, ...] | None = None
    differences: str = ""
    monotonic: bool | None = None


def table(names: str, *rows: ParameterValue | tuple[ParameterValue, ...]) -> tuple[KernelParameters, ...]:
    """A published table: one parameter set per row, whose cells are in the order of `names`."""
    columns = names.split()
    return tuple(dict(zip(columns, row if isinstance(row, tuple) else (row,), strict=True)) for row in rows)


@dataclass(frozen=True, kw_only=True)
class Paper:
    """Where a suite's perturbations are printed; its methods declare them.

    `draw` is how pixel kernels draw that draw at all: one realization per clip, or one per frame. `variants` are the
    suite's: its perturbations are declared as the first makes them.
    """

    suite: str
    variants: tuple[str, ...] = ("released", "paper")
    video_source: str = ""
    text_source: str = ""
    draw: Draw = "clip"

    def video(
        self,
        name: str,
        category: str,
        kernel: Kernel,
        by_severity: tuple[KernelParameters, ...],
        summary: str,
        *,
        source: str = "",
        variants: Mapping[str, Form] | None = None,
        differences: str = "",
        monotonic: bool = True,
    ) -> Perturbation:
        """A perturbation of videos; `source` says more exactly where it is printed."""
        first = Form(kernel=kernel, table=by_severity, differences=differences, monotonic=monotonic)
        entries = {
            variant: Perturbation(
                **vars(form.kernel or kernel),
                suite=self.suite,
                name=name,
                category=category,
                variant=variant,
                by_severity=form.table or by_severity,
                paper_severities=tuple(range(1, len(form.table or by_severity) + 1)),
                draw=self._draw_of(form.kernel or kernel),
                summary=summary,
                source=", ".join(filter(None, (self.video_source, source))),
                differences=form.differences,
                monotonic=monotonic if form.monotonic is None else form.monotonic,
            )
            for variant, form in {self.variants[0]: first, **(variants or {})}.items()
        }
        return replace(entries.pop(self.variants[0]), others=entries)

    def _draw_of(self, kernel: Kernel) -> Draw:
        """What a kernel of videos draws for."""
        if not (kernel.realization or kernel.draws_guide):
            return "none"
        # What becomes of the order of frames or of a stream, and which style or photograph is taken, is the clip's.
        of_clip = kernel.moves_frames or kernel.encodes or kernel.realization is None or kernel.once
        return "clip" if of_clip else self.draw

    def text(
        self,
        name: str,
        category: str,
        kernel: Function,
        summary: str,
        by_severity: tuple[KernelParameters, ...] = ({},),
        bounds: Bounds | None = None,
        *,
        variants: Mapping[str, Form] | None = None,
        paper_severities: tuple[int, ...] = (),
        differences: str = "",
        roles: tuple[str, ...] = (),
        gated: bool = False,
        measured: bool = False,
        random: bool = True,
        version: int = 1,
        not_comparable: str = "",
        languages: Languages = "English",
    ) -> Perturbation:
        """A perturbation of captions; its `paper_severities` are all severities unless they are named."""
        entry = Perturbation(
            suite=self.suite,
            name=name,
            kind="text",
            category=category,
            method="text",
            kernel=kernel,
            # Kernels for English changed twice more: they leave captions in other languages alone, short ones too.
            version=version + 2 * (languages == "English"),
            variant=self.variants[0],
            by_severity=by_severity,
            paper_severities=paper_severities or tuple(range(1, len(by_severity) + 1)),
            bounds=bounds or {},
            draw="caption" if random else "none",
            roles=roles,
            gated=gated,
            measured=measured,
            not_comparable=not_comparable,
            languages=languages,
            summary=summary,
            source=self.text_source,
            differences=differences,
        )
        others = {
            variant: replace(
                entry, variant=variant, by_severity=form.table or by_severity, differences=form.differences
            )
            for variant, form in (variants or {}).items()
        }
        return replace(entry, others=others)


@dataclass(frozen=True, kw_only=True)
class Combined:
    """Which perturbations a paper combines: each video perturbation, at one severity, with each of captions."""

    severity: int
    video: tuple[str, ...]
    text: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Suite:
    """One paper's set of perturbations.

    Attributes:
        name: of the suite.
        title: for menus and pages.
        reference: the paper.
        videos: its perturbations of videos, in the paper's order.
        captions: gives its perturbations of captions: a function, so that a job of videos loads no kernel of captions.
        whole_videos: whether clips are cut from perturbed videos, not perturbed after they were cut.
        draws_by_choice: whether the configuration may choose between one realization per clip and one per frame.
        combined: the perturbations of videos and of captions that are combined, if any.
        corpora: the paper's own corpora: the name of a target -> the adapter whose datasets it perturbs.
        variants: which there are, the default first: `released` does what the authors' code does, bugs included;
            `paper` does what the text says.
    """

    name: str
    title: str
    reference: str
    videos: tuple[Perturbation, ...] = ()
    captions: Callable[[], tuple[Perturbation, ...]] = tuple
    whole_videos: bool = False
    draws_by_choice: bool = False
    combined: Combined | None = None
    corpora: Mapping[str, str] = field(default_factory=dict)
    variants: tuple[str, ...] = ("released", "paper")

    @cached_property
    def perturbations(self) -> tuple[Perturbation, ...]:
        """All its perturbations, those of videos first."""
        return self.videos + self.captions()

    def of_kind(self, kind: Medium | None) -> tuple[Perturbation, ...]:
        """Its perturbations of videos or of captions, or all."""
        return self.perturbations if kind is None else self.videos if kind == "video" else self.captions()


_GROUP = "perturbations.suites"


@plugins.cached
def suites() -> dict[str, Suite]:
    """Every suite by its name."""
    return plugins.load_all(_GROUP, _OWN, "SUITE", Suite)


@plugins.cached
def _suite(name: str) -> Suite | None:
    """The suite called `name`, which alone is loaded: a job needs one."""
    return plugins.load(_GROUP, name, _OWN, "SUITE", Suite)


def suite(name: str) -> Suite:
    """The suite called `name`; raises `UnknownPerturbationError` when there is none."""
    if (declared := _suite(name)) is None:
        known = ", ".join(suites())
        raise UnknownPerturbationError(f"no suite {short(name)}; known: {known}{did_you_mean(name, suites())}")
    return declared


def code(name: str) -> str | None:
    """The SHA-256 of the file that declares a suite from outside, which a recipe has; None of this package's."""
    return plugins.code_of(_GROUP, name, _OWN, "SUITE")


def perturbations(suite_name: str | None = None, kind: Medium | None = None) -> list[Perturbation]:
    """All declarations, of one suite or of every suite, in the papers' order."""
    chosen = [suite(suite_name)] if suite_name is not None else list(suites().values())
    return [entry for group in chosen for entry in group.of_kind(kind)]


@plugins.cached
def get(key: str, variant: str | None = None) -> Perturbation:
    """The declaration of `suite/name`, as a variant makes it; None: as the suite's first.

    Raises `UnknownPerturbationError` with the nearest names, or with the suite's variants.
    """
    suite_name = key.partition("/")[0]
    if (entry := _by_key(suite_name, "video").get(key) or _by_key(suite_name, "text").get(key)) is None:
        raise UnknownPerturbationError(f"no perturbation {short(key)}{_near(key)} See `perturb list`.")
    variants = suite(suite_name).variants
    if variant is None:
        variant = variants[0]
    if variant not in variants:
        raise UnknownPerturbationError(f"{key} has no variant '{variant}'; choose one of {list(variants)}")
    if variant == entry.variant:
        return entry
    return replace(entry.others.get(variant, entry), variant=variant, others=entry.others)


def _near(key: str) -> str:
    """The keys closest to a mistyped one; for a name without its suite, those of suites that have it, or one near."""
    if key in suites():
        return f": it is a suite. Name one of its perturbations, such as {perturbations(key)[0].key}."
    if "/" not in key:
        of_name: dict[str, list[str]] = {name: [name] for name in suites()}
        for entry in perturbations():
            of_name.setdefault(entry.name, []).append(entry.key)
        if near := nearest(key, of_name, most=1):
            return f"; did you mean {' or '.join(of_name[near[0]])}?"
    return did_you_mean(key, [entry.key for entry in perturbations()]) or "."


@plugins.cached
def _by_key(suite_name: str, kind: Medium) -> dict[str, Perturbation]:
    """A suite's perturbations of videos or of captions, by their keys; none where there is no suite."""
    group = _suite(suite_name)
    return {} if group is None else {entry.key: entry for entry in group.of_kind(kind)}


def parameter_problems(entry: Perturbation, parameters: Mapping[str, object]) -> list[str]:
    """What is wrong with a whole parameter set: one line per mistake, which begins with the parameter's name.

    Right are exactly the declared names, each value within its bounds, and what they must fulfil together.
    """
    known = ", ".join(entry.bounds) or "none"
    problems = [
        f"{short(name)[1:-1]}: unknown parameter; known: {known}" for name in parameters if name not in entry.bounds
    ]
    for name, bound in entry.bounds.items():
        if name not in parameters:
            problems.append(f"{name}: is missing; it must be {bound}")
        elif wrong := problem_of(bound, parameters[name]):
            problems.append(f"{name}: {wrong}")
    if problems:
        return problems
    return [
        f"{rule.parameter}: {rule.rule}, not {short(parameters[rule.parameter])}"
        for rule in entry.joint
        if not rule.fits(parameters)
    ]
