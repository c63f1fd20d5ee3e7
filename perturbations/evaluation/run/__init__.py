"""From planned runs to rows of results and ranks."""
