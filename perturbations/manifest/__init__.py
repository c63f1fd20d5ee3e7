"""Manifests: what their rows are, their files, where those lead, and manifests as sets."""
