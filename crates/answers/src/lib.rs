//! The JSON documents that linemate writes and reads: each is declared here and nowhere else, with
//! its schema's name and version.
//!
//! Analysis fills them in, `report` renders them as tables, pages and exported tables consist of
//! them. A new field is added to the schema; a field that changes its meaning or is removed makes a
//! new version. The order of fields is that of the JSON.

mod advice;
mod case;
mod case_compared;
mod check;
mod costs;
mod coverage;
mod declared;
mod diff;
mod doctor;
mod event;
mod evidence;
mod grid;
mod groups;
mod growth;
mod layout;
mod lines;
mod machines;
#[cfg(test)]
mod made;
mod measure;
mod page;
mod prediction;
mod remedies;
mod replayed;
mod report;
mod sets;
mod share;
mod survey;
pub mod tables;
mod type_view;
mod verify;
mod whatif;

pub use advice::{
    AdviceDocument, AdvisedLayout, AdvisedRecording, AlignedObjects, Footprint, FootprintChange,
    FrontPoint, GroupReasons, GrownLayout, KeptApart, LayoutEffect, MemberUse, ProgramSource,
};
pub use case::{
    CaseInputs, CaseResults, Checked, Contended, FoundGroup, FoundType, Measured, Predicted,
    PublishedRow, ReplayedAs,
};
pub use case_compared::{Compared, EventRuns, Figure, Rebuilt, Spread, Verdict};
pub use check::{
    BaselineDocument, BaselineEntry, BrokenRule, CheckDocument, CheckedKernel, DeclaredPlace,
    MendedRule, RulePosition, SkippedRule,
};
pub use costs::{
    Balance, Causes, Cost, Costs, CostsDocument, CpuPlace, CycleSum, HotPlace, MachineCosts,
    PairCost, Potential, UnderCost,
};
pub use coverage::{
    CoverageDocument, CoveredChange, CoveredField, CoveredRecording, FieldFunction, LineSpan,
    NewPair, PairFunction, PairUses,
};
pub use declared::{DeclaredDocument, DeclaredType, GroupUse, MisplacedMember, Misplacement};
pub use diff::{DiffDocument, DiffFigures, DiffSide, MachineDiff};
pub use doctor::{DoctorCheck, DoctorDocument};
pub use event::EventCount;
pub use evidence::{AccessSummary, EditEvidence, FigureChange, GroupEvidence, PatchEvidence};
pub use grid::TimeGrid;
pub use groups::{GroupCosts, LockCost};
pub use growth::{
    GrowthBy, GrowthDocument, GrowthRecording, GrowthRow, HeldOutCheck, HeldOutRow, HeldOutShare,
    Noise, Prediction,
};
pub use layout::{
    ArrayExtent, BitRange, FieldMap, FieldPlace, Heat, KeptLineStart, KernelLayout, LayoutChange,
    LayoutDocument, MemberEntry, TypeLayout,
};
pub use lines::{CellCost, LineCost, LinePair};
pub use machines::{
    CacheSize, LatencyCycles, MachineEntry, MachinesDocument, OverlapEntry, StreamerEntry,
    StrideEntry,
};
pub use measure::{Change, Measure};
pub use page::{Advised, FieldColumns, LineColumns, Page, PageType};
pub use prediction::PredictionError;
pub use remedies::{
    FunctionUse, Gain, Reasons, Remedy, RemedyEffect, RemedyKind, RemedyList, Stake, Trial,
};
pub use replayed::{MachinePlaces, Mixing, WarmUp};
pub use report::{
    By, CpuRow, FieldRow, Figures, FunctionRow, Inputs, LedgerBucket, LedgerGroup, LedgerView,
    LineMember, LineRow, ProgramsShare, Report, Share, SourceRow, TypePlace, TypeRow, View,
};
pub use sets::{CacheSets, SetCounts, SetMeans, SetsChange, TypeSets};
pub use share::{is_large, share};
pub use survey::{Estimate, SurveyDocument, SurveyRow};
pub use type_view::{FieldTimes, GroupRow, LineTimes, Place, TypeTimes, TypeView};
pub use verify::VerifyDocument;
pub use whatif::{
    Ablation, Followed, LlcMisses, MeasuredRow, Paired, TypeSize, UnderChange, WhatIf,
    WhatIfDocument, WorkTime,
};
