//! Call frame information: where the canonical frame address is.

use gimli::{BaseAddresses, CfaRule, CieOrFde, DebugFrame, EhFrame, UnwindContext, UnwindSection};

use linemate_types::ElfAddr;

use super::facts::Register;
use crate::ProgramFiles;
use crate::sections::DwarfBytes;

/// The frames of a program, by address.
pub(crate) struct FrameTable<'d> {
    eh_frame: Section<EhFrame<DwarfBytes<'d>>>,
    debug_frame: Section<DebugFrame<DwarfBytes<'d>>>,
}

struct Section<S: UnwindSection<R>, R: gimli::Reader = <S as HasReader>::R> {
    section: S,
    bases: BaseAddresses,
    /// First address, end, and position of the description, by address.
    entries: Vec<(u64, u64, S::Offset)>,
}

/// The reader of a section, named once.
trait HasReader {
    type R: gimli::Reader;
}

impl<'d> HasReader for EhFrame<DwarfBytes<'d>> {
    type R = DwarfBytes<'d>;
}

impl<'d> HasReader for DebugFrame<DwarfBytes<'d>> {
    type R = DwarfBytes<'d>;
}

impl<'d> FrameTable<'d> {
    /// Finds the descriptions.
    pub(crate) fn new(files: &'d ProgramFiles<'_>) -> FrameTable<'d> {
        let (bytes, bases) = files.eh_frame();
        let mut eh_frame = EhFrame::from(bytes);
        eh_frame.set_address_size(8);
        let (bytes, debug_bases) = files.debug_frame();
        let mut debug_frame = DebugFrame::from(bytes);
        debug_frame.set_address_size(8);
        FrameTable {
            eh_frame: Section::new(eh_frame, bases),
            debug_frame: Section::new(debug_frame, debug_bases),
        }
    }

    /// The register that the canonical frame address is relative to when the instruction at `pc`
    /// starts, and the offset.
    pub(crate) fn cfa(&self, pc: ElfAddr) -> Option<(Register, i64)> {
        // A program may have either section for a function, or both: they agree.
        self.debug_frame.cfa(pc).or_else(|| self.eh_frame.cfa(pc))
    }
}

impl<'d, S: UnwindSection<DwarfBytes<'d>> + HasReader<R = DwarfBytes<'d>>> Section<S> {
    fn new(section: S, bases: BaseAddresses) -> Self {
        let mut found = Vec::new();
        let mut entries = section.entries(&bases);
        // Everything after a broken description is lost: nothing shows where the next one starts.
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(partial) = entry else {
                continue;
            };
            let offset = partial.offset();
            let parsed = partial.parse(|section, bases, at| section.cie_from_offset(bases, at));
            if let Ok(fde) = parsed {
                found.push((
                    fde.initial_address(),
                    fde.end_address(),
                    S::Offset::from(offset),
                ));
            }
        }
        found.sort_by_key(|(start, end, _)| (*start, *end));
        Section {
            section,
            bases,
            entries: found,
        }
    }

    fn cfa(&self, pc: ElfAddr) -> Option<(Register, i64)> {
        let index = self.entries.partition_point(|(start, _, _)| *start <= pc.0);
        // Functions do not overlap, so only the last one that starts before `pc` can contain it.
        let (_, end, offset) = self.entries.get(index.checked_sub(1)?)?;
        if *end <= pc.0 {
            return None;
        }
        let fde = self
            .section
            .fde_from_offset(&self.bases, *offset, S::cie_from_offset)
            .ok()?;
        let mut context = UnwindContext::new();
        let row = fde.unwind_info_for_address(&self.section, &self.bases, &mut context, pc.0);
        match row.ok()?.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => Some(((*register).into(), *offset)),
            CfaRule::Expression(_) => None,
        }
    }
}
