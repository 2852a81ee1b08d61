//! What has to be compiled to prove a patch, and the expected result.
//!
//! Builds texts and compares types; the caller compiles.

use std::ops::RangeInclusive;

use linemate_layout::Layout;
use linemate_types::{BitOffset, ByteSize, LineSize, Member, Type, TypeId, TypeModel};

use crate::definition::{Item, Sought};
use crate::dialect::Dialect;
use crate::wanted::inner_names;

/// The name of the variable that keeps the type in the object file.
pub const VARIABLE: &str = "linemate_proof";

/// The name of the struct of [`line_unit`].
const LINE: &str = "linemate_line";

/// What a kernel is compiled for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelTarget {
    /// Below `arch/`.
    pub arch: String,
    /// Whether its pointers have 64 bits.
    pub has_64_bits: bool,
}

/// Headers that a kernel's units include first, so that its other headers rely on them.
const BASIC_HEADERS: [&str; 10] = [
    "linux/kernel.h",
    "linux/sched.h",
    "linux/mutex.h",
    "linux/workqueue.h",
    "linux/hrtimer.h",
    "linux/timerqueue.h",
    "linux/mm.h",
    "linux/fs.h",
    "linux/poll.h",
    "linux/skbuff.h",
];

/// The unit of [`unit()`] for a header of a kernel that does not compile on its own: after those
/// that most of the kernel includes.
pub fn unit_after_basics(path: &str, sought: &Sought) -> String {
    let mut text = String::new();
    for header in BASIC_HEADERS {
        text.push_str(&format!(
            "#if __has_include(<{header}>)\n#include <{header}>\n#endif\n"
        ));
    }
    text + &unit(path, sought)
}

/// A translation unit that contains the type. `path` is the file of the definition, as it is
/// included; a variable of an untagged struct keeps the type alive by itself.
pub fn unit(path: &str, sought: &Sought) -> String {
    let variable = match sought {
        Sought::Tag(tag) => format!("struct {tag} *{VARIABLE};\n"),
        Sought::Typedef(name) => format!("{name} *{VARIABLE};\n"),
        // Nothing can name it: an option makes the compiler describe unused types.
        Sought::Members(_) => String::new(),
        // Its size makes the compiler build it, its pointer has it in the debug information.
        Sought::Item(item) => format!(
            "static const unsigned long {VARIABLE}_size = sizeof({0});\n{0} *{VARIABLE};\n",
            item.full_name
        ),
    };
    include(path) + &variable
}

/// What a kernel's unit ends with: a struct as long as a line of its config, whose alignments are
/// of that many bytes.
pub fn line_unit() -> String {
    format!(
        "#include <linux/cache.h>\nstruct {LINE} {{ char bytes[SMP_CACHE_BYTES]; }} *{LINE}_proof;\n"
    )
}

/// Bytes of a line, of a model that was compiled with [`line_unit`]: a power of two.
pub fn line_bytes(model: &TypeModel) -> Option<u64> {
    let bytes = model.size_of(model.struct_named(LINE)?)?;
    bytes.is_power_of_two().then_some(bytes)
}

/// A unit that has the types that the file itself uses.
pub fn include(path: &str) -> String {
    format!("#include \"{path}\"\n")
}

/// The compiler's flags for a unit of a Linux tree, as its own Makefiles set them if they matter
/// for layouts. `tree` is the sources' root, `build` a folder with `include/generated` and
/// `arch/ARCH/include/generated`.
pub fn kernel_flags(tree: &str, build: &str, target: &KernelTarget) -> Vec<String> {
    let arch = &*target.arch;
    let mut flags: Vec<String> = [
        "-nostdinc",
        "-D__KERNEL__",
        "-DCC_USING_FENTRY",
        "-std=gnu11",
        // From 6.19 on, Linux embeds tagged structs without a member name.
        "-fms-extensions",
        "-fshort-wchar",
        "-funsigned-char",
        "-fno-common",
        "-fno-PIE",
        "-fno-strict-aliasing",
        "-O1",
        "-w",
    ]
    .map(str::to_owned)
    .to_vec();
    let of_arch: &[&str] = match (arch, target.has_64_bits) {
        ("x86", true) => &[
            "-m64",
            "-mno-sse",
            "-mno-80387",
            "-mcmodel=kernel",
            "-mno-red-zone",
        ],
        ("x86", false) => &["-m32", "-mno-sse", "-mno-80387", "-mregparm=3"],
        _ => &[],
    };
    flags.extend(of_arch.iter().map(|&flag| flag.to_owned()));
    for (root, folder) in [
        (tree, format!("arch/{arch}/include")),
        (build, format!("arch/{arch}/include/generated")),
        (tree, "include".to_owned()),
        (build, "include".to_owned()),
        (tree, format!("arch/{arch}/include/uapi")),
        (build, format!("arch/{arch}/include/generated/uapi")),
        (tree, "include/uapi".to_owned()),
        (build, "include/generated/uapi".to_owned()),
    ] {
        flags.push(format!("-I{root}/{folder}"));
    }
    for header in ["compiler-version.h", "kconfig.h", "compiler_types.h"] {
        flags.extend([
            "-include".to_owned(),
            format!("{tree}/include/linux/{header}"),
        ]);
    }
    for macro_name in ["KBUILD_MODFILE", "KBUILD_BASENAME", "KBUILD_MODNAME"] {
        flags.push(format!("-D{macro_name}=\"linemate\""));
    }
    flags.push("-D__KBUILD_MODNAME=linemate".to_owned());
    flags
}

/// Where a compiled struct differs from the expected one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// The object has no such type.
    #[error("the compiled unit has no {0}")]
    NoType(String),
    #[error("member {index} is `{compiled}` in the compiled unit, not `{wanted}`")]
    Member {
        /// Counted from 0.
        index: usize,
        compiled: String,
        /// The expected member.
        wanted: String,
    },
    #[error("`{name}` is at {compiled} in the compiled unit, not at {wanted}")]
    Offset {
        name: String,
        compiled: String,
        /// The expected offset.
        wanted: String,
    },
    /// Another width or size.
    #[error("`{name}` has {compiled} in the compiled unit, not {wanted}")]
    Width {
        name: String,
        compiled: String,
        /// The expected value.
        wanted: String,
    },
    #[error("the compiled unit has no member `{0}`")]
    NoMember(String),
    #[error(
        "whether `{name}` and `{other}` share a line is not as in the edit: rustc puts aligned fields first, so `move` the isolated one first"
    )]
    Lines { name: String, other: String },
    #[error("the struct has {compiled} bytes in the compiled unit, not {wanted}")]
    Size {
        compiled: u64,
        /// The expected size.
        wanted: u64,
    },
}

/// A struct or class as it was compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompiledType {
    pub id: TypeId,
    /// In bytes.
    pub size: u64,
    /// Those that have bytes, in order.
    pub members: Vec<CompiledMember>,
}

/// The type in a compiled unit.
///
/// # Errors
/// If it is missing.
pub fn compiled_type(model: &TypeModel, sought: &Sought) -> Result<CompiledType, Mismatch> {
    let id = match sought {
        Sought::Tag(tag) => model.struct_named(tag),
        Sought::Typedef(name) => model.typedef_named(name).map(|id| model.strip(id)),
        Sought::Item(item) => item_named(model, item),
        Sought::Members(names) => model
            .iter()
            .find(|(_, t)| match t {
                Type::Composite(c) => {
                    c.name.is_empty()
                        && names
                            .iter()
                            .all(|n| c.members.iter().any(|m| *m.name == **n))
                }
                _ => false,
            })
            .map(|(id, _)| id),
    };
    let what = || format!("type with `{}`", sought.needle());
    let found = id.and_then(|id| Some((id, model.composite(id)?)));
    let (id, composite) = found.ok_or_else(|| Mismatch::NoType(what()))?;
    Ok(CompiledType {
        id,
        size: composite.size.into(),
        members: places(model, &composite.members),
    })
}

/// A class or struct by its full name; of Rust without the crate's, which a compiler that is called
/// by hand makes of the file's.
fn item_named(model: &TypeModel, item: &Item) -> Option<TypeId> {
    let inside = |name: &str| name.split_once("::").map(|(_, rest)| rest.to_owned());
    let in_crate = || {
        let wanted = inside(&item.full_name).filter(|_| item.dialect == Dialect::Rust)?;
        let mut named = model.iter().filter(|(_, t)| match t {
            Type::Composite(c) => inside(&c.name).as_ref() == Some(&wanted),
            _ => false,
        });
        named.next().map(|(id, _)| id)
    };
    model.struct_named(&item.full_name).or_else(in_crate)
}

/// Where a member of a compiled type is, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompiledMember {
    /// Its name; of an anonymous one the first inside.
    pub name: String,
    pub start: u64,
    /// The byte after its last.
    pub end: u64,
}

/// The places of those members that have bytes.
fn places(model: &TypeModel, members: &[Member]) -> Vec<CompiledMember> {
    let place = |m: &Member| {
        let start = m.offset.0 / 8;
        let end = match m.bits {
            Some(bits) => (m.offset.0 + u64::from(bits)).div_ceil(8),
            None => start + model.size_of(m.type_id)?,
        };
        let name = match m.name.is_empty() {
            true => inner_names(model, m.type_id).into_iter().next()?,
            false => m.name.to_string(),
        };
        (end > start).then_some(CompiledMember { name, start, end })
    };
    members.iter().filter_map(place).collect()
}

/// Checks that `compiled` (a type of `model`) has exactly the members, places and sizes of
/// `wanted`, a layout of a type of `recorded`, in the order `order`.
///
/// # Errors
/// The first difference.
pub fn compare(
    model: &TypeModel,
    compiled: TypeId,
    recorded: &TypeModel,
    wanted: &Layout,
    order: &[usize],
) -> Result<(), Mismatch> {
    let (Some(compiled), Some(original)) =
        (model.composite(compiled), recorded.composite(wanted.id))
    else {
        return Err(Mismatch::NoType(wanted.id.to_string()));
    };
    // A base class is described before the pointer to the virtual table that precedes it.
    let mut places: Vec<&Member> = compiled.members.iter().collect();
    places.sort_by_key(|member| member.offset);
    let mut order = order.to_vec();
    order.sort_by_key(|member| wanted.offsets.get(*member).copied().flatten());
    for index in 0..order.len().max(places.len()) {
        let there = places.get(index).copied();
        let asked = order.get(index).and_then(|m| original.members.get(*m));
        let (Some(there), Some(asked)) = (there, asked) else {
            return Err(Mismatch::Member {
                index,
                compiled: there.map_or_else(String::new, |member| name(model, member)),
                wanted: asked.map_or("", |m| &*m.name).to_owned(),
            });
        };
        let place = order
            .get(index)
            .and_then(|m| wanted.offsets.get(*m).copied().flatten());
        let there = OneMember {
            model,
            member: there,
            place: Some(there.offset),
        };
        let asked = OneMember {
            model: recorded,
            member: asked,
            place,
        };
        compare_member(index, &there, &asked)?;
    }
    let size = ByteSize(compiled.size.into());
    if size != wanted.size {
        return Err(Mismatch::Size {
            compiled: size.0,
            wanted: wanted.size.0,
        });
    }
    Ok(())
}

/// Checks that the same members share lines as in a layout, whatever the order of the lines, and
/// that the size is the same: rustc orders fields itself.
///
/// # Errors
/// The first member that shares a line with another one than it should.
pub fn compare_lines(
    model: &TypeModel,
    compiled: TypeId,
    recorded: &TypeModel,
    wanted: &Layout,
    line: LineSize,
) -> Result<(), Mismatch> {
    let (Some(there), Some(original)) = (model.composite(compiled), recorded.composite(wanted.id))
    else {
        return Err(Mismatch::NoType(wanted.id.to_string()));
    };
    let lines = |start: u64, bytes: u64| start / line.bytes()..=(start + bytes - 1) / line.bytes();
    let mut places = Vec::new();
    for (member, offset) in original.members.iter().zip(&wanted.offsets) {
        let bytes = recorded.size_of(member.type_id).unwrap_or(0);
        if bytes == 0 {
            // `PhantomData` and the like are on no line.
            continue;
        }
        let asked = lines(offset.map_or(0, |bit| bit.0 / 8), bytes);
        let found = there.members.iter().find(|m| m.name == member.name);
        let found = found.ok_or_else(|| Mismatch::NoMember(member.name.to_string()))?;
        // A wrapper fills its lines: what it holds is at its start.
        places.push((&member.name, asked, lines(found.offset.0 / 8, bytes)));
    }
    let share = |a: &RangeInclusive<u64>, b: &RangeInclusive<u64>| {
        a.start() <= b.end() && b.start() <= a.end()
    };
    for (at, (name, asked, found)) in places.iter().enumerate() {
        let wrong = |(_, a, f): &&(_, RangeInclusive<u64>, RangeInclusive<u64>)| {
            share(asked, a) != share(found, f)
        };
        if let Some((other, ..)) = places[..at].iter().find(wrong) {
            let (name, other) = (name.to_string(), other.to_string());
            return Err(Mismatch::Lines { name, other });
        }
    }
    match ByteSize(there.size.into()) == wanted.size {
        true => Ok(()),
        false => Err(Mismatch::Size {
            compiled: there.size.into(),
            wanted: wanted.size.0,
        }),
    }
}

/// A member that is compared.
struct OneMember<'m> {
    model: &'m TypeModel,
    member: &'m Member,
    place: Option<BitOffset>,
}

impl OneMember<'_> {
    fn name(&self) -> String {
        name(self.model, self.member)
    }

    fn bytes(&self) -> Option<u64> {
        self.model.size_of(self.member.type_id)
    }
}

fn compare_member(
    index: usize,
    there: &OneMember<'_>,
    asked: &OneMember<'_>,
) -> Result<(), Mismatch> {
    let (compiled, wanted) = (there.name(), asked.name());
    if compiled != wanted {
        return Err(Mismatch::Member {
            index,
            compiled,
            wanted,
        });
    }
    if asked.place != there.place {
        return Err(Mismatch::Offset {
            name: wanted,
            compiled: byte(there.place),
            wanted: byte(asked.place),
        });
    }
    // A struct inside can have been edited, too: the places of its neighbours show its size.
    let is_struct = asked.model.composite(asked.member.type_id).is_some();
    let same_size = is_struct || there.bytes() == asked.bytes();
    if there.member.bits == asked.member.bits && same_size {
        return Ok(());
    }
    let compiled = match is_struct {
        true => asked.bytes(),
        false => there.bytes(),
    };
    Err(Mismatch::Width {
        name: wanted,
        compiled: width(there.member.bits, compiled),
        wanted: width(asked.member.bits, asked.bytes()),
    })
}

fn width(bits: Option<u32>, bytes: Option<u64>) -> String {
    match bits {
        Some(bits) => format!("{bits} bits"),
        None => format!("{} bytes", bytes.unwrap_or(0)),
    }
}

fn name(model: &TypeModel, member: &Member) -> String {
    match member.name.is_empty() {
        true => inner_names(model, member.type_id).join(", "),
        false => member.name.to_string(),
    }
}

fn byte(place: Option<BitOffset>) -> String {
    match place {
        Some(BitOffset(bit)) if bit % 8 == 0 => format!("byte {}", bit / 8),
        Some(BitOffset(bit)) => format!("byte {} bit {}", bit / 8, bit % 8),
        None => "no byte".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_for_the_kernels_pointers() {
        let flags = |arch: &str, has_64_bits| {
            let target = KernelTarget {
                arch: arch.to_owned(),
                has_64_bits,
            };
            kernel_flags("/tree", "/build", &target)
        };
        let has = |flags: &[String], flag: &str| flags.iter().any(|f| f == flag);
        let (narrow, wide, other) = (flags("x86", false), flags("x86", true), flags("s390", true));
        assert!(has(&narrow, "-m32") && !has(&narrow, "-m64") && !has(&narrow, "-mcmodel=kernel"));
        assert!(has(&wide, "-m64") && !has(&wide, "-m32"));
        assert!(has(&other, "-I/build/arch/s390/include/generated") && !has(&other, "-m64"));
    }
}
