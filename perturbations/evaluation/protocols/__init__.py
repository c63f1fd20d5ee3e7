"""Published evaluation protocols."""
