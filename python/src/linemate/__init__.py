"""linemate's answers in Python: the documents of `--json`, and its tables as frames.

Frames are in `linemate.pandas_frames` and `linemate.polars_frames`, which need that library.
"""

from .command import Refused, ask, load
from .documents import (
    AdviceDocument,
    BaselineDocument,
    CaseResults,
    CheckDocument,
    CostsDocument,
    DeclaredDocument,
    DiffDocument,
    DoctorDocument,
    GrowthDocument,
    LayoutDocument,
    MachinesDocument,
    Report,
    SurveyDocument,
    VerifyDocument,
    WhatIfDocument,
)

__all__ = [
    "AdviceDocument",
    "BaselineDocument",
    "CaseResults",
    "CheckDocument",
    "CostsDocument",
    "DeclaredDocument",
    "DiffDocument",
    "DoctorDocument",
    "GrowthDocument",
    "LayoutDocument",
    "MachinesDocument",
    "Refused",
    "Report",
    "SurveyDocument",
    "VerifyDocument",
    "WhatIfDocument",
    "ask",
    "load",
]
