// SPDX-License-Identifier: GPL-3.0-or-later
// The counts of a process, as JSON in options.out.
#include "tool.h"
#include <pub_tool_libcassert.h>
#include <pub_tool_libcbase.h>
#include <pub_tool_libcfile.h>
#include <pub_tool_libcprint.h>
#include <pub_tool_libcproc.h>
#include <pub_tool_options.h>
#include <pub_tool_vki.h>

static void put_part(const HChar *name, enum part part, ULong instructions) {
    const struct ht_miss_counts *m = &counts.misses[part];
    put(",\n\"%s\": {\"instructions\": %llu", name, instructions);
    if (options.simulate) {
        put(", \"accesses\": %llu, \"l1d_misses\": %llu, \"l1d_sequential_misses\": %llu, \"l2_misses\": %llu, "
            "\"l2_sequential_misses\": %llu, \"l1i_misses\": %llu, \"l2_code_misses\": %llu, "
            "\"dtlb_misses\": %llu, \"stlb_misses\": %llu, \"faults\": %llu, \"file_faults\": %llu",
            m->accesses, m->l1d, m->l1d_sequential, m->l2, m->l2_sequential, m->l1i, m->l1i_l2, m->dtlb,
            m->stlb, counts.faults[part], counts.file_faults[part]);
        for (UInt i = 0; i < HT_FARS; i++) put(", \"far_%umib_misses\": %llu", 4U << i, m->far[i]);
    }
    // With accesses the program is the recorded one, whose branches no file has.
    if (options.simulate && !(options.splice && part == PART_PROGRAM))
        put(", \"branches\": %llu, \"branch_misses\": %llu", counts.branches[part].branches,
            counts.branches[part].misses);
    put(", \"mapping_calls\": %llu}", part == PART_ALLOCATOR ? counts.mapping_calls : 0);
}

// What calls took, by function and size class.
static void put_costs(void) {
    Bool first = True;
    put(",\n\"calls_by_size\": [");
    for (UInt kind = CALL_MALLOC; kind < CALL_KINDS; kind++) {
        for (UInt i = 0; i < SIZE_CLASSES; i++) {
            const struct call_cost *cost = &counts.costs[kind][i];
            if (!cost->calls && !cost->instructions) continue;
            put("%s\n  {\"function\": \"%s\", \"size_low\": %llu, \"calls\": %llu, \"instructions\": %llu}",
                first ? "" : ",", call_names[kind], i ? size_class_low(i) : 0, cost->calls,
                cost->instructions);
            first = False;
        }
    }
    put("]");
}

static void put_calls(void) {
    put(",\n\"calls\": {");
    for (UInt kind = CALL_MALLOC; kind < CALL_KINDS; kind++)
        put("%s\"%s\": %llu", kind > CALL_MALLOC ? ", " : "", call_names[kind], counts.calls[kind]);
    put("}");
}

static void put_bursts(void) {
    static const HChar *const names[] = {"program", "allocator"};
    static const enum part parts[] = {PART_PROGRAM, PART_ALLOCATOR};
    put(",\n\"sampled\": {\"bursts\": %u, \"groups\": [", bursts);
    for (UInt i = 0; i < burst_groups; i++) {
        struct burst_group group;
        put("%s\n  {", i ? "," : "");
        for (UInt k = 0; k < 2; k++) {
            ULong accesses = burst_group(i, parts[k], &group);
            if (!k) put("\"accesses\": %llu", accesses);
            put(", \"%s\": {\"l1d_misses\": %llu, \"l1i_misses\": %llu, \"dtlb_misses\": %llu}", names[k],
                group.l1d, group.l1i, group.dtlb);
        }
        put("}");
    }
    put("]}");
    extrapolate_bursts();
}

static void put_splice(void) {
    Bool first = True;
    if (!options.splice) return;
    put(",\n\"splice_problem\": ");
    if (splice_problem) put_string(splice_problem);
    else put("null");
    put(",\n\"blocks\": [");
    for (UInt i = 0; i < SIZE_CLASSES; i++) {
        const struct splice_class *class = &splice_classes[i];
        if (!class->accesses) continue;
        put("%s\n  {\"size_low\": %llu, \"accesses\": %llu, \"l1d_misses\": %llu, \"l2_misses\": %llu}",
            first ? "" : ",", size_class_low(i), class->accesses, class->l1d, class->l2);
        first = False;
    }
    put("]");
}

static void put_counts(void) {
    HChar command[4096];
    VG_(client_cmd_and_args)(command, sizeof command);
    put("{\"schema\": 1, \"pid\": %d, \"parent_pid\": %d, \"forked\": %s, \"threads\": %u, \"simulated\": %s, \"command\": ",
        VG_(getpid)(), VG_(getppid)(), counts.forked ? "true" : "false", threads_seen(),
        options.simulate ? "true" : "false");
    put_string(command);
    if (is_spliced_sampled()) put_bursts();
    ULong total = options.within ? counts.within : counts.instructions;
    if (options.splice) {
        // The program is the recorded one. An allocator without operators of its own is called by those of the C++ library,
        // which the replay has not.
        if (!has_operators()) counts.allocator += spliced_operators;
        total = counts.allocator + spliced_instructions;
        counts.misses[PART_PROGRAM].accesses = spliced_accesses;
    }
    put(",\n\"instructions\": %llu", total);
    put_part("program", PART_PROGRAM, total - counts.allocator - (options.within ? 0 : counts.loader));
    put_part("allocator", PART_ALLOCATOR, counts.allocator);
    put_part("loader", PART_LOADER, options.within ? 0 : counts.loader);
    put_calls();
    put_costs();
    put_splice();
    put_profile();
    put("\n}\n");
}

void write_counts(void) {
    if (!options.out) return;
    HChar *path = VG_(expand_file_name)("--out", options.out);
    const HChar *text;
    UInt bytes;
    put_counts();
    text = put_text(&bytes);
    SysRes opened = VG_(open)(path, VKI_O_CREAT | VKI_O_TRUNC | VKI_O_WRONLY, 0600);
    if (sr_isError(opened) || VG_(write)((Int)sr_Res(opened), text, (Int)bytes) != (Int)bytes) {
        VG_(umsg)("%s: the counts cannot be written\n", path);
        VG_(exit)(1);
    }
    VG_(close)((Int)sr_Res(opened));
}
