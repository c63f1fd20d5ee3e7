"""Retrieval by a clip and an instruction: its runs, its jobs and its scores."""
