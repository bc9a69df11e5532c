// SPDX-License-Identifier: Apache-2.0
// An allocator of a program's own.
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;

const CHUNK: usize = 1 << 20;

/// Blocks of powers of two, cut from chunks of a megabyte.
pub struct Pool;
static FREE: Mutex<[usize; 21]> = Mutex::new([0; 21]);

unsafe impl GlobalAlloc for Pool {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let bytes = layout.size().max(layout.align()).max(16).next_power_of_two();
        if bytes > CHUNK {
            return System.alloc(layout);
        }
        let list = &mut FREE.lock().unwrap()[bytes.trailing_zeros() as usize];
        if *list == 0 {
            let chunk = System.alloc(Layout::from_size_align_unchecked(CHUNK, CHUNK));
            for at in (0..CHUNK).step_by(bytes) {
                *(chunk.add(at) as *mut usize) = *list;
                *list = chunk.add(at) as usize;
            }
        }
        let block = *list;
        *list = *(block as *const usize);
        block as *mut u8
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let bytes = layout.size().max(layout.align()).max(16).next_power_of_two();
        if bytes > CHUNK {
            return System.dealloc(block, layout);
        }
        let list = &mut FREE.lock().unwrap()[bytes.trailing_zeros() as usize];
        *(block as *mut usize) = *list;
        *list = block as usize;
    }
}
