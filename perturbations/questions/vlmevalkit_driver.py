"""Asks models of VLMEvalKit: in its folder and environment, `python THIS_FILE --config config.json --work-dir DIR`."""

from __future__ import annotations

import os
import runpy
from pathlib import Path
from typing import Any

from perturbations.questions.answering import LETTERS, parsed, prompt  # replaced in exports

os.environ.setdefault("PRED_FORMAT", "tsv")  # which every program reads
_FOLDER = Path(__file__).resolve().parent


def _define() -> type:
    """The class of datasets, which VLMEvalKit's configuration names. A dataset is a cell: `NAME.tsv`."""
    import numpy as np
    from PIL import Image
    from vlmeval.dataset.video_base import VideoBaseDataset
    from vlmeval.smp import dump, load

    class PerturbedVideoMCQ(VideoBaseDataset):  # type: ignore[misc]
        TYPE = "Video-MCQ"

        def __init__(self, dataset: str, nframe: int = 0, fps: float = -1) -> None:
            super().__init__(dataset=dataset, nframe=nframe, fps=fps)
            self.nframe, self.fps = nframe, fps
            for name, value in (("nframe", nframe), ("fps", fps)):  # these columns come back with the answers
                self.data[name] = value if value > 0 else ""

        @classmethod
        def supported_datasets(cls) -> list[str]:
            return sorted(path.stem for path in _FOLDER.glob("*.tsv"))

        def prepare_dataset(self, dataset: str) -> dict[str, str]:
            return {"root": str(_FOLDER), "data_file": str(_FOLDER / f"{dataset}.tsv")}

        def build_prompt(self, line: Any, video_llm: bool) -> list[dict[str, str]]:
            row = self.data.iloc[line] if isinstance(line, int) else line
            path = str(_FOLDER / row["video_path"])
            shown = [{"type": "video", "value": path}] if video_llm else self._pictures(path, str(row["video"]))
            return [*shown, {"type": "text", "value": prompt(str(row["question"]), load_options(row))}]

        def _pictures(self, path: str, name: str) -> list[dict[str, str]]:
            """Frames without loss: JPEG would weaken noise. They lie below this dataset's name alone."""
            import decord

            video = decord.VideoReader(path)
            count = self.nframe if self.nframe > 0 else max(1, round(len(video) / video.get_avg_fps() * self.fps))
            places = np.linspace(0, len(video) - 1, count).round().astype(int)
            folder = Path(self.frame_root, name)
            folder.mkdir(parents=True, exist_ok=True)
            files = [folder / f"{place}.png" for place in places]
            for file, place in zip(files, places, strict=True):
                if not file.exists():
                    Image.fromarray(video[int(place)].asnumpy()).save(file)
            return [{"type": "image", "value": str(file)} for file in files]

        @classmethod
        def evaluate(cls, eval_file: str, **_: Any) -> dict[str, float]:
            table = load(eval_file)
            places = [parsed(str(row["prediction"]), load_options(row)) for _, row in table.iterrows()]
            letters = ["" if place is None else LETTERS[place] for place in places]
            table["score"] = [float(own == right) for own, right in zip(letters, table["answer"], strict=True)]
            root, ending = os.path.splitext(eval_file)
            dump(table, f"{root}_score{ending}")
            return {"accuracy": float(table["score"].mean())}

    return PerturbedVideoMCQ


def load_options(row: Any) -> list[str]:
    """The options of a row, which has them as a Python list."""
    import ast

    return [str(option) for option in ast.literal_eval(row["candidates"])]


if __name__ == "__main__":
    import vlmeval.dataset

    vlmeval.dataset.PerturbedVideoMCQ = _define()
    runpy.run_path("run.py", run_name="__main__")
