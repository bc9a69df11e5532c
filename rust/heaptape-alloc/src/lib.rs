// SPDX-License-Identifier: Apache-2.0
//! Hands each call of the program's global allocator to heaptape's recorder, if that is preloaded.
//!
//! ```ignore
//! #[global_allocator]
//! static GLOBAL: heaptape_alloc::Record<Jemalloc> = heaptape_alloc::Record::new(Jemalloc);
//! ```
//!
//! An allocator that is linked into the program cannot be reached by `LD_PRELOAD`. With these lines
//! `heaptape record ./program` sees its calls, also where the program is stripped. Without the recorder a call costs one
//! load and one branch more. The crate links nothing: it looks the recorder up once, by `dlsym`.
//!
//! The recorder's interface is `shim/hooks/heaptape_recorder.h`, described in docs/reference/linked-allocators.md.
#![no_std]
#![deny(missing_docs, unsafe_op_in_unsafe_fn)]

#[cfg(test)]
extern crate std;

mod recorder;

use core::alloc::{GlobalAlloc, Layout};
use recorder::{found, Call, Recorder};

/// Alignment that malloc gives without being asked, as `std::alloc::System` has it.
const MALLOC_ALIGN: usize = 16;

/// The global allocator `A`, its calls recorded.
pub struct Record<A> {
    inner: A,
    name: &'static str,
}

impl<A> Record<A> {
    /// Records the calls of `inner`. Traces name the allocator after its type: `mimalloc::MiMalloc` is `mimalloc`.
    pub const fn new(inner: A) -> Self {
        Record { inner, name: "" }
    }

    /// The same under the name that `heaptape replay --alloc` has for the allocator, where its type does not tell.
    pub const fn named(inner: A, name: &'static str) -> Self {
        Record { inner, name }
    }

    /// The allocator itself.
    pub const fn inner(&self) -> &A {
        &self.inner
    }

    #[inline]
    fn recorder(&self) -> Option<&'static Recorder> {
        found(self.name, core::any::type_name::<A>)
    }
}

/// Does malloc itself align as much as the layout asks?
fn is_plain(layout: &Layout) -> bool {
    layout.align() <= MALLOC_ALIGN && layout.align() <= layout.size()
}

// The recorded halves are functions of their own, so that programs stay small where allocation is inlined. Between a call's
// two halves the stack pointer does not change: by it the recorder knows the allocator's own calls.
impl<A: GlobalAlloc> Record<A> {
    /// `plain` is the function that this is where the alignment is malloc's own.
    #[cold]
    #[inline(never)]
    unsafe fn recorded_alloc(
        &self,
        recorder: &Recorder,
        layout: Layout,
        plain: u32,
        allocate: unsafe fn(&A, Layout) -> *mut u8,
    ) -> *mut u8 {
        let mut call = Call::uninit();
        let function = if is_plain(&layout) { plain } else { recorder::ALIGNED_ALLOC };
        unsafe {
            (recorder.begin_allocation)(call.as_mut_ptr());
            let block = allocate(&self.inner, layout);
            (recorder.end_allocation)(call.as_mut_ptr(), function, block, 1, layout.size(), layout.align());
            block
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn recorded_realloc(&self, recorder: &Recorder, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let mut call = Call::uninit();
        unsafe {
            (recorder.begin_resize)(call.as_mut_ptr(), block, size);
            let moved = self.inner.realloc(block, layout, size);
            (recorder.end_resize)(call.as_mut_ptr(), moved);
            moved
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn recorded_dealloc(&self, recorder: &Recorder, block: *mut u8, layout: Layout) {
        let mut call = Call::uninit();
        unsafe {
            // Not free_sized: a block that realloc has shrunk may still be in its former size class, which Rust's allocators
            // may know and another one, in replay, does not.
            (recorder.begin_free)(call.as_mut_ptr(), recorder::FREE, block, layout.size(), layout.align());
            self.inner.dealloc(block, layout);
            (recorder.end_free)(call.as_mut_ptr());
        }
    }
}

// SAFETY: every call goes to the inner allocator with its arguments as they are, and its result comes back as it is.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Record<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match self.recorder() {
            None => unsafe { self.inner.alloc(layout) },
            Some(found) => unsafe { self.recorded_alloc(found, layout, recorder::MALLOC, A::alloc) },
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match self.recorder() {
            None => unsafe { self.inner.alloc_zeroed(layout) },
            Some(found) => unsafe { self.recorded_alloc(found, layout, recorder::CALLOC, A::alloc_zeroed) },
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        match self.recorder() {
            None => unsafe { self.inner.realloc(block, layout, size) },
            Some(found) => unsafe { self.recorded_realloc(found, block, layout, size) },
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match self.recorder() {
            None => unsafe { self.inner.dealloc(block, layout) },
            Some(found) => unsafe { self.recorded_dealloc(found, block, layout) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::System;
    use std::vec::Vec;

    #[global_allocator]
    static GLOBAL: Record<System> = Record::new(System);

    #[test]
    fn blocks_come_from_the_inner_allocator() {
        let mut words: Vec<u64> = Vec::new();
        for i in 0..100_000 {
            words.push(i);
        }
        assert_eq!(words.iter().sum::<u64>(), 4_999_950_000);
        assert!(std::vec![0u8; 1 << 20].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn alignment_is_kept() {
        for shift in 0..16 {
            let layout = Layout::from_size_align(100, 1 << shift).unwrap();
            unsafe {
                let block = GLOBAL.alloc(layout);
                assert_eq!(block as usize % layout.align(), 0);
                block.write_bytes(7, 100);
                let moved = GLOBAL.realloc(block, layout, 5000);
                assert_eq!((moved as usize % layout.align(), *moved.add(99)), (0, 7));
                GLOBAL.dealloc(moved, Layout::from_size_align(5000, 1 << shift).unwrap());
            }
        }
    }

    #[test]
    fn plain_is_what_malloc_aligns() {
        let plain = |size, align| is_plain(&Layout::from_size_align(size, align).unwrap());
        assert!(plain(1, 1) && plain(16, 16) && plain(100, 8));
        assert!(!plain(4, 8) && !plain(64, 32) && !plain(8, 16));
    }
}
