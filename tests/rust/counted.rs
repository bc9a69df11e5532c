// SPDX-License-Identifier: Apache-2.0
//! A program whose global allocator is `Record<A>`, and that counts or prints each call that reaches it.
//!
//! `lines OUT CALLS`: random calls in one thread, printed to OUT as `heaptape dump --no-time` shows them.
//! `threads|fork|kill|signal COUNTS`: allocations of tallied sizes, counted in the shared file COUNTS.
use std::alloc::{alloc, alloc_zeroed, dealloc, realloc, GlobalAlloc, Layout};
use std::ffi::CString;
use std::io::Write;
use std::os::raw::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::mpsc;

#[cfg(feature = "mimalloc")]
use mimalloc::MiMalloc as Inner;
#[cfg(not(any(feature = "jemalloc", feature = "mimalloc")))]
use std::alloc::System as Inner;
#[cfg(feature = "jemalloc")]
use tikv_jemallocator::Jemalloc as Inner;

const TALLY_FIRST: usize = 7000;
const TALLY_SIZES: usize = 1000;

static TALLIES: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());

/// Counts what it passes on.
struct Counted(heaptape_alloc::Record<Inner>);

fn count(size: usize) {
    let tallies = TALLIES.load(Ordering::Acquire);
    if !tallies.is_null() && (TALLY_FIRST..TALLY_FIRST + TALLY_SIZES).contains(&size) {
        unsafe { (*tallies.add(size - TALLY_FIRST)).fetch_add(1, Ordering::Relaxed) };
    }
}

unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        self.0.alloc(layout)
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        self.0.alloc_zeroed(layout)
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        self.0.realloc(block, layout, size)
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        self.0.dealloc(block, layout)
    }
}

#[global_allocator]
static GLOBAL: Counted = Counted(heaptape_alloc::Record::new(Inner));

extern "C" {
    fn open(path: *const c_char, flags: c_int, mode: c_int) -> c_int;
    fn ftruncate(fd: c_int, bytes: i64) -> c_int;
    fn mmap(at: *mut c_void, bytes: usize, access: c_int, flags: c_int, fd: c_int, offset: i64) -> *mut c_void;
    fn fork() -> c_int;
    fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn _exit(status: c_int) -> !;
    fn kill(pid: c_int, signal: c_int) -> c_int;
    fn getpid() -> c_int;
    fn signal(number: c_int, handler: extern "C" fn(c_int)) -> usize;
    fn setitimer(which: c_int, new: *const [i64; 4], old: *mut c_void) -> c_int;
}

fn share_tallies(path: &str) {
    let path = CString::new(path).unwrap();
    unsafe {
        let fd = open(path.as_ptr(), 0o102, 0o644); // O_RDWR | O_CREAT
        assert!(fd >= 0 && ftruncate(fd, 8 * TALLY_SIZES as i64) == 0);
        let memory = mmap(std::ptr::null_mut(), 8 * TALLY_SIZES, 3, 1, fd, 0); // PROT_READ | PROT_WRITE, MAP_SHARED
        assert!(memory as isize != -1);
        TALLIES.store(memory as *mut AtomicU64, Ordering::Release);
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % limit
    }
}

struct Object {
    block: *mut u8,
    layout: Layout,
    birth: usize,
}

impl Object {
    fn fill(&self) {
        unsafe { self.block.write_bytes(self.birth as u8, self.layout.size()) };
    }
    fn check(&self, bytes: usize) {
        let content = unsafe { std::slice::from_raw_parts(self.block, bytes.min(self.layout.size())) };
        assert!(content.iter().all(|&byte| byte == self.birth as u8), "a block lost its content");
    }
}

fn random_layout(random: &mut Random) -> Layout {
    let size = 1 + if random.below(50) > 0 { random.below(600) } else { random.below(300_000) };
    Layout::from_size_align(size, 1 << if random.below(10) > 0 { random.below(4) } else { random.below(9) }).unwrap()
}

fn one_call(random: &mut Random, live: &mut Vec<Object>, births: &mut usize, out: &mut Vec<u8>) {
    let what = random.below(10);
    if what < 5 || live.is_empty() {
        let (layout, zeroed) = (random_layout(random), what == 0);
        let (size, align) = (layout.size(), layout.align());
        let block = unsafe {
            if zeroed {
                alloc_zeroed(layout)
            } else {
                alloc(layout)
            }
        };
        assert!(!block.is_null() && block as usize % align == 0);
        assert!(!zeroed || unsafe { std::slice::from_raw_parts(block, size) }.iter().all(|&byte| byte == 0));
        *births += 1;
        if align > 16 || align > size {
            writeln!(out, "aligned_alloc({align}, {size}) = #{births}").unwrap();
        } else {
            writeln!(
                out,
                "{} = #{births}",
                if zeroed { format_args_of("calloc(1, ", size) } else { format_args_of("malloc(", size) }
            )
            .unwrap();
        }
        live.push(Object { block, layout, birth: *births });
        live[live.len() - 1].fill();
    } else if what < 7 {
        let at = random.below(live.len());
        let object = &mut live[at];
        let size = 1 + random.below(2 * object.layout.size());
        object.block = unsafe { realloc(object.block, object.layout, size) };
        assert!(!object.block.is_null() && object.block as usize % object.layout.align() == 0);
        object.check(size);
        object.layout = Layout::from_size_align(size, object.layout.align()).unwrap();
        object.fill();
        writeln!(out, "realloc(#{0}, {size}) = #{0}", object.birth).unwrap();
    } else {
        let at = random.below(live.len());
        let object = live.swap_remove(at);
        object.check(usize::MAX);
        unsafe { dealloc(object.block, object.layout) };
        writeln!(out, "free(#{})", object.birth).unwrap();
    }
}

/// A call's text up to its result, without an allocation.
struct Text(&'static str, usize);

fn format_args_of(begin: &'static str, size: usize) -> Text {
    Text(begin, size)
}

impl std::fmt::Display for Text {
    fn fmt(&self, to: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(to, "{}{})", self.0, self.1)
    }
}

fn mark(size: usize) {
    let layout = Layout::from_size_align(size, 1).unwrap();
    unsafe { dealloc(std::hint::black_box(alloc(layout)), layout) };
}

fn lines(path: &str, calls: usize) {
    let mut out = Vec::with_capacity(calls * 64);
    let mut live = Vec::with_capacity(calls);
    let (mut random, mut births) = (Random(41), 0);
    mark(54321);
    for _ in 0..calls {
        one_call(&mut random, &mut live, &mut births, &mut out);
    }
    mark(54323);
    std::fs::write(path, out).unwrap();
    println!("{} calls, {} live", calls, live.len());
}

/// Blocks of tallied sizes, each freed by another thread than its own.
fn work_in_threads() -> usize {
    let (send, receive) = mpsc::channel::<Vec<u8>>();
    let makers: Vec<_> = (0..4)
        .map(|maker| {
            let send = send.clone();
            std::thread::spawn(move || {
                for i in 0..5000 {
                    let mut block = Vec::with_capacity(TALLY_FIRST + maker * 100 + i % 100);
                    block.push(maker as u8);
                    send.send(block).unwrap();
                    std::hint::black_box(vec![0u8; TALLY_FIRST + 500 + i % 100]);
                }
            })
        })
        .collect();
    drop(send);
    let sum: usize = receive.iter().map(|block| block[0] as usize + 1).sum();
    for maker in makers {
        maker.join().unwrap();
    }
    sum
}

/// What is inherited is freed in the children.
fn work_in_children() {
    let inherited: Vec<Vec<u8>> = (0..100).map(|i| Vec::with_capacity(TALLY_FIRST + 600 + i)).collect();
    let children: Vec<c_int> = (0..5)
        .map(|_| unsafe {
            let pid = fork();
            if pid == 0 {
                for _ in 0..1000 {
                    std::hint::black_box(Vec::<u8>::with_capacity(TALLY_FIRST + 700));
                }
                drop(std::ptr::read(&inherited));
                _exit(0);
            }
            pid
        })
        .collect();
    for pid in children {
        let mut status = 0;
        assert!(unsafe { waitpid(pid, &mut status, 0) } == pid && status == 0);
    }
    println!("{}", inherited.len());
}

static STRIKES: AtomicU64 = AtomicU64::new(0);

extern "C" fn strike(_: c_int) {
    STRIKES.fetch_add(1, Ordering::Relaxed);
}

/// A timer's signals while calls are made. Its handler allocates nothing, as a handler must not.
fn work_under_signals() {
    unsafe {
        signal(14, strike);
        setitimer(0, &[0, 500, 0, 500], std::ptr::null_mut());
    }
    while STRIKES.load(Ordering::Relaxed) < 200 {
        work_in_threads();
    }
    unsafe { setitimer(0, &[0; 4], std::ptr::null_mut()) };
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    if words[1] == "lines" {
        lines(&words[2], words[3].parse().unwrap());
        return;
    }
    share_tallies(&words[2]);
    match words[1].as_str() {
        "threads" => println!("{}", work_in_threads()),
        "fork" => work_in_children(),
        "signal" => work_under_signals(),
        "kill" => {
            work_in_threads();
            unsafe { kill(getpid(), 9) };
        }
        _ => panic!("unknown mode"),
    }
}
