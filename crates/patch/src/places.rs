//! Where a change puts members under each config.

use linemate_source::message::{ConfigPlaces, MemberPlaces, SizeChange};
use linemate_source::proof::{self, CompiledType};
use linemate_source::summary;
use linemate_types::TypeModel;

use crate::change::Change;
use crate::together::StayTogether;

/// A definition, compiled.
pub(crate) struct Compiled {
    pub(crate) model: TypeModel,
    pub(crate) ty: CompiledType,
}

impl Compiled {
    /// The byte where the first member with one of these names starts.
    fn start(&self, names: &[String]) -> Option<u64> {
        let mut named = self.ty.members.iter().filter(|m| names.contains(&m.name));
        named.next().map(|member| member.start)
    }
}

/// A change on both sides, compiled under one config.
pub(crate) struct BothSides<'c> {
    pub(crate) change: &'c Change,
    pub(crate) unpatched: &'c Compiled,
    pub(crate) patched: &'c Compiled,
}

impl BothSides<'_> {
    /// Bytes of a line: what the unit says, as those of a Linux kernel do, else what was asked for.
    pub(crate) fn line(&self) -> u64 {
        let compiled = proof::line_bytes(&self.patched.model);
        compiled.unwrap_or_else(|| self.change.wanted.line.bytes())
    }

    /// The members that are moved or aligned.
    pub(crate) fn places(&self, config: String, together: &StayTogether) -> ConfigPlaces {
        let (wanted, line) = (&self.change.wanted, self.line());
        let changed = summary::changed(wanted).into_iter();
        let members = changed.map(|member| {
            let names = &wanted.members[member].names;
            let on = |side: &Compiled| side.start(names).map(|start| start / line);
            MemberPlaces {
                name: wanted.members[member].first_name(),
                before: on(self.unpatched),
                after: on(self.patched),
            }
        });
        ConfigPlaces {
            config,
            size: SizeChange {
                line,
                before: self.unpatched.ty.size,
                after: self.patched.ty.size,
            },
            neighbours: together.neighbours(&self.patched.ty.members, line),
            members: members.collect(),
        }
    }
}
