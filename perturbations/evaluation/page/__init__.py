"""The page of results: tables, figures, and intervals."""
