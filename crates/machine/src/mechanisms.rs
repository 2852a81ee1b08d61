//! The optional tables of a description: prefetchers, and overlapping misses.

use linemate_units::PAGE;
use serde::Deserialize;

use crate::machine::limit;
use crate::whole::whole;
use crate::{L1Stride, L2Streamer, LineSize, MachineError, Overlap};

/// The maximum entries of a prefetcher's table, and lines in flight: far beyond any processor.
const ENTRIES_MAX: u32 = 1024;
/// The maximum number of requests before a prefetcher starts.
const TRAIN_MAX: u32 = 64;
const WINDOW_MAX: u32 = 65_536;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StreamerTable {
    #[serde(deserialize_with = "whole")]
    streams: u32,
    #[serde(deserialize_with = "whole")]
    train: u32,
    #[serde(deserialize_with = "whole")]
    per_request: u32,
    #[serde(deserialize_with = "whole")]
    ahead: u32,
    #[serde(deserialize_with = "whole")]
    outstanding: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StrideTable {
    #[serde(deserialize_with = "whole")]
    entries: u32,
    #[serde(deserialize_with = "whole")]
    train: u32,
    #[serde(deserialize_with = "whole")]
    reach_bytes: u32,
    #[serde(deserialize_with = "whole")]
    outstanding: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OverlapTable {
    #[serde(deserialize_with = "whole")]
    window: u32,
    #[serde(deserialize_with = "whole")]
    outstanding: u32,
}

fn within(key: &'static str, value: u32, least: u32, most: u32) -> Result<u32, MachineError> {
    if value < least {
        return Err(MachineError::TooSmall {
            key,
            value: u64::from(value),
            least: u64::from(least),
        });
    }
    limit(key, u64::from(value), u64::from(most))?;
    Ok(value)
}

impl StreamerTable {
    pub(crate) fn check(&self, line: LineSize) -> Result<L2Streamer, MachineError> {
        // The last line of a page is this far from its first. Neither prefetcher leaves the page.
        let far = (PAGE / line.bytes() - 1) as u32;
        let ahead = within("l2_streamer.ahead", self.ahead, 1, far)?;
        Ok(L2Streamer {
            streams: within("l2_streamer.streams", self.streams, 1, ENTRIES_MAX)?,
            // One request has no direction.
            train: within("l2_streamer.train", self.train, 2, TRAIN_MAX)?,
            per_request: within("l2_streamer.per_request", self.per_request, 1, ahead)?,
            ahead,
            outstanding: within("l2_streamer.outstanding", self.outstanding, 1, ENTRIES_MAX)?,
        })
    }
}

impl StrideTable {
    pub(crate) fn check(&self, line: LineSize) -> Result<L1Stride, MachineError> {
        let (least, most) = (line.bytes() as u32, PAGE as u32 - 1);
        Ok(L1Stride {
            entries: within("l1_stride.entries", self.entries, 1, ENTRIES_MAX)?,
            // Two loads have one stride; three have two that can be equal.
            train: within("l1_stride.train", self.train, 3, TRAIN_MAX)?,
            reach: within("l1_stride.reach_bytes", self.reach_bytes, least, most)?,
            outstanding: within("l1_stride.outstanding", self.outstanding, 1, ENTRIES_MAX)?,
        })
    }
}

impl OverlapTable {
    pub(crate) fn check(&self) -> Result<Overlap, MachineError> {
        Ok(Overlap {
            window: within("overlap.window", self.window, 1, WINDOW_MAX)?,
            outstanding: within("overlap.outstanding", self.outstanding, 1, ENTRIES_MAX)?,
        })
    }
}
