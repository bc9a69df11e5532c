// SPDX-License-Identifier: Apache-2.0
use std::collections::{BTreeMap, HashMap};
use std::thread;

fn work(seed: usize) -> usize {
    let mut rows: HashMap<String, Vec<Box<usize>>> = HashMap::new();
    for i in 0..100_000 {
        rows.entry(format!("k{}", i * seed % 5003))
            .or_default()
            .push(Box::new(i));
    }
    let ordered: BTreeMap<_, _> = rows.into_iter().collect();
    ordered
        .iter()
        .map(|(k, v)| k.len() * v.iter().map(|b| **b % 31).sum::<usize>())
        .sum()
}

fn main() {
    let all: Vec<_> = (3..7).map(|s| thread::spawn(move || work(s))).collect();
    let sums: Vec<usize> = all.into_iter().map(|t| t.join().unwrap()).collect();
    println!("{:?}", sums);
    let caught = std::panic::catch_unwind(|| {
        if sums_are_odd() {
            panic!("thrown")
        }
    });
    println!("{}", caught.is_err());
    std::process::exit(6);
}
fn sums_are_odd() -> bool {
    std::env::args().count() == 1
}
