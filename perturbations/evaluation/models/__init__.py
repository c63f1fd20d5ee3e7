"""From a folder of weights to an encoder of clips and captions."""
