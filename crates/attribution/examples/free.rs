//! Throw-away: sightings in objects at a site.
use linemate_attribution::*;
use linemate_recording::*;
use std::collections::BTreeMap;
struct V<'a> {
    rec: &'a Recording,
    names: &'a Names,
    an: &'a Analysis<'a>,
    n: BTreeMap<String, u64>,
    last: Vec<String>,
}
impl Visitor for V<'_> {
    fn access(&mut self, _: &Access) {}
    fn call(&mut self, c: &Call) {
        let f = &self.rec.functions().functions[c.function.0 as usize];
        for (p, v) in f.parameters.iter().zip(&c.values) {
            if let (Meaning::StructPointer(id), Some(v)) = (p.meaning, v) {
                let at = self.names.locate_at(GuestAddr(*v), c.time);
                let s = &self.names.subjects()[at.subject.0 as usize];
                if s.bucket == Bucket::HeapTail && s.label.contains("maple") {
                    *self
                        .n
                        .entry(format!(
                            "{} {:?} {} off {}",
                            f.name,
                            id,
                            self.an
                                .model()
                                .composite(linemate_types::TypeId(id))
                                .map(|c| c.name.to_string())
                                .unwrap_or_default(),
                            at.offset
                        ))
                        .or_default() += 1;
                }
            }
        }
    }
    fn ret(&mut self, _: &Return) {}
    fn marker(&mut self, _: &Marker) {}
}
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let rec = Recording::open(std::path::Path::new(&args[1])).unwrap();
    let a = Analysis::new(&rec).unwrap();
    let mut v = V {
        rec: &rec,
        names: a.names(),
        an: &a,
        n: Default::default(),
        last: vec![],
    };
    let mut d = Decoder::new();
    for c in rec.chunks() {
        rec.visit(c, &mut d, &mut v).unwrap();
    }
    for (k, n) in &v.n {
        println!("{n} {k}");
    }
    for (_, _, at) in a
        .names()
        .objects()
        .filter(|o| {
            let s = &a.names().subjects()[o.2.subject.0 as usize];
            s.label.contains("maple") && s.bucket == Bucket::HeapTail
        })
        .take(3)
    {
        println!("{at:?} {:?}", a.names().subjects()[at.subject.0 as usize]);
    }
}
