"""Severities of even distortion, solved on a dataset's own clips."""
