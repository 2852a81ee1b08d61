//! Compares the printed layout of every struct and union of whole kernels with pahole's own output,
//! byte for byte.
//!
//! The expected form is pahole 1.24's; remarks that newer versions add are removed from their text
//! first (`remarks`). Needs pahole (package `dwarves`) and the kernels that `make setup` puts into
//! the cache; a missing one fails.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use linemate_testkit::btf_writer::{Endian, TypeList, bit_field, member, write};
use linemate_testkit::kernels;
use linemate_testkit::pahole as remarks;
use linemate_types::{
    CompositeKind, FlatType, KernelImage, LineSize, Type, TypeId, TypeModel, btf, pahole,
};

static FILES: AtomicU32 = AtomicU32::new(0);

struct KernelBtf {
    model: TypeModel,
    btf: PathBuf,
}

/// A file that does not exist yet. Tests run in parallel, so each has its own files.
fn file(name: &str) -> PathBuf {
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let name = format!("{name}-{}-{number}.btf", std::process::id());
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Reads a kernel and writes its BTF to a file for pahole.
fn kernel(series: &str) -> KernelBtf {
    kernel_at(&kernels::image(series))
}

fn kernel_at(path: &Path) -> KernelBtf {
    let image = KernelImage::parse(&std::fs::read(path).unwrap()).unwrap();
    let release = image.release.clone().unwrap();
    assert!(
        path.ends_with(format!("vmlinuz-{release}")),
        "{release} is the release of {path:?}"
    );
    let btf = file(&release);
    std::fs::write(&btf, &image.btf).unwrap();
    KernelBtf {
        model: image.types().unwrap(),
        btf,
    }
}

impl Drop for KernelBtf {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.btf);
    }
}

impl KernelBtf {
    fn pahole(&self, arguments: &[&str]) -> String {
        let output = Command::new("pahole")
            .args(["-F", "btf"])
            .args(arguments)
            .arg(&self.btf)
            .output()
            .unwrap_or_else(|e| panic!("pahole cannot be run ({e}): run `make setup`"));
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let text = String::from_utf8(output.stdout).unwrap();
        if remarks::pahole_is_newer() {
            remarks::without_newer(&text)
        } else {
            text
        }
    }
}

/// pahole's output, one piece per type.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let (mut start, mut at) = (0, 0);
    for line in text.split_inclusive('\n') {
        at += line.len();
        if line.starts_with('}') {
            pieces.push(&text[start..at]);
            start = at;
        }
    }
    assert_eq!(start, text.len(), "pahole's output ends with a type");
    pieces
}

fn head(piece: &str) -> &str {
    piece.lines().next().unwrap()
}

/// Compares all named structs and unions, and returns the number of structs and of unions compared.
fn compare_all(kernel: &KernelBtf, line: LineSize) -> (usize, usize) {
    let text = kernel.pahole(&["-c", &line.bytes().to_string()]);
    let mut expected = pieces(&text).into_iter().peekable();
    let mut printer = pahole::Printer::new(&kernel.model, line);
    let (mut structs, mut unions) = (0, 0);
    let mut seen = BTreeSet::new();
    for (id, t) in kernel.model.iter() {
        let Type::Composite(composite) = t else {
            continue;
        };
        if composite.name.is_empty() {
            continue;
        }
        let wanted = format!("{} {} {{", composite.kind.keyword(), composite.name);
        if expected.peek().is_none_or(|piece| head(piece) != wanted) {
            // pahole prints only one of several types with the same name and the same member names.
            assert!(
                seen.contains(&wanted),
                "pahole does not print {wanted}, type {id}"
            );
            continue;
        }
        // pahole calls all floating-point numbers in BTF "single", even doubles.
        let piece = expected
            .next()
            .unwrap()
            .replace("single float", "float       ");
        let piece = piece.replace("single double", "double       ");
        assert_eq!(
            printer.print(id).unwrap(),
            piece,
            "type {id}, lines of {}",
            line.bytes()
        );
        match composite.kind {
            CompositeKind::Struct => structs += 1,
            CompositeKind::Union => unions += 1,
        }
        seen.insert(wanted);
    }
    assert_eq!(
        expected.next(),
        None,
        "pahole prints a type that is not in the model"
    );
    (structs, unions)
}

#[test]
fn every_type_of_6_12_prints_as_pahole_prints_it() {
    let kernel = kernel("6.12.");
    let (structs, unions) = compare_all(&kernel, LineSize::B64);
    println!("6.12: {structs} structs and {unions} unions compared, all identical");
    assert!(
        structs > 8000 && unions > 100,
        "{structs} structs, {unions} unions"
    );
    assert_eq!(compare_all(&kernel, LineSize::B128), (structs, unions));
}

#[test]
fn every_type_of_6_1_prints_as_pahole_prints_it() {
    let kernel = kernel("6.1.");
    let (structs, unions) = compare_all(&kernel, LineSize::B64);
    println!("6.1: {structs} structs and {unions} unions compared, all identical");
    assert!(
        structs > 7000 && unions > 100,
        "{structs} structs, {unions} unions"
    );
    assert_eq!(compare_all(&kernel, LineSize::B128), (structs, unions));
}

#[test]
fn every_type_of_ppc64el_prints_as_pahole_prints_it() {
    let kernel = kernel_at(&kernels::foreign_image("6.12."));
    let (structs, unions) = compare_all(&kernel, LineSize::B128);
    println!("ppc64el: {structs} structs and {unions} unions compared, all identical");
    assert!(
        structs > 7000 && unions > 70,
        "{structs} structs, {unions} unions"
    );
}

#[test]
fn every_type_of_arm64_prints_as_pahole_prints_it() {
    let kernel = kernel_at(&kernels::foreign_image("6.1."));
    let (structs, unions) = compare_all(&kernel, LineSize::B64);
    println!("arm64: {structs} structs and {unions} unions compared, all identical");
    assert!(
        structs > 7000 && unions > 70,
        "{structs} structs, {unions} unions"
    );
}

#[test]
fn a_type_alone_prints_as_pahole_prints_it_alone() {
    let kernel = kernel("6.12.");
    // Lines, holes, bit-fields, flexible arrays, packing, a union, a typedef of an anonymous
    // struct, nothing.
    let names = [
        "rq",
        "task_struct",
        "sk_buff",
        "vm_fault",
        "page",
        "kmem_cache",
        "cfs_rq",
        "lruvec",
        "tcphdr",
        "bpf_insn",
        "fpregs_state",
        "x86_hw_tss",
        "boot_e820_entry",
        "atomic_t",
        "lock_class_key",
        "e820_entry",
    ];
    for name in names {
        let model = &kernel.model;
        let id = model.typedef_named(name).or_else(|| model.lookup(name));
        let id = id.unwrap_or_else(|| panic!("{name} is a type of the kernel"));
        let printed = pahole::print(&kernel.model, id, LineSize::B64).unwrap();
        let expected = kernel.pahole(&["-c", "64", "-C", name]);
        if printed.starts_with("typedef ") && remarks::pahole_is_newer() {
            // 1.30 pads the types of members to eight columns fewer than 1.24 does.
            let words = |text: &str| {
                text.split_whitespace()
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            };
            assert_eq!(words(&printed), words(&expected), "{name}");
        } else {
            assert_eq!(printed, expected, "{name}");
        }
    }
}

#[test]
fn every_field_is_found_at_its_own_offset() {
    let kernel = kernel("6.12.");
    let model = &kernel.model;
    let mut fields = 0;
    for (id, t) in model.iter() {
        if matches!(t, Type::Composite(_)) {
            fields += check_fields(model, id);
        }
    }
    println!("6.12: {fields} fields found again");
    assert!(fields > 100_000, "{fields}");
}

fn check_fields(model: &TypeModel, id: TypeId) -> usize {
    let flat = FlatType::new(model, id).unwrap();
    for leaf in flat.leaves() {
        let hit = flat.find(leaf.offset, leaf.size).unwrap();
        let found = flat.leaf(hit.leaf).unwrap();
        // In a union the first member that covers the access wins, and bit-fields share their
        // bytes.
        assert!(
            hit.covers || leaf.bits.is_some(),
            "type {id}: {} is not covered",
            leaf.path
        );
        assert!(
            found.offset <= leaf.offset,
            "type {id}: {} found as {}",
            leaf.path,
            found.path
        );
    }
    flat.leaves().len()
}

/// Numbers that look random, from a fixed seed (Knuth's MMIX constants).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// A struct of members that follow each other with gaps of any size: bit-fields across their
/// storage units, packed and over-aligned members, embedded structs, arrays of nothing, padding.
fn odd_struct(
    list: &mut TypeList,
    numbers: &mut Numbers,
    number: usize,
    types: &[(TypeId, u64, bool)],
) {
    let mut members = Vec::new();
    let mut bit = 0;
    for index in 0..1 + numbers.below(8) {
        let (type_id, size, scalar) =
            types[usize::try_from(numbers.below(types.len() as u64)).unwrap()];
        let name = format!("m{index}");
        if scalar && numbers.below(2) == 0 {
            let width = 1 + numbers.below(size * 8);
            bit += [0, 0, 0, 1, 5, 9, 40][usize::try_from(numbers.below(7)).unwrap()];
            members.push(bit_field(
                &name,
                type_id,
                bit,
                u32::try_from(width).unwrap(),
            ));
            bit += width;
        } else {
            let alignment =
                [1, size.max(1), size.max(1), 16, 64][usize::try_from(numbers.below(5)).unwrap()];
            let offset = bit.div_ceil(8).next_multiple_of(alignment);
            members.push(member(&name, type_id, offset));
            bit = (offset + size) * 8;
        }
    }
    let size = bit.div_ceil(8) + [0, 0, 1, 4, 17][usize::try_from(numbers.below(5)).unwrap()];
    list.structure(
        &format!("odd{number}"),
        u32::try_from(size).unwrap(),
        &members,
    );
}

#[test]
fn odd_structs_print_as_pahole_prints_them() {
    let mut list = TypeList::default();
    // pahole takes the size of a pointer from that of a long.
    list.unsigned("long unsigned int", 8);
    let scalars = [1u8, 2, 4, 8].map(|size| {
        (
            list.unsigned(&format!("u{}", size * 8), size),
            u64::from(size),
            true,
        )
    });
    let int = scalars[2].0;
    let padded = list.structure(
        "padded",
        8,
        &[member("a", int, 0), member("b", scalars[0].0, 4)],
    );
    let nested = list.structure("", 12, &[member("x", int, 0), member("y", int, 8)]);
    let (none, four) = (list.array(int, 0), list.array(int, 4));
    let mut types = scalars.to_vec();
    types.extend([
        (padded, 8, false),
        (nested, 12, false),
        (none, 0, false),
        (four, 16, false),
    ]);
    types.push((list.pointer(padded), 8, false));
    let mut numbers = Numbers(42);
    for number in 0..2000 {
        odd_struct(&mut list, &mut numbers, number, &types);
    }
    let blob = write(&list.types, Endian::Little).unwrap();
    let kernel = KernelBtf {
        model: btf::parse(&blob).unwrap(),
        btf: file("odd"),
    };
    std::fs::write(&kernel.btf, &blob).unwrap();
    assert_eq!(compare_all(&kernel, LineSize::B64), (2001, 0));
    assert_eq!(compare_all(&kernel, LineSize::B128), (2001, 0));
}

#[test]
fn what_a_newer_pahole_remarks_is_taken_out_and_nothing_else() {
    // As 1.30 prints it, for a synthetic type.
    let newer = "\
struct a {
\tstruct b                   b;                    /*     0     8 */

\t/* XXX last struct has 2 bytes of padding, 1 hole, 3 bit holes */
\t/* XXX 2 bytes hole, try to pack */

\tstruct c                   c;                    /*    10     4 */

\t/* XXX last struct has a flexible array, embedded flexible array(s), 1 bit of padding */

\tstruct {
\t\tint                x;                    /*    16     4 */
\t\tstruct c           y;                    /*    20     4 */

\t\t/* XXX last struct has 1 hole */
\t} d;                                             /*    16     8 */

\t/* XXX last struct has 2 holes */

\t/* size: 24, cachelines: 1, members: 3 */
\t/* sum members: 20, holes: 1, sum holes: 2 */
\t/* member types with holes: 3, total: 4, bit holes: 1, total: 3, bit paddings: 1, total: 1 bit */
\t/* paddings: 1, sum paddings: 2 */
\t/* flexible array members: end: 1, middle: 2 */
\t/* last cacheline: 24 bytes */
};
";
    let older = "\
struct a {
\tstruct b                   b;                    /*     0     8 */

\t/* XXX last struct has 2 bytes of padding */
\t/* XXX 2 bytes hole, try to pack */

\tstruct c                   c;                    /*    10     4 */
\tstruct {
\t\tint                x;                    /*    16     4 */
\t\tstruct c           y;                    /*    20     4 */
\t} d;                                             /*    16     8 */

\t/* size: 24, cachelines: 1, members: 3 */
\t/* sum members: 20, holes: 1, sum holes: 2 */
\t/* paddings: 1, sum paddings: 2 */
\t/* last cacheline: 24 bytes */
};
";
    assert_eq!(remarks::without_newer(newer), older);
    assert_eq!(remarks::without_newer(older), older);
    assert_eq!(remarks::without_newer(&format!("{newer}\n")), older);
    // Remarks that are not known yet stay.
    for unknown in [
        "\t/* XXX last struct has 3 surprises */",
        "\t/* XXX last struct has 1 holes */",
        "\t/* member types with surprises: 3 */",
    ] {
        assert_eq!(remarks::without_newer(unknown), unknown);
    }
}

#[test]
fn versions_of_pahole_are_distinguished() {
    assert_eq!(remarks::version("v1.24\n"), Some((1, 24)));
    assert_eq!(remarks::version("v1.9"), Some((1, 9)));
    assert_eq!(remarks::version("dwarves"), None);
}
