"""The pages of corpora and of captions, their pictures, and the page that leads to all."""
