// SPDX-License-Identifier: GPL-3.0-or-later
// Writes the calls and accesses of the program, those outside its allocator's calls and the dynamic loader, to options.record.
#include "tool.h"
#include <pub_tool_libcassert.h>
#include <pub_tool_libcbase.h>
#include <pub_tool_libcfile.h>
#include <pub_tool_libcprint.h>
#include <pub_tool_libcproc.h>
#include <pub_tool_mallocfree.h>
#include <pub_tool_options.h>
#include <pub_tool_vki.h>

// The live blocks by address: a slot for each 16 bytes, in leaves of 64 KiB of addresses; a leaf that one block
// covers wholly is a number.
enum {
    LEAF_SHIFT = 16,
    MIDDLE_SHIFT = 32,
    LEAF_GRANULES = 1 << (LEAF_SHIFT - HT_GRANULE_SHIFT),
    TABLE = 1 << 16
};

// A leaf's entry: 0; (slot + 1) * 2 + 1; or a pointer to LEAF_GRANULES of slot + 1.
static UWord *middle[TABLE];

static UWord *leaf_entry(Addr address) {
    UWord **table = &middle[address >> MIDDLE_SHIFT & (TABLE - 1)];
    if (!*table) *table = VG_(calloc)("heaptape.map", TABLE, sizeof **table);
    return &(*table)[address >> LEAF_SHIFT & (TABLE - 1)];
}

static UInt *granules_of(UWord *entry) {
    if (*entry && !(*entry & 1)) return (UInt *)*entry;
    UInt *granules = VG_(calloc)("heaptape.map", LEAF_GRANULES, sizeof *granules);
    for (UInt i = 0; *entry && i < LEAF_GRANULES; i++) granules[i] = (UInt)(*entry >> 1);
    *entry = (UWord)granules;
    return granules;
}

static void set_range(Addr address, ULong bytes, UInt value) {
    Addr at = address >> HT_GRANULE_SHIFT << HT_GRANULE_SHIFT, end = address + (bytes ? bytes : 1);
    const ULong leaf_bytes = 1ull << LEAF_SHIFT;
    while (at < end) {
        Addr next = (at | (leaf_bytes - 1)) + 1;
        UWord *entry = leaf_entry(at);
        if (!(at & (leaf_bytes - 1)) && end >= next) {
            if (*entry && !(*entry & 1)) VG_(free)((void *)*entry);
            *entry = value ? (UWord)value << 1 | 1 : 0;
        } else {
            UInt *granules = granules_of(entry);
            for (Addr stop = end < next ? end : next; at < stop; at += 1 << HT_GRANULE_SHIFT)
                granules[at >> HT_GRANULE_SHIFT & (LEAF_GRANULES - 1)] = value;
        }
        at = next;
    }
}

static void block_add(Addr address, ULong bytes, UInt slot) { set_range(address, bytes, slot + 1); }
static void block_remove(Addr address, ULong bytes) { set_range(address, bytes, 0); }

static UWord entry_at(Addr address) {
    UWord *table = middle[address >> MIDDLE_SHIFT & (TABLE - 1)];
    return table ? table[address >> LEAF_SHIFT & (TABLE - 1)] : 0;
}

static UInt block_at(Addr address) {
    UWord entry = entry_at(address);
    if (!entry) return 0;
    if (entry & 1) return (UInt)(entry >> 1);
    return ((UInt *)entry)[address >> HT_GRANULE_SHIFT & (LEAF_GRANULES - 1)];
}

static Bool no_block_within(Addr first, Addr last) {
    return first >> LEAF_SHIFT == last >> LEAF_SHIFT && !entry_at(first);
}

static const ULong BLOCK_BYTES_MAX = 1ull << 47;
static const ULong CODE_LINE = 1ull << 63, ADDRESS = (1ull << 48) - 1;

enum { KEPT_ROOM = 1 << 10, BYTES_SHIFT = 48 };

struct block {
    Addr address;
    ULong bytes;
};

static struct ht_access_writer *writer;
static Int file = -1;
static struct block *blocks;  // by slot
static UInt *free_slots;
static UInt slots, slots_room, free_count;
static ULong accesses_made, instructions_recorded;
// What is to be written of the paths so far: CODE_LINE | a line, or an access's bytes << BYTES_SHIFT | its address.
static ULong kept[KEPT_ROOM + PATH_EVENTS_MAX + 2];  // with the first line, and a place behind the last
static UInt kept_count;
static UInt thread, thread_written;

static void write_bytes(const uint8_t *bytes, size_t count) {
    while (count && file >= 0) {
        Int done = VG_(write)(file, bytes, (Int)count);
        if (done <= 0) {
            VG_(umsg)("%s: accesses cannot be written: the recording ends\n", options.record);
            stop_recording();
            return;
        }
        bytes += done;
        count -= (size_t)done;
    }
}

static void write_header(void) {
    HChar command[1024];
    VG_(client_cmd_and_args)(command, sizeof command);
    uint32_t version = options.sampled ? HT_ACCESS_VERSION_SAMPLED : HT_ACCESS_VERSION_WHOLE;
    uint32_t head[4] = {version, version, (uint32_t)VG_(getpid)(), (uint32_t)VG_(strlen)(command)};
    write_bytes((const uint8_t *)HT_ACCESS_MAGIC, sizeof HT_ACCESS_MAGIC - 1);
    write_bytes((const uint8_t *)head, sizeof head);
    write_bytes((const uint8_t *)command, head[3]);
}

void start_recording(void) {
    if (!options.record) return;
    HChar *path = VG_(expand_file_name)("--record", options.record);
    SysRes opened = VG_(open)(path, VKI_O_CREAT | VKI_O_TRUNC | VKI_O_WRONLY, 0600);
    if (sr_isError(opened)) {
        VG_(umsg)("%s: cannot be created\n", path);
        VG_(exit)(1);
    }
    file = VG_(safe_fd)((Int)sr_Res(opened));
    VG_(free)(path);
    writer = VG_(calloc)("heaptape.writer", 1, sizeof *writer);
    writer->write = write_bytes;
    write_header();
}

Bool is_recording(void) { return file >= 0; }

void stop_recording(void) {
    if (file >= 0) VG_(close)(file);
    file = -1;
}

static void write_thread(UInt tid) {
    if (tid != thread_written) ht_write_thread(writer, thread_written = tid);
}

static void write_block_access(UInt slot, ULong granule) { ht_write_block_access(writer, slot, granule); }

static void write_line_access(ULong line) {
    if (ht_access_line_is_new(writer, line)) ht_write_line_access(writer, line);
}

static void write_code_line(ULong line) {
    if (ht_access_line_is_new(writer, CODE_LINE | line)) ht_write_code_line(writer, line);
}

static void write_call(const struct ht_recorded_call *call) {
    write_thread(call->thread);
    ht_write_call(writer, call);
    ht_access_forget_recent(writer);
}

static void forget_recent(void) { ht_access_forget_recent(writer); }

static void begin_burst(void) {
    write_thread(thread);
    ht_write_burst(writer);
}

static void end_burst(ULong accesses) { ht_write_burst_end(writer, accesses); }

// The slot, + 1, of the block that an access belongs to, and where that begins; 0: none. String functions read vectors that
// begin before their block or past its end, in what another allocator has elsewhere.
static UInt slot_near(Addr address, UInt bytes, Addr *begin) {
    static const UInt reaches[] = {16, 32, 64, 96};
    UInt slot = block_at(address);
    if (!slot && no_block_within(address - reaches[3], address + bytes - 1)) return 0;
    if (!slot) slot = block_at(address + bytes - 1);
    for (UInt i = 0; !slot && i < sizeof reaches / sizeof *reaches; i++)
        slot = block_at(address - reaches[i]);
    if (slot) *begin = blocks[slot - 1].address;
    return slot;
}

static void record_access(Addr address, UInt bytes) {
    Addr begin;
    UInt slot = slot_near(address, bytes, &begin);
    if (slot) {
        ULong within = address > begin ? address - begin : 0, last = address + bytes - 1 - begin;
        write_block_access(slot - 1, within >> HT_GRANULE_SHIFT);
        if (last >> HT_GRANULE_SHIFT != within >> HT_GRANULE_SHIFT)
            write_block_access(slot - 1, last >> HT_GRANULE_SHIFT);
        return;
    }
    for (ULong line = address >> HT_LINE_SHIFT; line <= (address + bytes - 1) >> HT_LINE_SHIFT; line++)
        write_line_access(line);
}

// Sampled recording. In a burst all accesses are written. Between bursts each place keeps when it was accessed last, and
// before the next burst these last accesses are written in their order, and the calls between them: the order of last
// accesses is all that the state of caches which replace the least recently used line depends on, so that a burst
// begins with the caches that it would find, under any allocator.
enum {
    PLACES = 1 << 20,  // granules: of so many bytes of neighbours each has its own
    NO_PLACE = PLACES,
    MOMENT_SHIFT = 48,
    MOMENTS = 1 << 15,
    SETTLING = 1 << 14,  // accesses of a burst that do not count, for what is not kept between bursts
    COUNTED = 1 << 16,   // and those that do
    // Granules, or paths, whose last accesses are written at once: not more lines than half of a second level.
    STRETCH = 1 << 14,
};
#define CODE_SLOT ((UInt) - 1)

// The last access to a place that nobody accesses after it.
struct touch {
    ULong place;  // a granule of the block, a line, a line of instructions
    UInt slot;    // + 1; 0: a line; CODE_SLOT
    UInt moment;
};

struct held_call {
    struct ht_recorded_call call;
    UInt moment;
};

static enum { IN_BETWEEN, SETTLES, COUNTS } phase;
static ULong phase_ends, counted_from, random_state = 1;
// By granule: moment << MOMENT_SHIFT | address; 0: none. One more takes what is no access, and is never 0.
static ULong places[PLACES + 1];
static UInt used[STRETCH + TAKEN_ROOM + TAKEN_SPARE];
static ULong used_paths[STRETCH + TAKEN_ROOM + TAKEN_SPARE];
static UInt used_count, used_path_count;
static UInt moment = 1;  // goes on with each call and each full buffer
static struct touch *touches, *sorted;
static struct held_call *held;
static UInt touch_count, touches_room, held_count, held_room;

// From half to one and a half times as many as there are on average.
static ULong between_bursts(void) {
    random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
    return (ULong)options.between / 2 + (random_state >> 33) % (ULong)options.between;
}

Bool is_between_bursts(void) { return options.sampled && phase == IN_BETWEEN; }

static void mark(const ULong *address, const ULong *end) {
    const ULong now = (ULong)moment << MOMENT_SHIFT;
    for (; address < end; address++) {
        UInt at = *address ? *address >> HT_GRANULE_SHIFT & (PLACES - 1) : NO_PLACE;
        used[used_count] = at;
        used_count += !places[at];
        places[at] = now | *address;
    }
}

// All paths at once, as each would be another number of rounds for the processor to guess; but not those of the loader.
UInt mark_paths(void) {
    const ULong *from = taken.addresses;
    UInt count = places_taken();
    places[NO_PLACE] = 1;
    for (UInt i = 0; i < places_taken(); i += places_of(taken.paths[i])) {
        const ULong word = taken.paths[i];
        UShort *last = &path_moments[unit_of(word)];
        count_instructions(word);
        count -= has_no_access(word);
        if (is_of_loader(word)) {
            mark(from, &taken.addresses[i]);
            from = &taken.addresses[i] + places_of(word);
            count -= places_of(word) - has_no_access(word);
        } else if (*last != moment) {
            if (!*last) used_paths[used_path_count++] = word;
            *last = (UShort)moment;
        }
    }
    mark(from, next_address);
    return count;
}

static void add_touch(ULong place, UInt slot, UInt when) {
    if (touch_count == touches_room) {
        touches_room = touches_room ? touches_room * 2 : 1 << 16;
        touches = VG_(realloc)("heaptape.touches", touches, touches_room * sizeof *touches);
        sorted = VG_(realloc)("heaptape.touches", sorted, touches_room * sizeof *sorted);
    }
    touches[touch_count++] = (struct touch){place, slot, when};
}

// What was accessed in a block that ends.
static void keep_touches(UInt slot, Addr begin, ULong bytes) {
    if (!is_between_bursts()) return;
    ULong first = begin >> HT_GRANULE_SHIFT, count = ((begin + bytes - 1) >> HT_GRANULE_SHIFT) - first + 1;
    if (!bytes || count > PLACES) count = bytes ? PLACES : 1;
    for (ULong i = first; i < first + count; i++) {
        ULong *place = &places[i & (PLACES - 1)];
        ULong within = (*place & ((1ull << MOMENT_SHIFT) - 1)) - begin;
        if (!*place || within >= bytes) continue;
        add_touch(within >> HT_GRANULE_SHIFT, slot + 1, (UInt)(*place >> MOMENT_SHIFT));
        *place = 0;
    }
}

static void collect_touches(void) {
    for (UInt i = 0; i < used_count; i++) {
        ULong *place = &places[used[i]];
        if (!*place) continue;  // of a block that ended
        Addr address = *place & ((1ull << MOMENT_SHIFT) - 1), begin;
        UInt when = (UInt)(*place >> MOMENT_SHIFT), slot = slot_near(address, 1, &begin);
        if (slot) add_touch((address > begin ? address - begin : 0) >> HT_GRANULE_SHIFT, slot, when);
        else add_touch(address >> HT_LINE_SHIFT, 0, when);
        *place = 0;
    }
    for (UInt i = 0; i < used_path_count; i++) {
        const struct path *path = path_of(used_paths[i]);
        UShort *last = &path_moments[unit_of(used_paths[i])];
        ULong line = path->first_line;
        add_touch(line, CODE_SLOT, *last);
        for (UInt k = 0; k < path->event_count; k++) {
            line = line_after(line, events_of(path)[k], path->first_line);
            if (is_code(events_of(path)[k])) add_touch(line, CODE_SLOT, *last);
        }
        *last = 0;
    }
    used_count = used_path_count = 0;
}

static void sort_touches(void) {
    static UInt after[MOMENTS + 2];
    VG_(memset)(after, 0, (moment + 2) * sizeof *after);
    for (UInt i = 0; i < touch_count; i++) after[touches[i].moment + 1]++;
    for (UInt i = 0; i <= moment; i++) after[i + 1] += after[i];
    for (UInt i = 0; i < touch_count; i++) sorted[after[touches[i].moment]++] = touches[i];
}

static void write_touch(const struct touch *touch) {
    if (touch->slot == CODE_SLOT) write_code_line(touch->place);
    else if (touch->slot) write_block_access(touch->slot - 1, touch->place);
    else write_line_access(touch->place);
}

// All that is held.
static void write_held(void) {
    UInt at = 0;
    forget_recent();
    collect_touches();
    sort_touches();
    for (UInt i = 0; i < held_count; i++) {
        while (at < touch_count && sorted[at].moment <= held[i].moment) write_touch(&sorted[at++]);
        write_call(&held[i].call);
    }
    while (at < touch_count) write_touch(&sorted[at++]);
    touch_count = held_count = 0;
    moment = 1;
}

static void next_moment(void) {
    if (++moment == MOMENTS || used_count >= STRETCH || used_path_count >= STRETCH) write_held();
}

static void hold_call(const struct ht_recorded_call *call) {
    if (held_count == held_room) {
        held_room = held_room ? held_room * 2 : 1 << 12;
        held = VG_(realloc)("heaptape.held", held, held_room * sizeof *held);
    }
    held[held_count++] = (struct held_call){*call, moment};
    next_moment();
}

// So many accesses have been made.
static void go_on_sampling(ULong made) {
    if (phase == IN_BETWEEN) next_moment();
    if (!phase_ends) phase_ends = made + between_bursts();
    if (made < phase_ends) return;
    switch (phase) {
    case IN_BETWEEN:
        write_held();
        phase = SETTLES;
        phase_ends = made + SETTLING;
        break;
    case SETTLES:
        begin_burst();
        phase = COUNTS;
        counted_from = made;
        phase_ends = made + COUNTED;
        break;
    case COUNTS:
        end_burst(made - counted_from);
        phase = IN_BETWEEN;
        phase_ends = made + between_bursts();
        break;
    }
}

static void end_sampling(ULong made) {
    if (phase == IN_BETWEEN) write_held();
    if (phase == COUNTS) end_burst(made - counted_from);
}

// Before the blocks, the thread or the part of the program are others.
void write_kept(void) {
    for (UInt i = 0; i < kept_count; i++) {
        if (kept[i] & CODE_LINE) ht_write_code_line(writer, kept[i] & ~CODE_LINE);
        else record_access(kept[i] & ADDRESS, (UInt)(kept[i] >> BYTES_SHIFT));
    }
    kept_count = 0;
}

// Of what the program did on the path, what is new. One address behind the path's is read, and not used.
void keep_path(const struct path *path, const ULong *address) {
    const ULong first = CODE_LINE | path->first_line;
    ULong line = first;
    UInt count = kept_count;
    kept[count] = line;
    count += ht_access_is_new(writer, line);
    for (const UChar *event = events_of(path), *end = event + path->event_count; event < end; event++) {
        const Bool code = is_code(*event);
        line = line_after(line, *event, first);
        kept[count] = code ? line : (*address & ADDRESS) | (ULong)*event << BYTES_SHIFT;
        count += ht_access_is_new(writer, code ? line : *address >> HT_GRANULE_SHIFT);
        address += !code;
    }
    kept_count = count;
    if (kept_count > KEPT_ROOM) write_kept();
}

// After the paths that waited in the buffers.
void recorded_accesses(UInt count) {
    accesses_made += count;
    if (options.sampled) go_on_sampling(accesses_made);
}

void record_thread(UInt tid) {
    thread = tid;
    if (is_recording() && !is_between_bursts()) write_thread(tid);
}

static UInt new_slot(void) {
    if (free_count) return free_slots[--free_count];
    if (slots == slots_room) {
        slots_room = slots_room ? slots_room * 2 : 1 << 16;
        blocks = VG_(realloc)("heaptape.blocks", blocks, slots_room * sizeof *blocks);
        free_slots = VG_(realloc)("heaptape.blocks", free_slots, slots_room * sizeof *free_slots);
    }
    return slots++;
}

static void end_block(UInt slot) {
    keep_touches(slot, blocks[slot].address, blocks[slot].bytes);
    block_remove(blocks[slot].address, blocks[slot].bytes);
    free_slots[free_count++] = slot;
}

// The slot of the block that begins there, + 1; 0: no block is known to.
static UInt slot_of(Addr address) {
    UInt slot = address ? block_at(address) : 0;
    return slot && blocks[slot - 1].address == address ? slot : 0;
}

static void put_call(struct ht_recorded_call call) {
    ULong outside = counts.instructions - counts.allocator - counts.loader;
    call.instructions = outside - instructions_recorded;
    instructions_recorded = outside;
    call.thread = thread;
    if (is_between_bursts()) hold_call(&call);
    else write_call(&call);
}

static void record_free(Addr address) {
    UInt slot = slot_of(address);
    if (!address) put_call((struct ht_recorded_call){.call = HT_ACCESS_FREE_NULL});
    if (!slot) return;
    end_block(slot - 1);
    put_call((struct ht_recorded_call){.call = HT_ACCESS_FREE, .slot = slot - 1});
}

static void record_new(enum ht_access_call call, Addr address, ULong size, ULong count) {
    ULong bytes = call == HT_ACCESS_CALLOC ? size * count : size;
    if (!address || bytes > BLOCK_BYTES_MAX) return;  // of an operator new that threw, the result is none
    UInt slot = slot_of(address);
    if (slot) record_free(address);  // freed by a function that is not known, or within another call
    slot = new_slot();
    blocks[slot] = (struct block){address, bytes};
    block_add(address, bytes, slot);
    put_call((struct ht_recorded_call){.call = call, .slot = slot, .size = size, .count = count});
}

static void record_realloc(Addr before, ULong size, Addr address) {
    UInt slot = slot_of(before);
    if (!address) {
        if (!size) record_free(before);
        return;
    }
    bool known = slot;
    if (known) {
        keep_touches(slot - 1, before, blocks[slot - 1].bytes);
        block_remove(before, blocks[slot - 1].bytes);
    } else {
        slot = new_slot() + 1;
    }
    blocks[slot - 1] = (struct block){address, size};
    block_add(address, size, slot - 1);
    put_call((struct ht_recorded_call){
        .call = HT_ACCESS_REALLOC, .slot = slot - 1, .size = size, .from_null = !known});
}

void record_call(ULong result) {
    const ULong *argument = running.argument;
    if (!is_recording()) return;
    switch (running.kind) {
    case CALL_MALLOC: record_new(HT_ACCESS_MALLOC, result, argument[0], 0); break;
    case CALL_CALLOC: record_new(HT_ACCESS_CALLOC, result, argument[1], argument[0]); break;
    case CALL_REALLOC: record_realloc(argument[0], argument[1], result); break;
    case CALL_REALLOC_ARRAY: record_realloc(argument[0], argument[1] * argument[2], result); break;
    case CALL_FREE: record_free(argument[0]); break;
    case CALL_ALIGNED: record_new(HT_ACCESS_ALIGNED, result, argument[1], argument[0]); break;
    case CALL_ALIGNED_NEW: record_new(HT_ACCESS_ALIGNED, result, argument[0], argument[1]); break;
    case CALL_PAGE_ALIGNED: record_new(HT_ACCESS_ALIGNED, result, argument[0], 1 << HT_PAGE_SHIFT); break;
    case CALL_POSIX_MEMALIGN:
        if (!result) record_new(HT_ACCESS_ALIGNED, *(Addr *)argument[0], argument[2], argument[1]);
        break;
    default: break;
    }
}

void end_recording(void) {
    if (!is_recording()) return;
    if (options.sampled) end_sampling(accesses_made);
    ht_write_end(writer, counts.instructions - counts.allocator - counts.loader, accesses_made,
                 counts.operators);
    stop_recording();
}
