"""Contact sheets of corpora: a row a perturbation, a column a severity."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from perturbations import api, manifest, media, pipeline, recipe, registry, rendering
from perturbations.errors import ManifestError
from perturbations.report.sheet import contact_sheet, write_png


def from_video(
    source: rendering.Source,
    output: Path,
    *,
    names: Sequence[str] | None,
    severities: Sequence[int],
    seed: int,
    variant: str,
) -> None:
    """Draw the middle frame of a clip under each perturbation and severity; `names` None means all."""
    keys = names or [entry.key for entry in registry.perturbations(kind="video")]
    middle = source.num_frames // 2
    clean = next(iter(media.decode(source.clip, only={middle}))).image
    rows = []
    for key in keys:
        images = [clean]
        for severity in severities:
            made = recipe.make(registry.get(key), severity, variant=variant, seed=seed, storage={"tier": "recipe"})
            images += [frame.image for frame in rendering.render(made, source, only={middle})]
        rows.append((key.partition("/")[2], images))
    columns = ["clean", *(f"severity {severity}" for severity in severities)]
    write_png(contact_sheet(rows, columns, title=source.item_id), output)


def from_manifest(
    path: Path, output: Path, *, item: str | None, names: Sequence[str] | None, severities: Sequence[int]
) -> None:
    """Draw one item of a `videos` manifest as it is stored, the frame in the middle; `names` None means all.

    Raises `ManifestError` when nothing of the item is complete.
    """
    table = manifest.read_manifest(path)
    complete = table[table["status"] == manifest.COMPLETE]
    if item is not None:
        complete = complete[complete["item_id"] == item]
    if names is not None:
        complete = complete[(complete["suite"] + "/" + complete["perturbation"]).isin(names)]
    complete = complete[complete["severity"].isin(severities)]
    if complete.empty:
        raise ManifestError(f"{path} has no complete row{'' if item is None else f' of {item!r}'} to draw")
    chosen = complete[complete["item_id"] == complete["item_id"].iloc[0]]
    shown = sorted(int(severity) for severity in chosen["severity"].unique())
    in_order = [entry.name for entry in registry.perturbations(str(chosen["suite"].iloc[0]))]
    clean = _clean(chosen.iloc[0])
    rows = []
    for name in sorted(chosen["perturbation"].unique(), key=in_order.index):
        by_severity = {int(row["severity"]): row for _, row in chosen[chosen["perturbation"] == name].iterrows()}
        rows.append((name, [clean, *(_middle(by_severity[one]) if one in by_severity else None for one in shown)]))
    columns = ["clean", *(f"severity {severity}" for severity in shown)]
    title = f"{chosen['dataset'].iloc[0]}: {chosen['item_id'].iloc[0]}"
    write_png(contact_sheet(rows, columns, title=title), output)


def _middle(row: object) -> media.Image:
    columns = api.plain_row(row)
    held = columns["stored_frames"] or columns["frame_count"]
    image: media.Image = api.open_clip(columns, [held // 2])[0]
    return image


def _clean(row: object) -> media.Image:
    """The clean clip's frame that stands where `_middle` looks."""
    columns = api.plain_row(row)
    made = api.row_recipe(columns)
    position = columns["frame_count"] // 2
    if made["storage"]["tier"] == "frames":
        sampled = pipeline.stored_indices(made, columns["frame_count"])
        position = sampled[len(sampled) // 2]
    clip = media.Clip(Path(columns["source_path"]), columns["start_s"], columns["end_s"])
    return next(iter(media.decode(clip, only={position}))).image
