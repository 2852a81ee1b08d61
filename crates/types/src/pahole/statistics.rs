//! The sums that pahole prints at the end of a struct.

use std::fmt::Write;

use super::{Printer, Style};
use crate::{Composite, Layout};

/// The sums collected while members are printed.
#[derive(Default)]
pub(super) struct LayoutSums {
    pub(super) bytes: u64,
    pub(super) bits: u64,
    pub(super) paddings: u32,
    pub(super) padding_bytes: u64,
    pub(super) forced: u32,
    pub(super) forced_holes: u32,
    pub(super) forced_hole_bytes: u64,
}

impl LayoutSums {
    pub(super) fn forced(&mut self, layout: &Layout, previous: Option<usize>, alignment: u64) {
        if alignment == 0 {
            return;
        }
        self.forced += 1;
        let hole = previous.map_or(layout.first_hole, |p| layout.members[p].hole);
        if hole != 0 {
            self.forced_holes += 1;
            self.forced_hole_bytes += hole;
        }
    }

    pub(super) fn hole_bits(&self, layout: &Layout) -> u64 {
        layout.first_bit_hole + layout.members.iter().map(|m| m.bit_hole).sum::<u64>()
    }
}

impl Printer<'_> {
    pub(super) fn statistics(
        &mut self,
        composite: &Composite,
        layout: &Layout,
        sums: &LayoutSums,
        inner: &Style,
        style: &Style,
    ) {
        let mut lines = vec![format!(
            "size: {}, cachelines: {}, members: {}",
            layout.size,
            layout.lines(self.line),
            composite.members.len()
        )];
        let (hole_bytes, hole_bits) = (layout.hole_bytes(), sums.hole_bits(layout));
        if hole_bytes > 0 || hole_bits > 0 {
            if sums.bytes > 0 {
                let mut text = format!("sum members: {}", sums.bytes);
                if hole_bytes > 0 {
                    let _ = write!(text, ", holes: {}, sum holes: {hole_bytes}", layout.holes);
                }
                lines.push(text);
            }
            if sums.bits > 0 {
                let mut text = format!("sum bitfield members: {} bits", sums.bits);
                let _ = match hole_bits {
                    0 => write!(text, " ({} bytes)", sums.bits / 8),
                    _ => write!(
                        text,
                        ", bit holes: {}, sum bit holes: {hole_bits} bits",
                        layout.bit_holes
                    ),
                };
                lines.push(text);
            }
        }
        if layout.padding > 0 {
            lines.push(format!("padding: {}", layout.padding));
        }
        if sums.paddings > 0 {
            let (count, bytes) = (sums.paddings, sums.padding_bytes);
            lines.push(format!("paddings: {count}, sum paddings: {bytes}"));
        }
        if layout.bit_padding > 0 {
            lines.push(format!("bit_padding: {} bits", layout.bit_padding));
        }
        if sums.forced > 0 {
            let mut text = format!("forced alignments: {}", sums.forced);
            if sums.forced_holes > 0 {
                let (count, bytes) = (sums.forced_holes, sums.forced_hole_bytes);
                let _ = write!(text, ", forced holes: {count}, sum forced holes: {bytes}");
            }
            lines.push(text);
        }
        let last_line = (style.base + layout.size) % self.line.bytes();
        if last_line != 0 {
            lines.push(format!("last cacheline: {last_line} bytes"));
        }
        self.out.push('\n');
        for line in lines {
            self.tabs(inner.indent);
            self.text(format_args!("/* {line} */\n"));
        }
        self.alert(composite, layout, sums, inner);
    }

    /// The unnamed bit-fields with which pahole fills up a struct that is larger than its members,
    /// if it knows that no alignment explains the size.
    pub(super) fn forced_padding(&mut self, composite: &Composite, layout: &Layout, inner: &Style) {
        let model = self.model;
        let Some(last) = composite.members.last() else {
            return;
        };
        let size = model.size_of(last.type_id).unwrap_or(0);
        if !model.has_alignments()
            || composite.alignment != 0
            || !size.is_power_of_two()
            || layout.padding <= u64::from(model.pointer_size())
        {
            return;
        }
        self.out.push('\n');
        self.tabs(inner.indent);
        self.out.push_str("/* Force padding: */\n");
        for _ in 0..layout.padding.div_ceil(size) {
            if self.budget.is_spent(self.out.len()) {
                break;
            }
            self.tabs(inner.indent);
            self.type_text(last.type_id, Some(""), inner.clone());
            self.text(format_args!(":{};\n", size * 8));
        }
    }

    /// pahole's own check that members, holes and padding add up.
    fn alert(&mut self, composite: &Composite, layout: &Layout, sums: &LayoutSums, inner: &Style) {
        let (hole_bytes, hole_bits) = (layout.hole_bytes(), sums.hole_bits(layout));
        let accounted = (sums.bytes + hole_bytes + layout.padding) * 8
            + sums.bits
            + hole_bits
            + layout.bit_padding;
        let difference = i128::from(layout.size * 8) - i128::from(accounted);
        if difference == 0 || composite.members.is_empty() {
            return;
        }
        self.out.push('\n');
        self.tabs(inner.indent);
        self.text(format_args!(
            "/* BRAIN FART ALERT! {} bytes != {} (member bytes) + {} (member bits) + {hole_bytes} \
             (byte holes) + {hole_bits} (bit holes), diff = {difference} bits */\n",
            layout.size, sums.bytes, sums.bits
        ));
    }
}
