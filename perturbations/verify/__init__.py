"""Are manifests, and the files that they name, still true?"""
