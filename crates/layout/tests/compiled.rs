//! Edited structs with an aligned member, against gcc: the planned layout is what gcc makes of the
//! edited source.
//!
//! Half of the structs have these members in an anonymous struct, between others.
//!
//! Each struct is planned three times: from its offsets alone, as in BTF, where the planner lists
//! the line starts it is in doubt about and the source decides; from the same with the alignments
//! that the object's DWARF declares; and from the DWARF alone, where nothing is in doubt.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use linemate_dwarf::{ProgramFiles, ProgramTypes};
use linemate_layout::{DeclaredError, LineStart, Plan, declared, parse};
use linemate_testkit::btf_writer::{TypeList, member};
use linemate_types::{BitOffset, LineSize, TypeModel};

const STRUCTS: u64 = 16;
const EDITS: u64 = 4;
/// The name of the member that starts a line on purpose.
const ALIGNED: &str = "aligned";

/// A seeded generator: the same structs every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

/// A member: its name, its C type, the bytes of an element, and how many there are.
#[derive(Clone)]
struct Declared {
    name: String,
    element: &'static str,
    bytes: u8,
    count: u32,
}

impl Declared {
    fn source(&self) -> String {
        let array = match self.count {
            1 => String::new(),
            count => format!("[{count}]"),
        };
        let asks = match self.name == ALIGNED {
            true => " __attribute__((aligned(64)))",
            false => "",
        };
        format!("\t{} {}{array}{asks};\n", self.element, self.name)
    }
}

/// A struct of random members.
#[derive(Clone)]
struct Sample {
    /// Whether they are in an anonymous struct, between [`BEFORE`] and [`BEHIND`].
    inside: bool,
    members: Vec<Declared>,
}

/// The members around an anonymous struct: a byte each, so that the second is where it ends.
const BEFORE: &str = "before";
const BEHIND: &str = "behind";

impl Sample {
    fn source(&self) -> String {
        let body: String = self.members.iter().map(Declared::source).collect();
        match self.inside {
            true => format!("\tchar {BEFORE};\n\tstruct {{\n{body}\t}};\n\tchar {BEHIND};\n"),
            false => body,
        }
    }

    fn names(&self) -> Vec<&str> {
        let around: &[&str] = if self.inside { &[BEFORE, BEHIND] } else { &[] };
        let members = self.members.iter().map(|m| m.name.as_str());
        members.chain(around.iter().copied()).collect()
    }
}

/// One line or two of members without a hole, then the aligned one at no cost, then some that leave
/// the last line partly empty.
fn random_struct(dice: &mut Dice) -> Vec<Declared> {
    let mut members = Vec::new();
    let add = |members: &mut Vec<Declared>, (element, bytes, count)| {
        let name = format!("m{}", members.len());
        members.push(Declared {
            name,
            element,
            bytes,
            count,
        });
    };
    for _ in 0..8 * (1 + dice.below(2)) {
        match dice.below(4) {
            0 => add(&mut members, ("long", 8, 1)),
            1 => (0..2).for_each(|_| add(&mut members, ("int", 4, 1))),
            2 => add(&mut members, ("short", 2, 4)),
            _ => {
                add(&mut members, ("int", 4, 1));
                (0..4).for_each(|_| add(&mut members, ("char", 1, 1)));
            }
        }
    }
    let (element, bytes) = [("int", 4), ("long", 8)][dice.below(2)];
    members.push(Declared {
        name: ALIGNED.to_owned(),
        element,
        bytes,
        count: 1,
    });
    for _ in 0..1 + dice.below(5) {
        add(&mut members, ("long", 8, 1));
    }
    members
}

/// Moves a member that is not aligned after any other: the statement, and the members in their new
/// order.
fn random_edit(dice: &mut Dice, members: &[Declared]) -> (String, Vec<Declared>) {
    loop {
        let (from, to) = (dice.below(members.len()), dice.below(members.len()));
        let (moved, anchor) = (members[from].clone(), &members[to]);
        if from == to || moved.name == ALIGNED {
            continue;
        }
        let mut order: Vec<Declared> = members.to_vec();
        order.remove(from);
        let place = order.iter().position(|m| m.name == anchor.name).unwrap();
        let statement = format!("move {} after {}", moved.name, anchor.name);
        order.insert(place + 1, moved);
        return (statement, order);
    }
}

/// Offsets by name, and the size as `sizeof`.
type Places = BTreeMap<String, u64>;

/// What gcc makes of structs, by name; and the object with their debug information.
fn compiled(
    folder: &Path,
    structs: &BTreeMap<String, Sample>,
) -> (BTreeMap<String, Places>, TypeModel) {
    let mut source = "#include <stddef.h>\n#include <stdio.h>\n".to_owned();
    let mut prints = String::new();
    for (name, sample) in structs {
        let body = sample.source();
        writeln!(source, "struct {name} {{\n{body}}} v_{name};").unwrap();
        writeln!(
            prints,
            "printf(\"{name} sizeof %zu\\n\", sizeof(struct {name}));"
        )
        .unwrap();
        for m in sample.names() {
            writeln!(
                prints,
                "printf(\"{name} {m} %zu\\n\", offsetof(struct {name}, {m}));"
            )
            .unwrap();
        }
    }
    writeln!(source, "int main(void) {{\n{prints}return 0;\n}}").unwrap();
    let (file, program) = (folder.join("structs.c"), folder.join("structs"));
    std::fs::write(&file, source).unwrap();
    let status = Command::new("gcc")
        .args(["-g", "-w", "-o"])
        .arg(&program)
        .arg(&file)
        .status();
    assert!(status.unwrap().success());
    let printed = Command::new(&program).output().unwrap().stdout;
    let mut places: BTreeMap<String, Places> = BTreeMap::new();
    for line in String::from_utf8(printed).unwrap().lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let of = places.entry(words[0].to_owned()).or_default();
        of.insert(words[1].to_owned(), words[2].parse().unwrap());
    }
    let bytes = std::fs::read(&program).unwrap();
    let files = ProgramFiles::new(&bytes, None, None).unwrap();
    (places, ProgramTypes::read(&files).unwrap().into_model())
}

/// A struct as in BTF: offsets and a size.
fn without_alignments(name: &str, sample: &Sample, places: &Places) -> TypeModel {
    let mut t = TypeList::default();
    let start = match sample.inside {
        true => places[&sample.members[0].name],
        false => 0,
    };
    let mut fields = Vec::new();
    for m in &sample.members {
        let element = t.unsigned(m.element, m.bytes);
        let id = match m.count {
            1 => element,
            count => t.array(element, count),
        };
        fields.push(member(&m.name, id, places[&m.name] - start));
    }
    if sample.inside {
        let (byte, end) = (t.unsigned("char", 1), places[BEHIND]);
        let inside = t.structure("", (end - start) as u32, &fields);
        fields = vec![
            member(BEFORE, byte, 0),
            member("", inside, start),
            member(BEHIND, byte, end),
        ];
    }
    t.structure(name, places["sizeof"] as u32, &fields);
    TypeModel::new(t.types, 8).unwrap()
}

fn planned(model: &TypeModel, name: &str, edits: &str) -> (Places, Vec<LineStart>) {
    let file = parse(&format!("type {name}\n{edits}\n")).unwrap();
    let mut plan = Plan::new(model, LineSize::B64, &file, &BTreeMap::new()).unwrap();
    let id = model.struct_named(name).unwrap();
    let layout = plan.layouts.of(id).unwrap();
    let mut places = Places::from([("sizeof".to_owned(), layout.size.0)]);
    let members = &model.composite(id).unwrap().members;
    for (m, offset) in members.iter().zip(&layout.offsets) {
        if !m.name.is_empty() {
            places.insert(m.name.to_string(), offset.unwrap().0 / 8);
            continue;
        }
        for inner in &model.composite(m.type_id).unwrap().members {
            let old = BitOffset(m.offset.0 + inner.offset.0).byte();
            places.insert(inner.name.to_string(), layout.moved(old).unwrap().0);
        }
    }
    (places, plan.layouts.line_starts(id).unwrap())
}

/// The edits, with the alignments that `dwarf` declares for the members of `model`.
fn with_declared(
    model: &TypeModel,
    dwarf: &TypeModel,
    name: &str,
    edits: &str,
) -> Result<String, DeclaredError> {
    let mut file = parse(&format!("type {name}\n{edits}\n")).unwrap();
    let mut plan = Plan::new(model, LineSize::B64, &file, &BTreeMap::new()).unwrap();
    file.sections.extend(declared(&mut plan, dwarf)?.sections);
    Ok(file.to_string())
}

#[test]
fn debug_information_of_another_kernel_is_refused() {
    let mut t = TypeList::default();
    let int = t.unsigned("int", 4);
    t.structure("s", 8, &[member("a", int, 0), member("b", int, 4)]);
    let recorded = TypeModel::new(t.types, 8).unwrap();
    let mut t = TypeList::default();
    let int = t.unsigned("int", 4);
    t.structure("s", 8, &[member("b", int, 0), member("a", int, 4)]);
    let other = TypeModel::with_alignments(t.types, 8).unwrap();
    let said = with_declared(&recorded, &other, "s", "move a after b");
    assert_eq!(said, Err(DeclaredError::OtherLayout("s".to_owned())));
    let none = TypeModel::with_alignments(TypeList::default().types, 8).unwrap();
    let said = with_declared(&recorded, &none, "s", "move a after b");
    assert_eq!(said, Err(DeclaredError::NoType("s".to_owned())));
}

#[test]
fn what_is_planned_is_what_gcc_makes_of_the_edited_struct() {
    let mut dice = Dice(19);
    let mut structs = BTreeMap::new();
    let mut edits = Vec::new();
    for number in 0..2 * STRUCTS {
        let (name, inside) = (format!("s{number}"), number >= STRUCTS);
        let members = random_struct(&mut dice);
        for edit in 0..EDITS {
            let (statement, members) = random_edit(&mut dice, &members);
            let edited = format!("{name}_{edit}");
            structs.insert(edited.clone(), Sample { inside, members });
            edits.push((name.clone(), edited, statement));
        }
        structs.insert(name, Sample { inside, members });
    }
    let folder = tempfile::tempdir().unwrap();
    let (gcc, dwarf) = compiled(folder.path(), &structs);
    let (mut held, mut doubted) = (0, 0);
    for (name, edited, statement) in edits {
        let (known, in_doubt) = planned(&dwarf, &name, &statement);
        assert_eq!(
            (known, in_doubt),
            (gcc[&edited].clone(), Vec::new()),
            "DWARF, {name}: {statement}"
        );
        let model = without_alignments(&name, &structs[&name], &gcc[&name]);
        let settled = with_declared(&model, &dwarf, &name, &statement).unwrap();
        let (places, in_doubt) = planned(&model, &name, &settled);
        assert_eq!(
            (places, in_doubt),
            (gcc[&edited].clone(), Vec::new()),
            "{settled}"
        );
        let mut said = statement.clone();
        let places = loop {
            let (places, starts) = planned(&model, &name, &said);
            held += usize::from(starts.iter().any(|s| s.member == ALIGNED && s.kept));
            // The source has no alignment there.
            let Some(wrong) = starts.iter().find(|s| s.kept && s.member != ALIGNED) else {
                break places;
            };
            doubted += 1;
            writeln!(said, "\n{}", wrong.otherwise).unwrap();
        };
        assert_eq!(places, gcc[&edited], "{name}: {said}");
    }
    assert!(
        held > 10 && doubted > 0,
        "{held} held, {doubted} in doubt: other structs are needed"
    );
}
