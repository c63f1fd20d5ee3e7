"""Composed retrieval: splits of (clip, instruction) queries, as EgoCVR has them, and how others are built."""
