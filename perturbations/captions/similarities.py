"""Similarities of captions to their perturbed forms, each computed once: in a job, and by the jobs of one shard.

The severities of a perturbation draw much the same texts, and every job compares with the same originals. So a job
reads what others left in a folder of the work tree, and leaves there what it computed itself. The folder may be deleted
at any time: what is missing is computed again, with the same result.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from perturbations.base import storage
from perturbations.base.errors import OutputError
from perturbations.models.text_similarity import SentenceEncoder

_DIGITS = 4
"""Similarities are rounded to so many; the rounded value is compared with the threshold and reported."""

# Of a folder, and of what a job keeps in memory.
_MOST_BYTES = 64 * 2**20
_KEY_BYTES = 16

_Vector = NDArray[np.floating]
_Pair = tuple[str, str]


class Similarities:
    """Cosines of pairs of an original and another text, by one encoder.

    Args:
        encoder: computes what is not known yet.
        folder: where other jobs on the same captions leave theirs. It is not used where the encoder has no identity.

    Attributes:
        threshold: the encoder's.
    """

    def __init__(self, encoder: SentenceEncoder, folder: Path | None = None) -> None:
        self.threshold = encoder.threshold
        self._encoder = encoder
        self._salt = hashlib.sha256(f"{encoder.identity} {_DIGITS}".encode()).digest()
        self._folder = folder / self._salt.hex()[:16] if folder is not None and encoder.identity is not None else None
        self._cosines: dict[bytes, float] = {}
        self._originals: dict[bytes, _Vector] = {}
        self._held_bytes = 0
        if self._folder is not None:
            for path in sorted(self._folder.glob("*.npz")):
                self._read(path)
        self._old = {*self._cosines, *self._originals}

    def of(self, pairs: Sequence[_Pair]) -> list[float]:
        """The rounded cosine of each pair (original, text)."""
        keys = [self._key(*pair) for pair in pairs]
        known = {key: self._cosines[key] for key in keys if key in self._cosines}
        missing = {key: pair for key, pair in zip(keys, pairs, strict=True) if key not in known}
        if missing:
            vectors = self._vectors(missing.values())
            for key, (original, text) in missing.items():
                known[key] = round(float(vectors[original] @ vectors[text]), _DIGITS)
                self._keep(self._cosines, key, known[key], 8)
        return [known[key] for key in keys]

    def save(self) -> None:
        """Leave what this job computed to the others. A folder that is full, or cannot be written, stays as it is."""
        cosines = {key: value for key, value in self._cosines.items() if key not in self._old}
        originals = {key: value for key, value in self._originals.items() if key not in self._old}
        if self._folder is None or not cosines:
            return
        name = hashlib.sha256(b"".join(sorted([*cosines, *originals]))).hexdigest()[:32]
        try:
            if sum(path.stat().st_size for path in self._folder.glob("*.npz")) + self._held_bytes > _MOST_BYTES:
                return
            with storage.atomic_path(self._folder / f"{name}.npz") as temporary, temporary.open("wb") as file:
                np.savez(
                    file,
                    pairs=_packed(cosines),
                    cosines=np.array(list(cosines.values()), np.float64),
                    originals=_packed(originals),
                    vectors=np.stack(list(originals.values())) if originals else np.empty((0, 0), np.float32),
                )
        except (OSError, OutputError):
            return

    def _vectors(self, pairs: Collection[_Pair]) -> dict[str, _Vector]:
        """The embeddings of all texts of the pairs."""
        originals = {original: self._key(original) for original, _ in pairs}
        vectors = {text: self._originals[key] for text, key in originals.items() if key in self._originals}
        unknown = [text for text in dict.fromkeys(text for pair in pairs for text in pair) if text not in vectors]
        vectors.update(zip(unknown, self._encoder.embed(unknown) if unknown else (), strict=True))
        for text, key in originals.items():
            self._keep(self._originals, key, vectors[text], vectors[text].nbytes)
        return vectors

    def _keep(self, table: dict[bytes, _Vector] | dict[bytes, float], key: bytes, value: object, size: int) -> None:
        if key not in table and self._held_bytes + size + _KEY_BYTES <= _MOST_BYTES:
            table[key] = value  # type: ignore[assignment]
            self._held_bytes += size + _KEY_BYTES

    def _key(self, *texts: str) -> bytes:
        digest = hashlib.blake2b(key=self._salt, digest_size=_KEY_BYTES)
        for text in texts:
            encoded = text.encode("utf-8", "surrogatepass")
            digest.update(len(encoded).to_bytes(8, "little"))
            digest.update(encoded)
        return digest.digest()

    def _read(self, path: Path) -> None:
        """Take over a file of another job; one that is damaged is as good as none."""
        try:
            with np.load(path, allow_pickle=False) as held:
                pairs, originals = _unpacked(held["pairs"]), _unpacked(held["originals"])
                cosines, vectors = held["cosines"], held["vectors"]
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return
        if cosines.shape != (len(pairs),) or len(vectors) != len(originals):
            return
        for key, cosine in zip(pairs, cosines.tolist(), strict=True):
            self._keep(self._cosines, key, cosine, 8)
        for key, vector in zip(originals, vectors, strict=True):
            self._keep(self._originals, key, vector, vector.nbytes)


def _packed(keys: Iterable[bytes]) -> NDArray[np.uint8]:
    return np.frombuffer(b"".join(keys), np.uint8).reshape(-1, _KEY_BYTES)


def _unpacked(keys: NDArray[np.uint8]) -> list[bytes]:
    if keys.dtype != np.uint8 or keys.ndim != 2 or keys.shape[1] != _KEY_BYTES:
        raise ValueError("no keys")
    return [row.tobytes() for row in keys]
