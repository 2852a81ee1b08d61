//! Events: the units that costs are divided by. An event is a call of a function, counted while the
//! guest runs at the function's first instruction, in each of its copies (`f.isra.0`). Inlined
//! calls are not among them.

use linemate_answers::EventCount;
use linemate_recording::{Function, FunctionTable, Role};
use linemate_types::function_of;

/// Why there is no number of calls.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// The recorder did not record all of them.
    #[error("calls of {0} were not counted: record again with `--event {0}` before the command")]
    NotCounted(String),
    /// No call was seen.
    #[error(
        "{0} was never called while this was recorded: name an event that the workload has, or another workload"
    )]
    Never(String),
}

/// Counts the calls of `function`, from those of each function of a table.
pub(crate) fn count_event(
    table: &FunctionTable,
    calls: &[u64],
    function: &str,
) -> Result<EventCount, EventError> {
    let mut event = EventCount {
        function: function.to_owned(),
        ..EventCount::default()
    };
    // Of others a call is recorded only if it shows an object.
    let all = |f: &Function| {
        // These roles are hooked at the first instruction and recorded at each call; the others
        // only when an argument shows an object.
        matches!(f.role, Role::Event | Role::ContextSwitch | Role::Interrupt)
            && function_of(&f.name) == function
    };
    for (number, copy) in table.functions.iter().enumerate() {
        if all(copy) {
            event.symbols.push(copy.name.clone());
            let calls = calls.get(number).copied().unwrap_or(0);
            event.calls = event.calls.saturating_add(calls);
        }
    }
    match (event.symbols.is_empty(), event.calls) {
        (true, _) => Err(EventError::NotCounted(event.function)),
        (false, 0) => Err(EventError::Never(event.function)),
        (false, _) => Ok(event),
    }
}

#[cfg(test)]
mod tests {
    use linemate_recording::GuestAddr;

    use super::*;

    fn table(functions: &[(&str, Role)]) -> FunctionTable {
        let function = |(name, role): &(&str, Role)| Function {
            entry: GuestAddr(0),
            size: 0,
            name: (*name).to_owned(),
            role: *role,
            returns: false,
            parameters: Vec::new(),
        };
        FunctionTable {
            functions: functions.iter().map(function).collect(),
        }
    }

    #[test]
    fn calls_of_all_copies_are_added_up() {
        use Role::{ContextSwitch, Event as All, Plain};
        let table = table(&[
            ("f", All),
            ("g", Plain),
            ("f.isra.0", All),
            ("__switch_to", ContextSwitch),
            ("h", All),
        ]);
        let count = |function| count_event(&table, &[3, 5, 4, 9], function);
        let event = |function: &str, symbols: &[&str], calls| {
            Ok(EventCount {
                function: function.to_owned(),
                symbols: symbols.iter().map(|s| (*s).to_owned()).collect(),
                calls,
            })
        };
        assert_eq!(count("f"), event("f", &["f", "f.isra.0"], 7));
        assert_eq!(
            count("__switch_to"),
            event("__switch_to", &["__switch_to"], 9)
        );
        // Only those calls of `g` are recorded that show an object.
        for absent in ["g", "isra", "nobody", ""] {
            let error = EventError::NotCounted(absent.to_owned());
            assert_eq!(count(absent), Err(error));
        }
        assert_eq!(count("h"), Err(EventError::Never("h".to_owned())));
    }
}
