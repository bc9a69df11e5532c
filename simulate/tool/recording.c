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

void write_block_access(UInt slot, ULong granule) { ht_write_block_access(writer, slot, granule); }

void write_line_access(ULong line) {
    if (ht_access_line_is_new(writer, line)) ht_write_line_access(writer, line);
}

void write_code_line(ULong line) {
    if (ht_access_line_is_new(writer, CODE_LINE | line)) ht_write_code_line(writer, line);
}

void write_call(const struct ht_recorded_call *call) {
    write_thread(call->thread);
    ht_write_call(writer, call);
    ht_access_forget_recent(writer);
}

void forget_recent(void) { ht_access_forget_recent(writer); }

void begin_burst(void) {
    write_thread(thread);
    ht_write_burst(writer);
}

void end_burst(ULong accesses) { ht_write_burst_end(writer, accesses); }

// The slot, + 1, of the block that an access belongs to, and where that begins; 0: none. String functions read vectors that
// begin before their block or past its end, in what another allocator has elsewhere.
UInt slot_near(Addr address, UInt bytes, Addr *begin) {
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
