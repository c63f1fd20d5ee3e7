"""The paths of calibrations."""

PLACES = {
    "calibration_table": "manifests/{dataset}/calibration.json",
    "calibration_page": "manifests/{dataset}/calibration.md",
}
