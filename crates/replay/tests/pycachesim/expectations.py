#!/usr/bin/env python3
"""Cache hits of one CPU by an independent simulator: pycachesim (pip install pycachesim==0.3.1).

Prints the table that ../pycachesim.rs compares linemate's replay with; kept as expectations.txt:

    python3 expectations.py > expectations.txt

A row: line bytes, then sets and ways of L1, L2 and L3, per cent of stores, size of the address range in
bytes, number of accesses, seed; then hits in L1, L2, L3 and accesses that reached memory.

The stream is made by SplitMix64 from the seed, here and in ../pycachesim.rs alike. A store is driven as a
load and a store, because pycachesim's store alone does not count as a use of a line that is there.
Below L1 a store that misses is a write-back of a whole line: it allocates without loading.
"""

import sys

from cachesim import Cache, CacheSimulator, MainMemory

MASK = (1 << 64) - 1

GEOMETRIES = [
    # line, L1 sets x ways, L2 sets x ways, L3 sets x ways
    (64, 64, 8, 512, 8, 2048, 16),
    (64, 64, 12, 2048, 16, 4096, 12),
    (64, 1, 4, 1, 8, 1, 16),
    (64, 16, 1, 64, 1, 256, 1),
    (64, 8, 2, 8, 2, 8, 4),
    (128, 32, 8, 256, 8, 1024, 16),
]
STORES = [0, 30, 100]
RANGES = [1 << 15, 1 << 19, 1 << 23]
ACCESSES = 20000


def splitmix(state):
    state = (state + 0x9E3779B97F4A7C15) & MASK
    z = state
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return state, z ^ (z >> 31)


def stream(seed, stores, size, count):
    """(address, is a store): half of them near the one before, as programs do."""
    state, last = seed, 0
    for _ in range(count):
        state, r = splitmix(state)
        far = (r >> 8) % size
        near = (last + (r >> 8) % 512) % size
        last = near if r & 1 else far
        yield last, (r >> 1) % 100 < stores


def simulate(geometry, seed, stores, size, count):
    line, s1, w1, s2, w2, s3, w3 = geometry
    memory = MainMemory()
    l3 = Cache("L3", s3, w3, line, "LRU", write_allocate=False)
    memory.load_to(l3)
    memory.store_from(l3)
    l2 = Cache("L2", s2, w2, line, "LRU", write_allocate=False, store_to=l3, load_from=l3)
    l1 = Cache("L1", s1, w1, line, "LRU", store_to=l2, load_from=l2)
    simulator = CacheSimulator(l1, memory)
    for address, store in stream(seed, stores, size, count):
        simulator.load(address, length=1)
        if store:
            simulator.store(address, length=1)
    return (
        l1.backend.HIT_count,
        l2.backend.HIT_count,
        l3.backend.HIT_count,
        l3.backend.MISS_count,
    )


def main():
    seed = 0
    for geometry in GEOMETRIES:
        for stores in STORES:
            for size in RANGES:
                seed += 1
                counts = simulate(geometry, seed, stores, size, ACCESSES)
                row = (*geometry, stores, size, ACCESSES, seed, *counts)
                print(*row)
    return 0


if __name__ == "__main__":
    sys.exit(main())
