//! Columns of bytes back to events: the inverse of [`crate::Encoder`].

use linemate_units::{CpuId, GuestAddr};

use crate::cursor::{Cursor, unzigzag};
use crate::encode::{COLUMN_NAMES, COLUMNS, Columns, code, value_code};
use crate::format::{MAX_FUNCTIONS, MAX_INSTRUCTIONS};
use crate::model::{Instructions, Model, SILENT, Site, by_distance, learn_address, region};
use crate::summary::{ChunkSummary, Totals};
use crate::{
    Access, AccessKind, Call, Event, FunctionId, MAX_PARAMETERS, Mark, Marker, Problem, Return,
    VirtualTime,
};

/// Receives the events of a chunk, in order.
pub trait Visitor {
    fn access(&mut self, access: &Access);
    /// A function was entered.
    fn call(&mut self, call: &Call);
    fn ret(&mut self, ret: &Return);
    fn marker(&mut self, marker: &Marker);
}

/// The decoding tables. Reuse one for many chunks: building them is most of the cost of starting.
#[derive(Debug)]
pub struct Decoder {
    model: Model,
    positions: [usize; COLUMNS],
    seen: Totals,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

const CONTROL: usize = 0;
const SITES: usize = 1;
const GAPS: usize = 2;
const ADDRESSES: usize = 3;
const INFO: usize = 4;
const STACKS: usize = 5;
const CODES: usize = 6;
const VALUES: usize = 7;
const RARE: usize = 8;

impl Decoder {
    /// A decoder for any number of chunks, one after another.
    pub fn new() -> Self {
        Self {
            model: Model::new(),
            positions: [0; COLUMNS],
            seen: Totals::default(),
        }
    }

    pub(crate) fn start(&mut self) {
        self.model.start_chunk();
        self.positions = [0; COLUMNS];
        self.seen = Totals::default();
    }

    /// Passes every event of the chunk to `visitor`.
    pub(crate) fn run(
        &mut self,
        columns: &Columns,
        summary: &ChunkSummary,
        instructions: &Instructions,
        visitor: &mut impl Visitor,
    ) -> Result<(), Problem> {
        self.start();
        let mut step = self.resume(columns, instructions);
        while step.next(visitor)? {}
        step.finish(summary)
    }

    /// Continues where the last step of this chunk ended.
    pub(crate) fn resume<'a>(
        &'a mut self,
        columns: &'a Columns,
        instructions: &'a Instructions,
    ) -> Steps<'a> {
        let all = columns.all();
        // Positions, because the cursors borrow the columns and cannot be stored with them.
        let cursors = std::array::from_fn(|i| {
            let rest = all[i].get(self.positions[i]..).unwrap_or_default();
            Cursor::new(rest, COLUMN_NAMES[i])
        });
        Steps {
            model: &mut self.model,
            seen: &mut self.seen,
            instructions,
            cursors,
            positions: &mut self.positions,
            lengths: all.map(Vec::len),
        }
    }
}

/// Steps through a chunk.
pub(crate) struct Steps<'a> {
    model: &'a mut Model,
    seen: &'a mut Totals,
    instructions: &'a Instructions,
    cursors: [Cursor<'a>; COLUMNS],
    positions: &'a mut [usize; COLUMNS],
    lengths: [usize; COLUMNS],
}

impl Steps<'_> {
    /// Decodes one event (or a switch of CPUs, which `visitor` does not see); `false` at the end.
    #[inline]
    pub(crate) fn next(&mut self, visitor: &mut impl Visitor) -> Result<bool, Problem> {
        if self.cursors[CONTROL].left() == 0 {
            return Ok(false);
        }
        let control = self.cursors[CONTROL].u8()?;
        if control & code::SITE_MASK == code::SWITCH {
            self.rare(control, visitor)?;
            return Ok(true);
        }
        // An encoder's chunk starts with a switch; a damaged one may not.
        let Some(cpu) = self.model.cpu else {
            return Err(Problem::Order {
                what: "an event before its CPU:",
                value: control.into(),
            });
        };
        let site = self.site(control)?;
        if site.is_function() {
            self.function(control, site, CpuId(cpu), visitor)?;
        } else {
            let access = self.access(control, site, CpuId(cpu))?;
            visitor.access(&access);
        }
        Ok(true)
    }

    /// Saves the positions for a later [`Decoder::resume`].
    pub(crate) fn pause(self) {
        for (i, cursor) in self.cursors.iter().enumerate() {
            self.positions[i] = self.lengths[i] - cursor.left();
        }
    }

    /// Everything must have been used, and in the promised amount.
    pub(crate) fn finish(&self, summary: &ChunkSummary) -> Result<(), Problem> {
        for cursor in &self.cursors {
            cursor.finish()?;
        }
        // Columns that are used up can still be misread: a wrong site or gap shows in these sums.
        self.seen.compare(&summary.totals)?;
        if self.model.time != summary.last.0 {
            return Err(Problem::Count {
                what: "the chunk's last time",
                stored: summary.last.0,
                found: self.model.time,
            });
        }
        Ok(())
    }

    #[inline]
    fn site(&mut self, control: u8) -> Result<Site, Problem> {
        let expected = self.model.expected;
        if control & (code::SITE_MASK | code::GAP) == 0 {
            // Times in a crafted file may wrap; `verify` checks the order.
            self.model.time = self.model.time.wrapping_add(expected.gaps[0].into());
            return Ok(expected.sites[0]);
        }
        self.unexpected_site(control)
    }

    fn unexpected_site(&mut self, control: u8) -> Result<Site, Problem> {
        let expected = self.model.expected;
        let (site, gap) = match control & code::SITE_MASK {
            0 => (expected.sites[0], expected.gaps[0]),
            code::SECOND_SITE => (expected.sites[1], expected.gaps[1]),
            _ => (self.explicit_site()?, 1),
        };
        let gap = if control & code::GAP == 0 {
            u64::from(gap)
        } else {
            unzigzag(self.cursors[GAPS].varint()?)
        };
        self.model.time = self.model.time.wrapping_add(gap);
        // Before it is learned: a later event that expects this site takes it without this test.
        self.check_site(site)?;
        self.model.learn_successor(site, gap);
        Ok(site)
    }

    fn explicit_site(&mut self) -> Result<Site, Problem> {
        let number = self.cursors[SITES].varint()?;
        let code = if number & 1 != 0 {
            number
        } else {
            // Instructions are numbered as they are first seen, so code that runs together has
            // nearby numbers.
            let index = (self.model.access_site.index() as u64).wrapping_add(unzigzag(number >> 1));
            index.saturating_mul(2)
        };
        let limit = u64::from(u32::MAX - 1);
        match u32::try_from(code) {
            // The largest number is [`NO_SITE`].
            Ok(code) if code != u32::MAX => Ok(Site(code)),
            _ => Err(Problem::TooLarge {
                what: "a site",
                value: code,
                limit,
            }),
        }
    }

    /// Only existing sites may enter the tables, which grow with the highest of them.
    fn check_site(&self, site: Site) -> Result<(), Problem> {
        let number = (site.0 >> 2) as usize;
        let (what, limit) = if site.is_function() {
            ("function", MAX_FUNCTIONS as usize)
        } else {
            (
                "instruction",
                self.instructions.len().min(MAX_INSTRUCTIONS as usize),
            )
        };
        if number >= limit {
            return Err(Problem::Beyond {
                what,
                value: number as u64,
                known: limit as u64,
            });
        }
        Ok(())
    }

    #[inline]
    fn access(&mut self, control: u8, site: Site, cpu: CpuId) -> Result<Access, Problem> {
        // Before the slot, which would grow to any number.
        let pc = self.pc(site)?;
        let (slot, regions) = self.model.access_slot(site);
        let prefer = slot.prefer_distance;
        let addr = match control & code::ADDR_MASK {
            0 if prefer => by_distance(slot, regions),
            0 => slot.last,
            code::ADDR_SECOND => {
                slot.prefer_distance = !prefer;
                if prefer {
                    slot.last
                } else {
                    by_distance(slot, regions)
                }
            }
            mode => {
                let difference = unzigzag(self.cursors[ADDRESSES].varint()?);
                let base = if mode == code::ADDR_FROM_LAST {
                    slot.last
                } else {
                    regions[region(slot.last)]
                };
                base.wrapping_add(difference)
            }
        };
        learn_address(slot, regions, addr);
        if control & code::INFO != 0 {
            let info = self.cursors[INFO].u8()?;
            // The bit belongs to the model; in the file, silence is encoded in the control byte.
            if info & SILENT != 0 {
                return Err(Problem::Unknown {
                    what: "an access size",
                    value: info.into(),
                });
            }
            slot.info = info | slot.info & SILENT;
        }
        if control & code::SILENT_FLIP != 0 {
            slot.info ^= SILENT;
        }
        let (info, silent, next) = (slot.info & !SILENT, slot.info & SILENT != 0, slot.next);
        self.model.expected = next;
        self.model.site = site;
        self.model.access_site = site;
        self.model.last_addr = addr;
        let (size, kind) = unpack_info(info, site)?;
        match kind {
            AccessKind::Load => self.seen.loads += 1,
            AccessKind::Store => self.seen.stores += 1,
            AccessKind::Rmw => self.seen.rmws += 1,
        }
        Ok(Access {
            time: VirtualTime(self.model.time),
            cpu,
            pc,
            addr: GuestAddr(addr),
            size,
            kind,
            silent,
            user_mapping: info & 1 << 5 != 0,
        })
    }

    fn pc(&self, site: Site) -> Result<GuestAddr, Problem> {
        let number = (site.0 >> 2) as usize;
        self.instructions
            .get(number)
            .copied()
            .ok_or(Problem::Beyond {
                what: "instruction",
                value: number as u64,
                known: self.instructions.len() as u64,
            })
    }

    fn function(
        &mut self,
        control: u8,
        site: Site,
        cpu: CpuId,
        visitor: &mut impl Visitor,
    ) -> Result<(), Problem> {
        // If nothing is expected, the site is [`NO_SITE`], which looks like a function's and ends
        // here.
        self.check_site(site)?;
        let time = VirtualTime(self.model.time);
        let function = FunctionId(site.0 >> 2);
        let stack = self.stack(control, site)?;
        if site.0 & 2 == 0 {
            self.seen.calls += 1;
            let caller = self.caller(control, site)?;
            let values = self.values(control, site, MAX_PARAMETERS)?;
            self.close_function_event(site);
            visitor.call(&Call {
                time,
                cpu,
                function,
                stack,
                caller,
                values,
            });
        } else {
            self.seen.returns += 1;
            let values = self.values(control, site, 1)?;
            let Some(value) = values[0] else {
                return Err(Problem::Unknown {
                    what: "a returned value",
                    value: 3,
                });
            };
            self.close_function_event(site);
            visitor.ret(&Return {
                time,
                cpu,
                function,
                stack,
                value,
            });
        }
        Ok(())
    }

    fn close_function_event(&mut self, site: Site) {
        self.model.expected = self.model.function_slot(site).next;
        self.model.site = site;
    }

    fn stack(&mut self, control: u8, site: Site) -> Result<GuestAddr, Problem> {
        if control & code::STACK != 0 {
            let distance = unzigzag(self.cursors[STACKS].varint()?);
            self.model.function_slot(site).stack_distance = distance;
        }
        let distance = self.model.function_slot(site).stack_distance;
        Ok(GuestAddr(self.model.last_addr.wrapping_add(distance)))
    }

    fn caller(&mut self, control: u8, site: Site) -> Result<GuestAddr, Problem> {
        let last = self.model.function_slot(site).caller;
        let by_site = *self.model.caller();
        let caller = if control & code::CALLER != 0 {
            last.wrapping_add(unzigzag(self.cursors[STACKS].varint()?))
        } else if last == 0 {
            0
        } else {
            by_site
        };
        if caller != 0 {
            // Zero is for functions whose callers are not recorded; the table is indexed by the
            // place of the call, which others share.
            *self.model.caller() = caller;
        }
        self.model.function_slot(site).caller = caller;
        Ok(GuestAddr(caller))
    }

    fn values(
        &mut self,
        control: u8,
        site: Site,
        count: usize,
    ) -> Result<[Option<u64>; MAX_PARAMETERS], Problem> {
        if control & code::VALUES != 0 {
            let low = self.cursors[CODES].u8()?;
            let high = self.cursors[CODES].u8()?;
            self.model.function_slot(site).codes = u16::from_le_bytes([low, high]);
        }
        let slot = self.model.function_slot(site);
        let codes = slot.codes;
        let mut last = slot.values;
        let mut values = [None; MAX_PARAMETERS];
        for i in 0..count {
            let value = match codes >> (2 * i) & 3 {
                value_code::NONE => continue,
                value_code::SAME => last[i],
                // It is already in its place: there is nothing to learn.
                value_code::RECENT => self.model.recent_at(self.cursors[VALUES].u8()?),
                _ => {
                    let value = last[i].wrapping_add(unzigzag(self.cursors[VALUES].varint()?));
                    *self.model.recent(value).1 = value;
                    value
                }
            };
            last[i] = value;
            values[i] = Some(value);
        }
        self.model.function_slot(site).values = last;
        Ok(values)
    }

    #[cold]
    fn rare(&mut self, control: u8, visitor: &mut impl Visitor) -> Result<(), Problem> {
        let rare = &mut self.cursors[RARE];
        match control {
            code::SWITCH => {
                let cpu = rare.varint()?;
                let cpu = u16::try_from(cpu).map_err(|_| Problem::TooLarge {
                    what: "a CPU's number",
                    value: cpu,
                    limit: u64::from(u16::MAX),
                })?;
                let difference = unzigzag(rare.varint()?);
                self.model.switch_to(cpu);
                self.model.time = self.model.time.wrapping_add(difference);
            }
            code::MARKER => {
                let Some(cpu) = self.model.cpu else {
                    return Err(Problem::Order {
                        what: "a marker before its CPU:",
                        value: 0,
                    });
                };
                let mark = mark_from(rare.u8()?)?;
                let difference = unzigzag(rare.varint()?);
                let value = rare.varint()?;
                self.model.time = self.model.time.wrapping_add(difference);
                self.seen.markers += 1;
                let time = VirtualTime(self.model.time);
                visitor.marker(&Marker {
                    time,
                    cpu: CpuId(cpu),
                    mark,
                    value,
                });
            }
            other => {
                return Err(Problem::Unknown {
                    what: "a control byte",
                    value: other.into(),
                });
            }
        }
        Ok(())
    }
}

fn mark_from(code: u8) -> Result<Mark, Problem> {
    let marks = [
        Mark::Start,
        Mark::Stop,
        Mark::Idle,
        Mark::Resume,
        Mark::Turn,
        Mark::Space,
        Mark::Page,
    ];
    marks
        .get(usize::from(code))
        .copied()
        .ok_or(Problem::Unknown {
            what: "a mark",
            value: code.into(),
        })
}

/// Size in bytes and kind; the kind must fit the site's half of the instruction.
#[inline]
fn unpack_info(info: u8, site: Site) -> Result<(u8, AccessKind), Problem> {
    let kind = match (info >> 3 & 3, site.0 & 2 != 0) {
        (0, false) => AccessKind::Load,
        (1, true) => AccessKind::Store,
        (2, true) => AccessKind::Rmw,
        _ => {
            return Err(Problem::Unknown {
                what: "an access kind",
                value: info.into(),
            });
        }
    };
    if info & 7 > 6 || info >> 6 != 0 {
        return Err(Problem::Unknown {
            what: "an access size",
            value: info.into(),
        });
    }
    Ok((1 << (info & 7), kind))
}

/// A [`Visitor`] that stores the events.
pub(crate) struct Collect(pub(crate) Vec<Event>);

impl Visitor for Collect {
    #[inline]
    fn access(&mut self, access: &Access) {
        self.0.push(Event::Access(*access));
    }
    fn call(&mut self, call: &Call) {
        self.0.push(Event::Call(call.clone()));
    }
    fn ret(&mut self, ret: &Return) {
        self.0.push(Event::Return(*ret));
    }
    fn marker(&mut self, marker: &Marker) {
        self.0.push(Event::Marker(*marker));
    }
}
