"""The paths of composed retrieval."""

FOLDER = "manifests/{dataset}/composed"
"""Of its manifests."""

PLACES = {
    "composed_rejected": "work/{dataset}/composed/rejected_captions.jsonl",
}
