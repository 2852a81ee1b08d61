//! Functions whose calls are all recorded, for costs per call.
//!
//! A function is counted at its first instruction, in each of its copies: `f`, `f.isra.0`,
//! `f.constprop.0` are bodies of `f`; `f.cold` is a part that a body jumps to. Code that the
//! compiler inlined into a caller has no entry: its only trace in the symbols is `f.part.0` (the
//! rest of a function whose beginning is in its callers), and such a function is refused.

use std::collections::BTreeSet;

use linemate_recording::{GuestAddr, Role};
use linemate_types::{Symbol, Symbols, TypeModel};

use super::{WatchList, insert, is_kernel_code};

/// Why the calls of a function cannot be counted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventRefusal {
    /// No function has this name.
    #[error(
        "--event {0}: the guest's kernel has no function of that name, or all calls of it are inlined: name one that is called through a pointer or from another source file"
    )]
    Absent(String),
    /// Several functions have this name.
    #[error("--event {0}: the guest's kernel has several functions of that name: name another one")]
    Ambiguous(String),
    /// Its beginning is inlined into its callers.
    #[error(
        "--event {function}: the compiler inlined a part of it into its callers ({part} is the rest), whose calls are not counted: name another function"
    )]
    Split {
        function: String,
        /// The symbol of the rest.
        part: String,
    },
    /// Its calls are recorded per object.
    #[error(
        "--event {0}: it allocates or frees memory, and such calls are recorded per object: name another function"
    )]
    Allocator(String),
}

impl WatchList {
    /// Records all calls of these functions, whatever their parameters. Without types, functions
    /// that share a name are known by their symbols only.
    ///
    /// # Errors
    /// The first of them whose calls cannot be counted.
    pub fn count(
        &mut self,
        types: Option<&TypeModel>,
        symbols: &Symbols,
        events: &[String],
    ) -> Result<(), EventRefusal> {
        for event in events {
            let prototypes = types.into_iter().flat_map(TypeModel::functions);
            let prototypes = prototypes.filter(|(_, name, _)| name.as_str() == event);
            // Static functions of one name: costs per call would be those of just one.
            if prototypes.count() > 1 {
                return Err(EventRefusal::Ambiguous(event.clone()));
            }
            for body in bodies(symbols, event)? {
                self.count_body(symbols, event, body)?;
            }
        }
        Ok(())
    }

    fn count_body(
        &mut self,
        symbols: &Symbols,
        event: &str,
        body: &Symbol,
    ) -> Result<(), EventRefusal> {
        let functions = &mut self.table.functions;
        let at = GuestAddr(body.address);
        match functions.binary_search_by_key(&at, |function| function.entry) {
            Ok(known) => {
                let function = &mut functions[known];
                match function.role {
                    // All of their calls are recorded anyway.
                    Role::ContextSwitch | Role::Interrupt => {}
                    Role::Plain | Role::Event => function.role = Role::Event,
                    _ => return Err(EventRefusal::Allocator(event.to_owned())),
                }
                // At an address with aliases, the user's name is the one in the answers.
                function.name.clone_from(&body.name);
            }
            Err(place) => {
                let mut one = Default::default();
                insert(&mut one, symbols, body, Role::Event, Vec::new());
                functions.splice(place..place, one.into_values());
            }
        }
        Ok(())
    }
}

/// The function's entries: one symbol for each of its copies.
fn bodies<'s>(symbols: &'s Symbols, event: &str) -> Result<Vec<&'s Symbol>, EventRefusal> {
    let of_it = |symbol: &&Symbol| is_kernel_code(symbol) && symbol.function() == event;
    let mut bodies = Vec::new();
    for symbol in symbols.all().iter().filter(of_it) {
        let mut words = symbol.name.split('.').skip(1);
        if words.clone().any(|word| word == "part") {
            return Err(EventRefusal::Split {
                function: event.to_owned(),
                part: symbol.name.clone(),
            });
        }
        // `f.cold` is entered by a jump from a body, which was counted.
        if words.all(|word| word != "cold") {
            bodies.push(symbol);
        }
    }
    let names: BTreeSet<&str> = bodies.iter().map(|symbol| symbol.name.as_str()).collect();
    if bodies.is_empty() {
        return Err(EventRefusal::Absent(event.to_owned()));
    }
    // Copies have different names; equal names are different functions.
    if names.len() < bodies.len() {
        return Err(EventRefusal::Ambiguous(event.to_owned()));
    }
    Ok(bodies)
}
