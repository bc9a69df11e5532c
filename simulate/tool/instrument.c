// SPDX-License-Identifier: GPL-3.0-or-later
// What valgrind adds to each superblock: it counts instructions or leaves its path and its accesses in the buffer, and
// notices where calls of the allocator begin and end. Superblocks end at every jump (no chasing), so that each
// function begins one. Little is added, for the instructions that are made of a large program miss the caches.
#include "tool.h"

#include <libvex_guest_amd64.h>
#include <pub_tool_debuginfo.h>
#include <pub_tool_libcassert.h>
#include <pub_tool_libcbase.h>
#include <pub_tool_machine.h>
#include <pub_tool_mallocfree.h>

enum { BYTES_MAX = EVENT_FIRST_LINE - 1 };  // of an access; for larger ones too

// A superblock under way.
struct block {
    IRSB *out;
    IRTypeEnv *types;
    IRExpr *next;  // where the addresses of its accesses go; NULL where none do
    UChar events[PATH_EVENTS_MAX];
    struct path path;  // so far
    struct path left;  // when it was left last
    ULong code_line;   // the last one
    Addr instruction;  // the last one
    Bool conditional;  // it is a conditional branch
};

static IRExpr *constant(ULong value) { return IRExpr_Const(IRConst_U64(value)); }

static IRExpr *assign(struct block *block, IRType type, IRExpr *value) {
    IRTemp temporary = newIRTemp(block->out->tyenv, type);
    addStmtToIRSB(block->out, IRStmt_WrTmp(temporary, value));
    return IRExpr_RdTmp(temporary);
}

static IRExpr *load(struct block *block, IRType type, const void *address) {
    return assign(block, type, IRExpr_Load(Iend_LE, type, constant((ULong)(Addr)address)));
}

static IRExpr *guest(struct block *block, Int offset) {
    return assign(block, Ity_I64, IRExpr_Get(offset, Ity_I64));
}
#define GUEST(block, name) guest(block, offsetof(VexGuestAMD64State, guest_##name))

static void add(struct block *block, ULong *counter, ULong count) {
    IRExpr *sum =
        assign(block, Ity_I64, IRExpr_Binop(Iop_Add64, load(block, Ity_I64, counter), constant(count)));
    addStmtToIRSB(block->out, IRStmt_Store(Iend_LE, constant((ULong)(Addr)counter), sum));
}

static void store(struct block *block, IRExpr *address, IRExpr *value) {
    addStmtToIRSB(block->out, IRStmt_Store(Iend_LE, address, value));
}

static IRExpr *plus(struct block *block, IRExpr *pointer, ULong bytes) {
    return assign(block, Ity_I64, IRExpr_Binop(Iop_Add64, pointer, constant(bytes)));
}

// Before the block can be left: what it did counts.
static void settle(struct block *block) {
    UInt more = (UInt)(block->path.instructions - block->left.instructions);
    Bool same =
        block->path.event_count == block->left.event_count && block->path.branch == block->left.branch;
    if (!more && (same || !block->next)) return;
    block->left = block->path;
    if (block->next) {
        const ULong word = new_path(&block->path, block->events);
        store(block, plus(block, block->next, offsetof(struct taken, paths)), constant(word));
        if (!block->path.accesses) store(block, block->next, constant(0));
        store(block, constant((ULong)(Addr)&next_address),
              plus(block, block->next, places_of(word) * sizeof taken.addresses[0]));
        return;
    }
    add(block, &counts.instructions, more);
    if (block->path.loader) add(block, &counts.loader, more);
}

// Guards: whether one word is less than another.
static IRExpr *less(struct block *block, IRExpr *one, IRExpr *other) {
    return assign(block, Ity_I1, IRExpr_Binop(Iop_CmpLT64U, one, other));
}

static void call(struct block *block, const HChar *name, void *function, IRExpr **arguments, IRExpr *guard) {
    IRDirty *dirty = unsafeIRDirty_0_N(0, name, VG_(fnptr_to_fnentry)(function), arguments);
    if (guard) dirty->guard = guard;
    addStmtToIRSB(block->out, IRStmt_Dirty(dirty));
}
#define CALL(block, function, arguments, guard) call(block, #function, function, arguments, guard)

static void add_event(struct block *block, UInt event) {
    tl_assert(block->path.event_count < PATH_EVENTS_MAX);
    block->events[block->path.event_count++] = (UChar)event;
}

static void pack(struct block *block, IRExpr *address, UInt bytes) {
    if (!block->next || !bytes) return;
    add_event(block, bytes < BYTES_MAX ? bytes : BYTES_MAX);
    store(block, plus(block, block->next, block->path.accesses++ * sizeof taken.addresses[0]), address);
}

// Where the sample falls among the instructions of this block.
static void sample(struct block *block, UInt instructions) {
    IRExpr *end =
        assign(block, Ity_I64,
               IRExpr_Binop(Iop_Add64, load(block, Ity_I64, &counts.instructions), constant(instructions)));
    CALL(block, take_sample, mkIRExprVec_0(), less(block, load(block, Ity_I64, &next_sample), end));
}

static void begin_block(struct block *block, Addr address, DiEpoch epoch) {
    const HChar *name;
    enum call_kind kind = call_entered_at(address);
    if (options.within && VG_(get_fnname_if_entry)(epoch, address, &name) &&
        !VG_(strcmp)(name, options.within))
        CALL(block, enter_within, mkIRExprVec_1(GUEST(block, RSP)), NULL);
    if (kind != CALL_NONE) {
        CALL(block, enter_call,
             mkIRExprVec_5(constant(kind), GUEST(block, RSP), GUEST(block, RDI), GUEST(block, RSI),
                           GUEST(block, RDX)),
             NULL);
    }
    if (!options.simulate && !options.record) return;
    CALL(block, process_accesses, mkIRExprVec_0(),
         less(block, constant((ULong)(Addr)(taken.addresses + TAKEN_ROOM)),
              load(block, Ity_I64, &next_address)));
    block->next = load(block, Ity_I64, &next_address);
}

// Only a jump whose target is not constant, such as a return, leaves the stack above what it was at a call; or a signal handler that
// goes on elsewhere, which is noticed at the next such jump.
static void notice_returns(struct block *block) {
    if (block->out->next->tag == Iex_Const) return;
    IRExpr *sp = GUEST(block, RSP);
    CALL(block, leave_call, mkIRExprVec_2(sp, GUEST(block, RAX)),
         less(block, load(block, Ity_I64, &running.leave_sp), sp));
    if (options.within)
        CALL(block, leave_within, mkIRExprVec_0(),
             less(block, load(block, Ity_I64, &running.leave_within_sp), sp));
}

static void code_line(struct block *block, Addr address) {
    const ULong line = address >> HT_LINE_SHIFT;
    if (!block->next || line == block->code_line) return;
    if (!block->code_line) {
        block->path.first_line = line;
    } else {
        tl_assert(line == block->code_line + 1 || line == block->path.first_line);
        add_event(block, line == block->path.first_line ? EVENT_FIRST_LINE : EVENT_NEXT_LINE);
    }
    block->code_line = line;
}

// The cycle counter follows the virtual clock.
static void replace_cycle_counter(IRDirty *dirty) {
    if (!options.virtual_clock || VG_(strcmp)(dirty->cee->name, "amd64g_dirtyhelper_RDTSC")) return;
    dirty->cee = mkIRCallee(0, "virtual_cycles", VG_(fnptr_to_fnentry)(virtual_cycles));
}

static void instrument_dirty(struct block *block, IRDirty *dirty) {
    replace_cycle_counter(dirty);
    if (dirty->mFx == Ifx_None) return;
    pack(block, dirty->mAddr, (UInt)dirty->mSize);
}

static UInt bytes_of(struct block *block, IRExpr *value) {
    return (UInt)sizeofIRType(typeOfIRExpr(block->types, value));
}

// An instruction that goes to itself repeats: a string function, which processors do not predict.
static Bool repeats(const struct block *block) {
    const IRExpr *next = block->out->next;
    return next->tag == Iex_Const && next->Iex.Const.con->Ico.U64 == block->instruction;
}

// A conditional branch, or what a superblock is left for besides.
static void leave(struct block *block, IRJumpKind kind) {
    block->conditional = options.simulate && kind == Ijk_Boring && !repeats(block);
    if (block->conditional) {
        block->path.branch = BRANCH_TAKEN;
        block->path.branch_address = block->instruction;
    }
    settle(block);
    block->path.branch = BRANCH_NONE;
}

static void end_block(struct block *block) {
    Bool jumps = options.simulate && (block->out->jumpkind == Ijk_Boring || block->out->jumpkind == Ijk_Call);
    if (block->conditional) block->path.branch = BRANCH_NOT_TAKEN;
    else if (jumps && block->out->next->tag != Iex_Const) block->path.branch = BRANCH_INDIRECT;
    block->path.branch_address = block->instruction;
    settle(block);
    notice_returns(block);
}

static void instrument_statement(struct block *block, IRStmt *statement) {
    switch (statement->tag) {
    case Ist_IMark:
        block->path.instructions++;
        block->instruction = statement->Ist.IMark.addr;
        block->conditional = False;
        code_line(block, statement->Ist.IMark.addr);
        if (statement->Ist.IMark.len)  // of one that VEX does not know it is 0
            code_line(block, statement->Ist.IMark.addr + statement->Ist.IMark.len - 1);
        break;
    case Ist_WrTmp: {
        IRExpr *value = statement->Ist.WrTmp.data;
        if (value->tag == Iex_Load) pack(block, value->Iex.Load.addr, (UInt)sizeofIRType(value->Iex.Load.ty));
        break;
    }
    case Ist_Store: pack(block, statement->Ist.Store.addr, bytes_of(block, statement->Ist.Store.data)); break;
    case Ist_StoreG: {
        IRStoreG *store = statement->Ist.StoreG.details;
        pack(block, store->addr, bytes_of(block, store->data));
        break;
    }
    case Ist_LoadG: {
        IRLoadG *from = statement->Ist.LoadG.details;
        IRType type, wide;
        typeOfIRLoadGOp(from->cvt, &wide, &type);
        pack(block, from->addr, (UInt)sizeofIRType(type));
        break;
    }
    case Ist_CAS: {
        IRCAS *swap = statement->Ist.CAS.details;
        pack(block, swap->addr, bytes_of(block, swap->dataLo) * (swap->dataHi ? 2 : 1));
        break;
    }
    case Ist_Dirty: instrument_dirty(block, statement->Ist.Dirty.details); break;
    case Ist_Exit: leave(block, statement->Ist.Exit.jk); break;
    default: break;
    }
    addStmtToIRSB(block->out, statement);
}

static Bool in_loader(DiEpoch epoch, Addr address) {
    DebugInfo *info = VG_(find_DebugInfo)(epoch, address);
    const HChar *path = info ? VG_(DebugInfo_get_filename)(info) : NULL;
    const HChar *slash = path ? VG_(strrchr)(path, '/') : NULL;
    return slash && !VG_(strncmp)(slash + 1, "ld-linux", 8);
}

IRSB *instrument(VgCallbackClosure *closure, IRSB *in, const VexGuestLayout *layout,
                 const VexGuestExtents *extents, const VexArchInfo *machine, IRType guest_word,
                 IRType host_word) {
    (void)closure, (void)layout, (void)machine, (void)guest_word, (void)host_word;
    DiEpoch epoch = VG_(current_DiEpoch)();
    Addr address = extents->base[0];
    struct block block = {.out = deepCopyIRSBExceptStmts(in), .path.loader = in_loader(epoch, address)};
    Int i = 0;
    UInt instructions = 0;
    block.types = block.out->tyenv;
    while (i < in->stmts_used && in->stmts[i]->tag != Ist_IMark) addStmtToIRSB(block.out, in->stmts[i++]);
    begin_block(&block, address, epoch);
    for (Int k = i; k < in->stmts_used; k++) instructions += in->stmts[k]->tag == Ist_IMark;
    if (options.profile) sample(&block, instructions);
    for (; i < in->stmts_used; i++) instrument_statement(&block, in->stmts[i]);
    end_block(&block);
    return block.out;
}
