// SPDX-License-Identifier: Apache-2.0
//! The recorder's interface, as shim/hooks/heaptape_recorder.h has it, and how it is found.

use core::ffi::c_char;
use core::mem::{size_of, MaybeUninit};
use core::ptr::{addr_of, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

pub const MALLOC: u32 = 1;
pub const CALLOC: u32 = 2;
pub const FREE: u32 = 5;
pub const ALIGNED_ALLOC: u32 = 7;

/// The version that this crate speaks.
const VERSION: u32 = 1;

/// A call under way: room for the recorder, which fills it.
type Words = [u64; 12];
pub type Call = MaybeUninit<Words>;

#[repr(C)]
pub struct Recorder {
    version: u32,
    bytes: u32,
    name_allocator: unsafe extern "C" fn(*const c_char),
    pub begin_allocation: unsafe extern "C" fn(*mut Words),
    pub end_allocation: unsafe extern "C" fn(*mut Words, u32, *mut u8, usize, usize, usize),
    pub begin_resize: unsafe extern "C" fn(*mut Words, *mut u8, usize),
    pub end_resize: unsafe extern "C" fn(*mut Words, *mut u8),
    pub begin_free: unsafe extern "C" fn(*mut Words, u32, *mut u8, usize, usize),
    pub end_free: unsafe extern "C" fn(*mut Words),
}

/// Null: not looked up yet. Else the recorder, or `absent()`.
static RECORDER: AtomicPtr<Recorder> = AtomicPtr::new(null_mut());

/// An address that no recorder has.
fn absent() -> *mut Recorder {
    static PLACE: u64 = 0;
    addr_of!(PLACE) as *mut Recorder
}

/// The recorder, if one is preloaded. The allocator is named to it after `name`, or, if that is empty, after its type.
#[inline]
pub fn found(name: &str, type_name: fn() -> &'static str) -> Option<&'static Recorder> {
    let mut known = RECORDER.load(Ordering::Acquire);
    if known == absent() {
        return None;
    }
    if known.is_null() {
        known = look_up(name, type_name);
    }
    // SAFETY: what is neither null nor absent is a table in a library that is never unloaded.
    if known == absent() {
        None
    } else {
        unsafe { known.as_ref() }
    }
}

/// Any number of threads may look up at the same time: they find the same. A malloc that is itself made of this allocator
/// and that dlsym calls would come here again; then the depth ends it.
#[cold]
#[inline(never)]
fn look_up(name: &str, type_name: fn() -> &'static str) -> *mut Recorder {
    const DEPTH_MAX: u32 = 64;
    static DEPTH: AtomicU32 = AtomicU32::new(0);
    let result = if DEPTH.fetch_add(1, Ordering::Relaxed) < DEPTH_MAX { by_symbol() } else { null_mut() };
    DEPTH.fetch_sub(1, Ordering::Relaxed);
    let result = if usable(result) { result } else { absent() };
    let first = RECORDER.compare_exchange(null_mut(), result, Ordering::AcqRel, Ordering::Acquire).is_ok();
    if first && result != absent() {
        let text = allocator_name(if name.is_empty() { type_name() } else { name });
        if text[0] != 0 {
            // SAFETY: a usable table; the text ends in a zero byte.
            unsafe { ((*result).name_allocator)(text.as_ptr() as *const c_char) };
        }
    }
    result
}

/// Is the table there, and does it have all that this version has?
fn usable(table: *mut Recorder) -> bool {
    // SAFETY: every version of the table begins with these two.
    !table.is_null() && unsafe { (*table).version >= VERSION && (*table).bytes as usize >= size_of::<Recorder>() }
}

#[cfg(all(target_os = "linux", target_pointer_width = "64", not(target_feature = "crt-static"), not(miri)))]
fn by_symbol() -> *mut Recorder {
    type Find = unsafe extern "C" fn(u32) -> *mut Recorder;
    extern "C" {
        fn dlsym(object: *mut u8, name: *const c_char) -> *mut u8;
    }
    // SAFETY: NULL is RTLD_DEFAULT in glibc and musl, and only the recorder has a function of this name.
    unsafe {
        let find = dlsym(null_mut(), b"heaptape_recorder\0".as_ptr() as *const c_char);
        if find.is_null() {
            return null_mut();
        }
        core::mem::transmute::<*mut u8, Find>(find)(VERSION)
    }
}

/// Nothing can be preloaded into a static program, and the recorder is for 64-bit Linux.
#[cfg(not(all(target_os = "linux", target_pointer_width = "64", not(target_feature = "crt-static"), not(miri))))]
fn by_symbol() -> *mut Recorder {
    null_mut()
}

/// The last part of a type's name in lower case, as heaptape names allocators: `tikv_jemallocator::Jemalloc` is `jemalloc`.
/// Empty for `std::alloc::System`, which is libc's malloc: the recorder knows that one better. Ends in a zero byte.
fn allocator_name(full: &str) -> [u8; 32] {
    let mut text = [0; 32];
    let before_parameters = full.bytes().take_while(|&byte| byte != b'<');
    let mut used = 0;
    for byte in before_parameters {
        if byte == b':' {
            used = 0;
            text = [0; 32];
        } else if let (Some(place), true) = (text.get_mut(used), used < 31) {
            *place = byte.to_ascii_lowercase();
            used += 1;
        }
    }
    if text.starts_with(b"system\0") {
        [0; 32]
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;

    fn name(full: &str) -> String {
        allocator_name(full).iter().take_while(|&&byte| byte != 0).map(|&byte| byte as char).collect()
    }

    #[test]
    fn allocators_are_named_after_their_types() {
        assert_eq!(name("tikv_jemallocator::Jemalloc"), "jemalloc");
        assert_eq!(name("mimalloc::MiMalloc"), "mimalloc");
        assert_eq!(name("a::Counting<b::Inner>"), "counting");
        assert_eq!(name("rpmalloc"), "rpmalloc");
        assert_eq!(name("std::alloc::System"), "");
        assert_eq!(name(&"x".repeat(100)).len(), 31);
    }

    unsafe extern "C" fn find(_: u32) {}

    #[test]
    fn a_table_of_another_version_is_not_used() {
        let function = find as *mut u8;
        // Version and size, then the functions.
        let table = |version: u32, bytes: u32| -> [u64; 8] {
            let mut words = [function as u64; 8];
            words[0] = u64::from(version) | u64::from(bytes) << 32;
            words
        };
        let judged = |mut words: [u64; 8]| usable(words.as_mut_ptr() as *mut Recorder);
        assert_eq!(size_of::<Recorder>(), 64);
        assert!(judged(table(1, 64)) && judged(table(2, 80)));
        assert!(!judged(table(0, 64)) && !judged(table(1, 56)) && !usable(null_mut()));
    }
}
