"""What the wing `store` brings to the spine."""

from perturbations.base.wings import Wing

WING = Wing(
    summary="runs in an object store",
    commands={"use what a run made": {"fetch": "command"}},
    jobs=("jobs",),
    rules=("store_common", "store"),
    offers={"places": "layout:PLACES", "pack": "packs:write_beside", "unpack": "packs:unpack_brought"},
    files=("docs/how-to/object-store.md",),
)
