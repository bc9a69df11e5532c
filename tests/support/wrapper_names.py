# SPDX-License-Identifier: Apache-2.0
"""Functions and modules that ask for memory on behalf of their callers, and others with names alike."""

WRAPPERS = [
    "xmalloc", "my_strdup", "sqlite3MallocZero", "pool_alloc_n", "Pool<long>::alloc", "(anonymous namespace)::xmalloc",
    "operator new(unsigned long)", "std::vector<Own>::push_back(Own const&)", "void std::vector<int>::_M_insert<int>(int)",
    "std::function<void ()>::operator()() const", "<alloc::vec::Vec<T> as core::iter::FromIterator<T>>::from_iter",
    "<u8 as alloc::vec::spec_from_elem::SpecFromElem>::from_elem", "<[u8] as alloc::slice::ToOwned>::to_vec",
    "<&mut F as core::ops::FnOnce<A>>::call_once", "<Own as core::alloc::GlobalAlloc>::alloc", "__rdl_alloc", "__rustc::__rust_start_panic", "__gnu_cxx::new_allocator<int>::allocate",
]

OTHERS = [
    "fill(int)", "Registry<int, std::string>::add", "void Registry<int, std::string>::add(std::string)", "std::vector<int> make(std::vector<int>)",
    "Own& operator<<(std::ostream&, Own)", "Own::operator new(unsigned long)", "<app::Cache<u32, alloc::string::String>>::insert",
    "<app::Gen as core::iter::Iterator>::next", "<Gen as core::iter::Iterator>::next", "allocator::Own::run", "Own::get() const",
    "run(int) [clone .isra.0]", "main::{closure#0}", "keep(std::pair<int, int> (*)(long))", "alloc_table::find", "mystd::put",
]

LIBRARY_FILES = [
    "/usr/include/c++/12/bits/unique_ptr.h", "/rustc/90c541806f23a127002de5b4038be731ba1458ca/library/alloc/src/vec/mod.rs",
    "/usr/lib/rustlib/src/rust/library/core/src/iter.rs", "/root/.cargo/registry/src/index/hashbrown-0.14.3/src/raw/mod.rs",
]

RUNTIME_MODULES = [
    "/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc-2.31.so", "/lib64/ld-linux-x86-64.so.2", "/lib/ld-musl-x86_64.so.1", "/lib/libc.musl-x86_64.so.1",
    "/usr/lib/libstdc++.so.6.0.30", "/usr/lib/libc++.so.1", "/usr/lib/libc++abi.so.1", "libpthread-2.31.so", "libdl.so.2",
]

PROGRAM_MODULES = ["/usr/lib/libcrypt.so.1", "/usr/lib/libcurl.so.4", "/usr/bin/ld", "/opt/libc/app", "/usr/lib/librtmp.so.1", "/usr/lib/libc-client.so.2", "ld-tool"]


OPT_MODULES = ["app", "tree", "few", "minor", "lib.so"]


def nameless_stacks() -> list[tuple[list[str], str]]:
    """Stacks without names, and the frame that is their call site."""
    def of(module: str, *offsets: int) -> list[str]:
        return [f"/opt/{module}+0x{offset:x}" for offset in offsets]

    wrapped = [(of("app", 0x10, 0x20, 0x100 + n, 0x900), f"app+0x{0x100 + n:x}") for n in range(9)]
    # One function that calls itself makes a tree.
    recursive = [(of("tree", 0x10, *[0x30 + depth % 2] * depth, 0x50), "tree+0x10") for depth in range(12)]
    few = [(of("few", 0x10, 0x100 + n), "few+0x10") for n in range(7)]
    # Eight callers, but of a minority of the stacks.
    minor = [(of("minor", 0x10, 0x100 + n), "minor+0x10") for n in range(8)] + [(of("minor", 0x200 + n), f"minor+0x{0x200 + n:x}") for n in range(8)]
    # A library without names within a program that has them.
    library = [([*of("lib.so", 0x10), f"use{n}@main.c:{n + 1}", "main@main.c:99"], f"use{n}") for n in range(8)]
    return [*wrapped, *recursive, *few, *minor, *library]
