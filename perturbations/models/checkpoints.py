"""What all pretrained models share: finding and loading a checkpoint, its identity in manifests, device and dtype.

Nothing here uses the network. A checkpoint is a folder, or a hub name that was downloaded before.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from perturbations.base.errors import BackendError, ConfigError, first_line

if TYPE_CHECKING:
    import torch
    from torch import nn
    from transformers import PreTrainedModel

_DTYPES = ("float32", "bfloat16", "float16")


_PartT = TypeVar("_PartT")
"""A tokenizer or an image processor of transformers."""
_ModelT = TypeVar("_ModelT", bound="PreTrainedModel")


@dataclass(frozen=True)
class Checkpoint:
    """Weights on this machine.

    Attributes:
        name: as in the configuration; for a folder only the last part of its path, because its place changes no result.
        revision: the hub's commit hash, or `sha256:` and the hash of the folder's weight files.
        folder: where the files are.
    """

    name: str
    revision: str
    folder: Path


def library(name: str, *, package: str | None = None) -> ModuleType:
    """The imported module `name`. Raises `ConfigError`, which names the package to install."""
    try:
        return importlib.import_module(name)
    # Compiled libraries of incompatible versions fail with OSError or RuntimeError.
    except (ImportError, OSError, RuntimeError) as error:
        raise ConfigError(
            f"{name} cannot be imported ({error}); this backend needs it: pip install {package or name}"
        ) from error


def runtime(device: str, dtype: str) -> tuple[torch.device, torch.dtype]:
    """The torch.device and torch.dtype of these names; sets torch to deterministic algorithms.

    Args:
        device: "cpu", "cuda" or "cuda:N".
        dtype: "float32", "bfloat16" or "float16".

    Raises:
        ConfigError: torch is missing, a name is unknown, or this machine has no such device.
    """
    if dtype not in _DTYPES:
        raise ConfigError(f"dtype {dtype!r} is unknown; allowed: {', '.join(_DTYPES)}")
    kind, _, index = device.partition(":")
    if kind not in ("cpu", "cuda") or (":" in device and not (kind == "cuda" and index.isdecimal())):
        raise ConfigError(f"device {device!r} is unknown; allowed: cpu, cuda, cuda:N")
    # cuBLAS reads this once, when the first context is created.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch = library("torch")
    if kind == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if int(index or 0) >= count:
            raise ConfigError(f"device {device!r} is not available, torch sees {count} CUDA devices; use device: cpu")
        torch.backends.cudnn.benchmark = False
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cuda.matmul.allow_tf32 = False
    else:
        # Sums depend on the number of threads.
        torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    return torch.device(device), getattr(torch, dtype)


def find_checkpoint(model: str, revision: str | None) -> Checkpoint:
    """The checkpoint `model` on this machine.

    Args:
        model: a folder, or a hub name whose files the hub's cache holds.
        revision: a commit hash, tag or branch of a hub name, None for its main branch; for a folder None or the
            `sha256:...` that its weights must have.

    Raises:
        ConfigError: it is not here, with the command that fetches it; or the folder's weights have another hash.
    """
    folder = Path(model).expanduser()
    if folder.is_dir():
        return _folder_checkpoint(folder.resolve(), revision)
    hub = library("huggingface_hub")
    try:
        folder = Path(hub.snapshot_download(model, revision=revision, local_files_only=True))
    except (OSError, ValueError) as error:
        fetch = f"fetch it before: hf download {model}" + (f" --revision {revision}" if revision else "")
        way = "there is no such folder" if model.startswith(("/", ".", "~")) or model.count("/") > 1 else fetch
        raise ConfigError(
            f"model {model!r} is not on this machine, and nothing is downloaded during a run; {way}"
        ) from error
    return Checkpoint(model, folder.name, folder)


def load_model(
    model_class: type[_ModelT], checkpoint: Checkpoint, *, device: torch.device | str, dtype: torch.dtype
) -> _ModelT:
    """`model_class` with the checkpoint's weights, for inference only.

    Raises:
        ConfigError: it is another kind of model, or weights are missing, damaged or not in safetensors (whose loading
            runs no code from the file).
    """
    assert model_class.config_class is not None  # only the abstract classes of transformers have none
    expected, actual = model_class.config_class.model_type, str(read_config(checkpoint)["model_type"])
    if actual != expected:
        raise _broken(checkpoint, model_class.__name__, f"it is {actual!r}, not {expected!r}")
    try:
        loaded = model_class.from_pretrained(
            checkpoint.folder,
            dtype=dtype,
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    except Exception as error:  # the library's classes check little: nonsense can make them raise anything
        raise _broken(checkpoint, model_class.__name__, first_line(error)) from error
    model, report = cast(tuple[_ModelT, Mapping[str, Collection[str]]], loaded)
    # The library fills gaps with random numbers and a warning; captions and boxes would look plausible.
    if report["missing_keys"]:
        missing = sorted(report["missing_keys"])
        reason = f"{len(missing)} weights are missing, {missing[0]} the first"
        raise _broken(checkpoint, model_class.__name__, reason)
    model.requires_grad_(False).train(False)
    cast("nn.Module", model).to(device)  # the override of transformers is untyped
    return model


def load_part(part_class: type[_PartT], checkpoint: Checkpoint) -> _PartT:
    """A tokenizer or image processor from the checkpoint's folder; ConfigError where files are missing or damaged."""
    try:
        part: _PartT = cast("Any", part_class).from_pretrained(
            checkpoint.folder, local_files_only=True, trust_remote_code=False
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RuntimeError, ImportError) as error:
        raise _broken(checkpoint, part_class.__name__, first_line(error)) from error
    return part


def pretrained(auto_class: Any, name: str) -> Any:
    """A model or tokenizer for captions: a folder, or a hub name that was downloaded before.

    Raises `BackendError` with advice where it is neither, is damaged, or asks to run code.
    """
    try:
        checkpoint = find_checkpoint(name, None)
        read_config(checkpoint)
        return load_part(auto_class, checkpoint)
    except ConfigError as error:
        raise BackendError(f"{error}; or use the backend `offline`") from error


def find_weights(*names: str) -> None:
    """Raise `BackendError`, with the way to get them, where models are neither folders nor in the local cache."""
    commands = ", ".join(f"`hf download {name}`" for name in names if local_folder(name, None) is None)
    if commands:
        raise BackendError(f"neither a folder nor downloaded: {commands}")


def local_folder(name: str, revision: str | None) -> Path | None:
    """A model's folder, or its folder in the hub's cache; None where the model is not on this machine.

    Raises `ValueError` for an invalid name of the hub, and `ImportError` where huggingface_hub is not installed.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    from huggingface_hub import try_to_load_from_cache

    place = try_to_load_from_cache(name, "config.json", revision=revision)
    return Path(place).parent if isinstance(place, str) else None


def load_tokenizer(auto_class: type[_PartT], checkpoint: Checkpoint) -> _PartT:
    """The checkpoint's byte-pair tokenizer.

    Raises:
        ConfigError: its files are missing; the library would silently make a tokenizer with an empty vocabulary.
    """
    folder = checkpoint.folder
    if not (folder / "tokenizer.json").is_file():
        for name in ("vocab.json", "merges.txt"):
            if not (folder / name).is_file():
                raise _broken(checkpoint, "a tokenizer", f"neither tokenizer.json nor {name} is there")
    return load_part(auto_class, checkpoint)


def identity(model: PreTrainedModel, checkpoint: Checkpoint) -> dict[str, str]:
    """What a manifest records of a model: name, revision, dtype, device type and the library's version."""
    return {
        "name": checkpoint.name,
        "revision": checkpoint.revision,
        "dtype": str(model.dtype).removeprefix("torch."),
        "device": str(model.device.type),
        "transformers": str(library("transformers").__version__),
    }


def setting(model: PreTrainedModel, part: str, name: str) -> int:
    """A whole number in a part of a model's configuration, such as `hidden_size` in `vision_config`."""
    return int(getattr(getattr(model.config, part), name))


def files_sha256(paths: list[Path], root: Path) -> str:
    """`sha256:` and the hash over names relative to `root`, sizes and contents; the order of `paths` does not count."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(f"{path.relative_to(root).as_posix()}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return f"sha256:{digest.hexdigest()}"


def read_config(checkpoint: Checkpoint) -> dict[str, Any]:
    """A model's `config.json`.

    Raises:
        ConfigError: it is missing or not JSON, has no model type, or asks for code from a hub.
    """
    # The library replaces a missing file by its defaults, which are the largest model.
    try:
        config = json.loads((checkpoint.folder / "config.json").read_bytes())
        if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
            raise ValueError("no `model_type`")
    except (OSError, ValueError, RecursionError) as error:
        raise _broken(checkpoint, "a model", f"config.json does not say what it is ({first_line(error)})") from error
    # Attention can be the name of a kernel on a hub: the library then fetches and runs its code.
    for part in (config, *(value for value in config.values() if isinstance(value, dict))):
        for key, value in part.items():
            if "implementation" in key and isinstance(value, str) and value not in _ATTENTION:
                raise _broken(checkpoint, "a model", f"config.json asks for the code {key}: {value!r}")
    return config


_ATTENTION = ("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention", "grouped_mm", "batched_mm")


def read_weights(path: Path) -> dict[str, torch.Tensor]:
    """Named tensors of a .safetensors file, or of a torch file, bare or under `state_dict`; its code does not run.

    Raises:
        ConfigError: the file is missing or damaged, or holds something that only loads by running its code.
    """
    torch = library("torch")
    if not path.is_file():
        raise ConfigError(f"no checkpoint at {path}; download it and put it there, or name its place")
    try:
        if path.suffix == ".safetensors":
            held = library("safetensors.torch", package="safetensors").load_file(path)
        else:
            held = torch.load(path, map_location="cpu", weights_only=True)
    except library("safetensors").SafetensorError as error:
        raise ConfigError(f"{path} cannot be read as safetensors ({error}); download it again") from error
    # A damaged or forged pickle can make the reader raise anything.
    except Exception as error:
        raise ConfigError(
            f"{path} cannot be read as weights only ({first_line(error)}). Fetch it again if it is damaged; if it "
            "holds more than tensors, save its `state_dict` alone, on a machine where you trust it: "
            "torch.save({'state_dict': ...})"
        ) from error
    state = held.get("state_dict", held) if isinstance(held, Mapping) else None
    if not isinstance(state, Mapping) or not state or not all(isinstance(it, torch.Tensor) for it in state.values()):
        raise ConfigError(f"{path} holds no named weights; expected a dictionary of tensors, bare or as `state_dict`")
    return {str(name): value for name, value in state.items()}


def _folder_checkpoint(folder: Path, revision: str | None) -> Checkpoint:
    weights = list(folder.glob("*.safetensors"))
    if not weights:
        raise ConfigError(f"model folder {folder} holds no *.safetensors file; {_how_to_convert(folder)}")
    actual = files_sha256(weights, folder)
    if revision is not None and revision != actual:
        raise ConfigError(f"model folder {folder} has revision {actual}, the configuration says {revision}")
    return Checkpoint(folder.name, actual, folder)


def _how_to_convert(folder: Path) -> str:
    """Advice for a folder with other weights; the command copies tensors, because some files share their memory."""
    weights = sorted(path.name for path in folder.glob("*.bin"))
    if len(weights) != 1:
        return "other formats are not loaded"
    program = (
        "import torch, safetensors.torch as s; "
        f"w = torch.load({weights[0]!r}, map_location='cpu', weights_only=True); "
        "s.save_file({k: v.clone().contiguous() for k, v in w.items()}, 'model.safetensors', {'format': 'pt'})"
    )
    return f'convert {weights[0]} once, inside that folder: python -c "{program}"'


def _broken(checkpoint: Checkpoint, what: str, reason: str) -> ConfigError:
    return ConfigError(
        f"model {checkpoint.name!r} in {checkpoint.folder} cannot be loaded as {what}: {reason}; "
        f"if files are missing or damaged, {how_to_replace(checkpoint)}"
    )


def how_to_replace(checkpoint: Checkpoint) -> str:
    """The command that restores all files of a model; only a name of the hub can be downloaded."""
    if checkpoint.name == checkpoint.folder.name:  # a folder of the user's, which the hub's cache names by commits
        return "copy the whole folder again from where it came"
    return f"fetch it again: hf download {checkpoint.name}"
