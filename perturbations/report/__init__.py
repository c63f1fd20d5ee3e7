"""Pictures of corpora for people: contact sheets."""
