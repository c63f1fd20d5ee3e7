"""Annotation formats: one file per adapter."""
