"""What a manifest's rows are, one file per kind. `manifests/README.md` explains every column to users.

The Parquet schema is derived from the types of rows (`perturbations.manifest.schemas`). A field whose type admits None
may be empty; every other one is filled in every row. Standard library only. A new kind is a file that defines `KIND`.
"""

from perturbations.manifest.kind import COMPLETE as COMPLETE
from perturbations.manifest.kind import MISSING as MISSING
from perturbations.manifest.kind import QUARANTINED as QUARANTINED
from perturbations.manifest.kind import ManifestFile as ManifestFile
from perturbations.manifest.kind import QuarantineStage as QuarantineStage
from perturbations.manifest.kind import RowKind as RowKind
from perturbations.manifest.kind import RowStatus as RowStatus
from perturbations.manifest.kind import RowT as RowT
from perturbations.manifest.kinds.analyses import ANALYSES as ANALYSES
from perturbations.manifest.kinds.analyses import AnalysisRow as AnalysisRow
from perturbations.manifest.kinds.captions import CAPTIONS as CAPTIONS
from perturbations.manifest.kinds.captions import CaptionRow as CaptionRow
from perturbations.manifest.kinds.mixes import MIXES as MIXES
from perturbations.manifest.kinds.mixes import MixRow as MixRow
from perturbations.manifest.kinds.multimodal import MULTIMODAL as MULTIMODAL
from perturbations.manifest.kinds.multimodal import MultimodalRow as MultimodalRow
from perturbations.manifest.kinds.qrels import QRELS as QRELS
from perturbations.manifest.kinds.qrels import QrelRow as QrelRow
from perturbations.manifest.kinds.quarantine import QUARANTINE as QUARANTINE
from perturbations.manifest.kinds.quarantine import QuarantineRow as QuarantineRow
from perturbations.manifest.kinds.registry import FILES as FILES
from perturbations.manifest.kinds.registry import KIND_OF as KIND_OF
from perturbations.manifest.kinds.registry import KINDS as KINDS
from perturbations.manifest.kinds.sources import SOURCES as SOURCES
from perturbations.manifest.kinds.sources import CompleteSource as CompleteSource
from perturbations.manifest.kinds.sources import SourceRow as SourceRow
from perturbations.manifest.kinds.text_statistics import TEXT_STATISTICS as TEXT_STATISTICS
from perturbations.manifest.kinds.text_statistics import TextStatisticsRow as TextStatisticsRow
from perturbations.manifest.kinds.texts import TEXTS as TEXTS
from perturbations.manifest.kinds.texts import TextRow as TextRow
from perturbations.manifest.kinds.videos import SOURCE_STORAGE as SOURCE_STORAGE
from perturbations.manifest.kinds.videos import VIDEOS as VIDEOS
from perturbations.manifest.kinds.videos import ClipRow as ClipRow
from perturbations.manifest.kinds.videos import VideoRow as VideoRow
