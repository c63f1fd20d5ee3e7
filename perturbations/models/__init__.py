"""The backends behind captioner, noun extractor, detector, style and embedding. Heavy imports stay in functions."""
