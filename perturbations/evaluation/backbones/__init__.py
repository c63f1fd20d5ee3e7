"""The architectures of dual encoders that an evaluation can load, one file per architecture."""
