"""The paths of the demo's encoder."""

PLACES = {"demo_encoder": "work/demo_encoder"}
