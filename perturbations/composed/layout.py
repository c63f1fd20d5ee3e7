"""The paths of composed retrieval."""

FOLDER = "manifests/{dataset}/composed"
"""Of its manifests."""

PLACES = {
    "composed_rejected": "work/{dataset}/composed/rejected_captions.jsonl",
    "composed_features": "work/{dataset}/composed/features/{suite}/{level}.safetensors",
    "composed_part": "work/{dataset}/composed/results/{corpus}/{level}.parquet",
    "composed_ranks_part": "work/{dataset}/composed/results/{corpus}/{level}.ranks.parquet",
}
