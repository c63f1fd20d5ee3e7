"""The paths of composed retrieval."""

PLACES = {
    "composed_queries": "manifests/{dataset}/composed/queries.parquet",
    "composed_qrels": "manifests/{dataset}/composed/qrels.parquet",
    "composed_galleries": "manifests/{dataset}/composed/galleries.parquet",
    "composed_pool": "manifests/{dataset}/composed/pool.parquet",
    "composed_results": "manifests/{dataset}/composed/results.parquet",
    "composed_ranks": "manifests/{dataset}/composed/ranks.parquet",
    "composed_rejected": "work/{dataset}/composed/rejected_captions.jsonl",
    "composed_features": "work/{dataset}/composed/features/{suite}/{level}.safetensors",
    "composed_part": "work/{dataset}/composed/results/{corpus}/{level}.parquet",
    "composed_ranks_part": "work/{dataset}/composed/results/{corpus}/{level}.ranks.parquet",
    "composed_parts": "work/{dataset}/composed/results.parts",
}
