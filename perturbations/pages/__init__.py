"""Pages that people look at: of a corpus, of captions, of all that a run made, and contact sheets."""
