"""Runs in an object store: packs of clips, and bringing results back."""
