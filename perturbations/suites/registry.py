"""What can be made: declarations of perturbations and suites, and how to find them. Standard library only."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from perturbations import shelf
from perturbations.bounds import Bounds, Joint, problem_of
from perturbations.errors import UnknownPerturbationError, short
from perturbations.kernels import Kernel, Method
from perturbations.strengths import Path, Value, along, between

Parameters = Mapping[str, Value]
Kind = Literal["video", "text"]
Draw = Literal["clip", "frame", "caption", "none"]

VARIANTS = ("released", "paper")


@dataclass(frozen=True, kw_only=True)
class Perturbation:
    """One named entry of a suite. Everything about it but its code.

    Attributes:
        suite: the suite's name.
        name: the entry's name, unique in its suite.
        kind: "video" or "text", what it perturbs.
        level: the suite's own category ("low", "mid", "high" for MLVP; "noise", "blur", ... for the others).
        method: "pixel" changes frames one by one; "temporal" says which frame stands where; "codec" is an encode whose
            stream is the result; "text" changes a caption.
        kernel: `module:function` of the code, resolved when first used. For "pixel" it is
            `kernel(realization, num_frames, height, width, **parameters) -> apply(frame, index)`; for "temporal"
            `kernel(realization, num_frames, **parameters)` gives the frames' positions in the clip; for "codec"
            `kernel(**parameters)` gives the encoder's arguments; for "text" it is
            `kernel(text, rng, **parameters, **roles) -> text`.
        realization: `module:function(rng, num_frames, height, width)` that draws what is random. It is not given
            the parameters, so the severities of a clip share it. None where nothing is random, and for "text",
            whose kernels draw.
        guide: what the kernel must know of the clip beside its frames: a file of `perturbations.guides`. It is the
            kernel's second argument.
        version: raise it when the kernel's results change; every row made by the old one becomes stale.
        released: one parameter set a severity, 1 first: what the authors' code uses.
        paper: the same as printed, where it differs.
        bounds: what each parameter may be; every parameter has one.
        joint: what parameters must fulfil together.
        path: the way from mild to strong that calibration takes; None: through the published table.
        paper_path: the same for `paper`, where it is another.
        draw: one realization a "clip", a "frame" or a "caption"; "none" where nothing is random.
        roles: what a kernel needs played by a backend (`perturbations.models`), its keyword arguments of those names.
        gated: whether a result must keep the meaning: similar enough to the original, or drawn again.
        summary: one line for menus and catalogues.
        source: paper, section, table.
        differences: what `released` does otherwise than the text; empty where nothing.
        monotonic: whether distortion is known to grow with severity.
    """

    suite: str
    name: str
    kind: Kind = "video"
    level: str
    method: Method
    kernel: str
    realization: str | None
    guide: str | None = None
    version: int
    released: tuple[Parameters, ...]
    paper: tuple[Parameters, ...] | None = None
    bounds: Bounds = field(default_factory=dict)
    joint: tuple[Joint, ...] = ()
    path: Path | None = None
    paper_path: Path | None = None
    draw: Draw
    roles: tuple[str, ...] = ()
    gated: bool = False
    summary: str
    source: str
    differences: str = ""
    monotonic: bool = True

    @property
    def key(self) -> str:
        """`suite/name`, the perturbation's identity."""
        return f"{self.suite}/{self.name}"

    @property
    def severities(self) -> tuple[int, ...]:
        """1 up to as many as there are parameter sets."""
        return tuple(range(1, len(self.released) + 1))

    def parameters(self, severity: int, variant: str = "released") -> dict[str, Value]:
        """The published numbers of one severity.

        Raises `UnknownPerturbationError` when there is no such severity or variant.
        """
        if variant not in VARIANTS:
            raise UnknownPerturbationError(f"{self.key} has no variant '{variant}'; choose one of {list(VARIANTS)}")
        if severity not in self.severities:
            raise UnknownPerturbationError(
                f"{self.key} has no severity {severity!r}; choose one of {list(self.severities)}"
            )
        return dict(self._table(variant)[severity - 1])

    def parameters_at(self, strength: float, variant: str = "released") -> dict[str, Value]:
        """The parameters at a strength from 0 (mild) to 1 (strong), on the way that calibration takes."""
        path = self.paper_path if variant == "paper" and self.paper_path is not None else self.path
        if path is None:
            return between(self._table(variant), strength)
        return along(path, self.parameters(1, variant), strength)

    def _table(self, variant: str) -> tuple[Parameters, ...]:
        return self.paper if variant == "paper" and self.paper is not None else self.released


def table(names: str, *rows: Value | tuple[Value, ...]) -> tuple[Parameters, ...]:
    """A published table: one parameter set per row, whose cells stand in the order of `names`."""
    columns = names.split()
    return tuple(dict(zip(columns, row if isinstance(row, tuple) else (row,), strict=True)) for row in rows)


@dataclass(frozen=True, kw_only=True)
class Paper:
    """Where a suite's perturbations are printed; its methods declare them.

    `draw` is how pixel kernels draw that draw at all: one realization per clip, or one per frame.
    """

    suite: str
    video_source: str = ""
    text_source: str = ""
    draw: Draw = "clip"

    def video(
        self,
        name: str,
        level: str,
        kernel: Kernel,
        released: tuple[Parameters, ...],
        summary: str,
        *,
        source: str = "",
        paper: tuple[Parameters, ...] | None = None,
        paper_path: Path | None = None,
        differences: str = "",
        monotonic: bool = True,
    ) -> Perturbation:
        """A perturbation of videos; `source` says more exactly where it is printed."""
        # What a temporal kernel draws, and which style or photograph is taken, is the clip's.
        of_clip = kernel.method == "temporal" or kernel.draw is None
        return Perturbation(
            suite=self.suite,
            name=name,
            level=level,
            method=kernel.method,
            kernel=_in("perturbations.video", kernel.function),
            realization=kernel.draw and _in("perturbations.video", kernel.draw),
            guide=kernel.guide,
            version=kernel.version,
            released=released,
            paper=paper,
            bounds=kernel.bounds,
            joint=kernel.joint,
            path=kernel.path,
            paper_path=paper_path,
            draw=("clip" if of_clip else self.draw) if kernel.draw or kernel.draws_guide else "none",
            summary=summary,
            source=", ".join(filter(None, (self.video_source, source))),
            differences=differences,
            monotonic=monotonic,
        )

    def text(
        self,
        name: str,
        level: str,
        kernel: str,
        summary: str,
        released: tuple[Parameters, ...] = ({},),
        bounds: Bounds | None = None,
        *,
        paper: tuple[Parameters, ...] | None = None,
        differences: str = "",
        roles: tuple[str, ...] = (),
        gated: bool = False,
        random: bool = True,
    ) -> Perturbation:
        """A perturbation of captions."""
        return Perturbation(
            suite=self.suite,
            name=name,
            kind="text",
            level=level,
            method="text",
            kernel=_in("perturbations.text", kernel),
            realization=None,
            version=1,
            released=released,
            paper=paper,
            bounds=bounds or {},
            draw="caption" if random else "none",
            roles=roles,
            gated=gated,
            summary=summary,
            source=self.text_source,
            differences=differences,
        )


def _in(package: str, function: str) -> str:
    return function if "." in function.partition(":")[0] else f"{package}.{function}"


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
        perturbations: its entries, in the paper's order.
        whole_videos: whether clips are cut from perturbed videos, not perturbed after they were cut.
        draws_by_choice: whether the configuration may choose between one realization per clip and one per frame.
        combined: the perturbations of videos and of captions that are combined, if any.
        corpora: the paper's own corpora: the name of a target -> the adapter whose datasets it perturbs.
    """

    name: str
    title: str
    reference: str
    perturbations: tuple[Perturbation, ...]
    whole_videos: bool = False
    draws_by_choice: bool = False
    combined: Combined | None = None
    corpora: Mapping[str, str] = field(default_factory=dict)


@cache
def suites() -> dict[str, Suite]:
    """Every suite by its name: what the files of `perturbations.suites` declare as `SUITE`."""
    return shelf.named("suite", shelf.things("perturbations.suites", "SUITE", Suite))


def suite(name: str) -> Suite:
    """The suite called `name`; raises `UnknownPerturbationError` when there is none."""
    if name not in suites():
        raise UnknownPerturbationError(f"no suite '{name}'; known: {', '.join(suites())}")
    return suites()[name]


def perturbations(suite_name: str | None = None, kind: Kind | None = None) -> list[Perturbation]:
    """All declarations, of one suite or of every suite, in the papers' order."""
    chosen = [suite(suite_name)] if suite_name is not None else list(suites().values())
    return [entry for group in chosen for entry in group.perturbations if kind in (None, entry.kind)]


def get(key: str) -> Perturbation:
    """The declaration of `suite/name`; raises `UnknownPerturbationError` with the nearest names."""
    known = _by_key()
    if key not in known:
        near = ", ".join(shelf.nearest(key, known))
        raise UnknownPerturbationError(f"no perturbation '{key}'; did you mean {near}? See `perturb list`.")
    return known[key]


@cache
def _by_key() -> dict[str, Perturbation]:
    return {entry.key: entry for entry in perturbations()}


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


def resolve(dotted: str) -> Callable[..., Any]:
    """The function behind `module:function`."""
    module, _, name = dotted.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function
