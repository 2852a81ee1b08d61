//! Throw-away.
use linemate_attribution::*;
use linemate_recording::Recording;
use std::collections::BTreeMap;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let rec = Recording::open(std::path::Path::new(&args[1])).unwrap();
    let a = Analysis::new(&rec).unwrap();
    let c = a.count(None).unwrap();
    let names = a.names();
    let mut by: BTreeMap<
        (String, String, String),
        (u64, BTreeMap<String, u64>, u32, u32, BTreeMap<u32, u64>),
    > = BTreeMap::new();
    let ledger = c.tally.ledger();
    for (k, n) in c.tally.rows() {
        let s = &names.subjects()[k.subject.0 as usize];
        if s.bucket.is_typed() {
            continue;
        }
        if matches!(
            s.bucket.group(),
            Group::Stack | Group::Paging | Group::Contents
        ) {
            continue;
        }
        let site = s
            .site
            .and_then(|x| a.symbols().at(x.0 - 1))
            .map(|(x, _)| x.name.clone())
            .unwrap_or_default();
        let f = a
            .symbols()
            .at(k.pc.0)
            .map(|(x, _)| x.name.clone())
            .unwrap_or_else(|| format!("{:#x}", k.pc.0));
        let e = by
            .entry((s.bucket.words().into(), s.label.clone(), site))
            .or_insert((0, BTreeMap::new(), u32::MAX, 0, BTreeMap::new()));
        e.0 += n.count;
        *e.1.entry(f).or_default() += n.count;
        e.2 = e.2.min(k.offset);
        e.3 = e.3.max(k.offset);
        *e.4.entry(k.offset).or_default() += n.count;
    }
    println!(
        "typed {} of {} = {:.2} %",
        ledger.typed(),
        ledger.typable(),
        100.0 * ledger.typed() as f64 / ledger.typable() as f64
    );
    let mut buckets: BTreeMap<String, u64> = BTreeMap::new();
    for (k, v) in &by {
        *buckets.entry(k.0.clone()).or_default() += v.0;
    }
    for (b, n) in buckets {
        println!(
            "  {b}: {n} {:.2} %",
            100.0 * n as f64 / ledger.typable() as f64
        );
    }
    let mut rows: Vec<_> = by.into_iter().collect();
    rows.sort_by_key(|r| std::cmp::Reverse(r.1.0));
    let top: usize = args.get(2).map_or(40, |t| t.parse().unwrap());
    for ((b, l, s), (n, fs, lo, hi, off)) in rows.into_iter().take(top) {
        let mut fs: Vec<_> = fs.into_iter().collect();
        fs.sort_by_key(|f| std::cmp::Reverse(f.1));
        let fs: Vec<String> = fs.iter().take(5).map(|(f, n)| format!("{f} {n}")).collect();
        let mut off: Vec<_> = off.into_iter().collect();
        off.sort_by_key(|f| std::cmp::Reverse(f.1));
        let off: Vec<String> = off
            .iter()
            .take(4)
            .map(|(f, n)| format!("{f}:{n}"))
            .collect();
        println!(
            "{n:>9} {:.2}% [{b}] {l} @{s} {lo}..{hi} ({}) | {}",
            100.0 * n as f64 / ledger.typable() as f64,
            off.join(" "),
            fs.join(", ")
        );
    }
}
