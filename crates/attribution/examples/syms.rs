//! Throw-away: caches with refcounts.
use linemate_types::btf;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let rec = linemate_recording::Recording::open(std::path::Path::new(&args[1])).unwrap();
    let model = btf::parse(&rec.btf().unwrap()).unwrap();
    let id = model.struct_named("kmem_cache").unwrap();
    let c = model.composite(id).unwrap();
    let off = |n: &str| {
        c.members
            .iter()
            .find(|m| m.name.as_str() == n)
            .map(|m| m.offset.0 / 8)
            .unwrap_or(9999) as usize
    };
    let (r, n, os, sz) = (
        off("refcount"),
        off("name"),
        off("object_size"),
        off("size"),
    );
    let infos = rec.images().unwrap();
    let size = model.size_of(id).unwrap() as usize;
    let all: Vec<(u64, Vec<u8>)> = infos
        .iter()
        .take(8000)
        .map(|i| (i.addr.0, rec.image(i).unwrap()))
        .collect();
    for (_, b) in all.iter().filter(|(_, b)| b.len() == size) {
        let u = |o: usize| u32::from_le_bytes(b[o..o + 4].try_into().unwrap());
        let na = u64::from_le_bytes(b[n..n + 8].try_into().unwrap());
        let name = all
            .iter()
            .find(|(a, _)| *a == na)
            .map(|(_, b)| String::from_utf8_lossy(b).to_string())
            .unwrap_or_default();
        println!(
            "{} obj {} size {} ref {}",
            name.trim_end_matches('\0'),
            u(os),
            u(sz),
            u(r) as i32
        );
    }
}
