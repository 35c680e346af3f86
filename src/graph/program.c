/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiling a graph to instructions and running them. Where buffers lie is plan.c's business.
 */
#include "graph/program.h"

#include "base/clock.h"
#include "graph/plan.h"

#include <string.h>

typedef struct instruction {
    const cero_node *node;
    cero_op_run run;
    cero_tensor_desc input_desc[CERO_MAX_INPUTS];
    cero_tensor_desc output_desc[CERO_MAX_OUTPUTS];
    void *input[CERO_MAX_INPUTS];
    void *output[CERO_MAX_OUTPUTS];
    double seconds; /* since profiling began, over `runs` runs */
    int64_t runs;
} instruction;

struct cero_program {
    cero_graph *graph; /* borrowed */
    cero_plan plan;
    cero_program_stats stats;
    instruction *list; /* owned, [stats.instruction_count] */
    bool is_profiling;
    /* after bind */
    cero_mem *mem; /* borrowed */
    void *arena;
    void *exchange; /* borrowed */
    void (*idle)(void *context);
    void *idle_context;
    bool is_arena_shared;
    const cero_program *state_owner; /* borrowed: whose states these are; NULL: own */
    void **data;                     /* owned, [value_count]: memory of sources */
};

/* Operations and bytes of one run; an op that tells no bytes reads its inputs and writes its outputs. */
static cero_cost instruction_cost(const instruction *in)
{
    const cero_node *node = in->node;
    cero_cost cost = {0};

    if (node->op->cost != NULL) {
        node->op->cost(node->attr, in->input_desc, in->output_desc, &cost);
    }
    if (cost.bytes == 0) {
        for (int k = 0; k < node->input_count; k++) {
            // A room is only named: what its values cost is counted where they are used.
            bool is_room = node->input[k]->kind == CERO_VALUE_ROOM;
            cost.bytes += is_room ? 0.0 : (double)cero_plan_value_bytes(node->input[k]);
        }
        for (int k = 0; k < node->output_count; k++) {
            cost.bytes += (double)cero_plan_value_bytes(node->output[k]);
        }
    }
    return cost;
}

static void count_work(cero_program *program)
{
    cero_program_stats *stats = &program->stats;

    for (int64_t i = 0; i < stats->instruction_count; i++) {
        const instruction *in = &program->list[i];
        cero_cost cost = instruction_cost(in);

        stats->flops[in->node->phase] += cost.flops;
        stats->bytes[in->node->phase] += cost.bytes;
    }
}

static void count_sources(cero_program *program)
{
    for (int64_t i = 0; i < program->graph->value_count; i++) {
        const cero_value *v = program->graph->values[i];
        size_t nbytes = cero_plan_value_bytes(v);
        if (v->kind == CERO_VALUE_INPUT) {
            program->stats.input_bytes += nbytes;
        } else if (v->kind == CERO_VALUE_CONSTANT) {
            program->stats.constant_bytes += nbytes;
        } else if (v->kind == CERO_VALUE_STATE) {
            program->stats.state_bytes += nbytes;
        }
    }
}

cero_status cero_program_create(cero_graph *graph, cero_program **out)
{
    cero_status st = CERO_OK;
    CERO_CHECK(graph->status == CERO_OK, graph->status, "the graph has an error: %s",
               cero_error_message());
    cero_program *program = cero_new(1, sizeof(*program));

    if (program == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for a program");
    }
    program->graph = graph;
    cero_graph_prune(graph);
    program->stats.instruction_count = graph->node_count;
    program->list = cero_new((size_t)graph->node_count, sizeof(instruction));
    program->data = cero_new((size_t)graph->value_count, sizeof(void *));
    if (program->list == NULL || program->data == NULL) {
        CERO_FAIL_GOTO(fail, CERO_ERR_NOMEM, "no memory for %lld instructions",
                       (long long)graph->node_count);
    }
    for (int64_t i = 0; i < graph->node_count; i++) {
        instruction *in = &program->list[i];
        in->node = graph->nodes[i];
        for (int k = 0; k < in->node->input_count; k++) {
            in->input_desc[k] = in->node->input[k]->desc;
        }
        for (int k = 0; k < in->node->output_count; k++) {
            in->output_desc[k] = in->node->output[k]->desc;
        }
    }
    CERO_TRY_GOTO(cero_plan_create(graph, &program->plan), fail);
    program->stats.arena_bytes = program->plan.arena_bytes;
    program->stats.exchange_bytes = program->plan.exchange_bytes;
    program->stats.lower_bound = program->plan.lower_bound;
    count_sources(program);
    count_work(program);
    *out = program;
    return CERO_OK;

fail:
    cero_program_destroy(&program);
    return st;
}

void cero_program_destroy(cero_program **program)
{
    if (program == NULL || *program == NULL) {
        return;
    }
    cero_program *p = *program;
    if (p->mem != NULL) {
        for (int64_t i = 0; p->data != NULL && i < p->graph->value_count; i++) {
            bool is_borrowed =
                p->state_owner != NULL && p->graph->values[i]->kind == CERO_VALUE_STATE;
            cero_mem_free(p->mem, is_borrowed ? NULL : p->data[i]);
        }
        if (!p->is_arena_shared) {
            cero_mem_free(p->mem, p->arena);
        }
    }
    cero_plan_cleanup(&p->plan);
    cero_delete(p->data);
    cero_delete(p->list);
    cero_delete(p);
    *program = NULL;
}

const cero_program_stats *cero_program_get_stats(const cero_program *program)
{
    return &program->stats;
}

static cero_status allocate_sources(cero_program *program)
{
    const cero_graph *g = program->graph;

    for (int64_t i = 0; i < g->value_count; i++) {
        const cero_value *v = g->values[i];
        bool is_source = v->kind == CERO_VALUE_INPUT || v->kind == CERO_VALUE_CONSTANT ||
                         v->kind == CERO_VALUE_STATE;
        if (!is_source) {
            continue;
        }
        size_t nbytes = cero_plan_value_bytes(v);
        if (v->kind == CERO_VALUE_STATE && program->state_owner != NULL) {
            program->data[i] = cero_program_data(program->state_owner, v->name);
            CERO_CHECK(program->data[i] != NULL, CERO_ERR_INTERNAL, "no state %s to share",
                       v->name);
            continue;
        }
        CERO_TRY(cero_mem_alloc(program->mem, nbytes,
                                v->kind == CERO_VALUE_INPUT ? CERO_MEM_IO : CERO_MEM_OTHER, v->name,
                                &program->data[i]));
        memset(program->data[i], 0, nbytes);
        if (v->kind == CERO_VALUE_CONSTANT) {
            v->fill(v->fill_context, program->data[i]);
        }
    }
    return CERO_OK;
}

static void *address(const cero_program *program, const cero_value *value,
                     const cero_program_bindings *b)
{
    const cero_value *root = program->plan.place[value->id].root;

    if (root->home != NULL) {
        return (char *)program->exchange + program->plan.place[root->home->id].offset +
               root->home_offset;
    }
    switch (root->kind) {
    case CERO_VALUE_ROOM:
        return (char *)program->exchange + program->plan.place[root->id].offset;
    case CERO_VALUE_PARAM:
        return b->param[root->param];
    case CERO_VALUE_GRAD:
        return b->grad[root->param];
    case CERO_VALUE_ACTIVATION:
        return (char *)program->arena + program->plan.place[root->id].offset;
    case CERO_VALUE_INPUT:
    case CERO_VALUE_STATE:
    case CERO_VALUE_CONSTANT:
        return program->data[root->id];
    }
    return NULL;
}

cero_status cero_program_bind(cero_program *program, const cero_program_bindings *bindings)
{
    size_t arena_bytes = program->stats.arena_bytes;

    CERO_ASSERT(program->mem == NULL && !cero_device_is_meta(program->graph->device));
    program->mem = bindings->mem;
    program->is_arena_shared = bindings->shared_arena != NULL;
    program->state_owner = bindings->state_owner;
    program->exchange = bindings->exchange;
    if (program->is_arena_shared) {
        CERO_CHECK(bindings->shared_arena_bytes >= arena_bytes, CERO_ERR_INTERNAL,
                   "a program of %zu bytes cannot share an arena of %zu bytes", arena_bytes,
                   bindings->shared_arena_bytes);
        program->arena = bindings->shared_arena;
    } else {
        CERO_TRY(cero_mem_alloc(program->mem, arena_bytes, CERO_MEM_ACTIVATION, "activations",
                                &program->arena));
    }
    CERO_TRY(allocate_sources(program));
    for (int64_t i = 0; i < program->stats.instruction_count; i++) {
        instruction *in = &program->list[i];
        for (int k = 0; k < in->node->input_count; k++) {
            in->input[k] = address(program, in->node->input[k], bindings);
        }
        for (int k = 0; k < in->node->output_count; k++) {
            in->output[k] = address(program, in->node->output[k], bindings);
        }
        in->run = (cero_op_run){
            .device = program->graph->device,
            .attr = in->node->attr,
            .input_desc = in->input_desc,
            .output_desc = in->output_desc,
            .input = in->input,
            .output = in->output,
            .scratch = (char *)program->arena + program->plan.scratch_offset[i],
        };
    }
    return CERO_OK;
}

void *cero_program_data(const cero_program *program, const char *name)
{
    const cero_value *value = cero_graph_find_output(program->graph, name);

    if (value == NULL) {
        value = cero_graph_find_value(program->graph, name);
    }
    if (value == NULL) {
        return NULL;
    }
    const cero_value *root = program->plan.place[value->id].root;
    return root->kind == CERO_VALUE_ACTIVATION
               ? (char *)program->arena + program->plan.place[root->id].offset
               : program->data[root->id];
}

void *cero_program_arena(const cero_program *program)
{
    return program->arena;
}

size_t cero_program_room_offset(const cero_program *program, const cero_value *room)
{
    return program->plan.place[room->id].offset;
}

void cero_program_set_idle(cero_program *program, void (*idle)(void *context), void *context)
{
    program->idle = idle;
    program->idle_context = context;
}

static cero_status run_instruction(instruction *in, const cero_graph *graph)
{
    cero_status st = in->node->op->run(&in->run);

    if (CERO_UNLIKELY(st != CERO_OK)) {
        const char *unit = in->node->unit >= 0 ? graph->units[in->node->unit].name : "no unit";
        return cero_error_prefix(st, "running %s of %s: ", in->node->op->name, unit);
    }
    return CERO_OK;
}

cero_status cero_program_run(cero_program *program, const cero_step_env *env,
                             cero_program_part part)
{
    for (int64_t i = 0; i < program->stats.instruction_count; i++) {
        instruction *in = &program->list[i];
        bool is_forward = in->node->phase == CERO_PHASE_FORWARD;
        if (((unsigned)part & (is_forward ? CERO_PROGRAM_FORWARD : CERO_PROGRAM_BACKWARD)) == 0) {
            continue;
        }
        in->run.env = env;
        double start = program->is_profiling ? cero_clock_now() : 0;
        CERO_TRY(run_instruction(in, program->graph));
        if (program->idle != NULL) {
            program->idle(program->idle_context);
        }
        if (program->is_profiling) {
            in->seconds += cero_clock_now() - start;
            in->runs++;
        }
    }
    return CERO_OK;
}

cero_status cero_program_profile_begin(cero_program *program)
{
    program->is_profiling = true;
    for (int64_t i = 0; i < program->stats.instruction_count; i++) {
        program->list[i].seconds = 0;
        program->list[i].runs = 0;
    }
    return CERO_OK;
}

void cero_program_profile_end(cero_program *program)
{
    program->is_profiling = false;
}

bool cero_program_profile_get(const cero_program *program, int64_t i, cero_program_profile *out)
{
    if (i < 0 || i >= program->stats.instruction_count) {
        return false;
    }
    const instruction *in = &program->list[i];
    *out = (cero_program_profile){.unit = in->node->unit,
                                  .op = in->node->op->name,
                                  .phase = in->node->phase,
                                  .runs = in->runs,
                                  .seconds = in->seconds,
                                  .flops = instruction_cost(in).flops};
    return true;
}

cero_status cero_program_profile_write(const cero_program *program, cero_text *out)
{
    double total = 0;
    int64_t count = program->stats.instruction_count;

    for (int64_t i = 0; i < count; i++) {
        total += program->list[i].seconds;
    }
    cero_text_printf(out, "%-24s %8s %10s %7s %10s\n", "op", "calls", "seconds", "share",
                     "GFLOP/s");
    for (int64_t i = 0; i < count; i++) {
        const cero_op *op = program->list[i].node->op;
        double seconds = 0;
        double flops = 0;
        int64_t calls = 0;
        bool is_first = true;
        for (int64_t j = 0; j < count; j++) {
            const instruction *in = &program->list[j];
            if (in->node->op != op) {
                continue;
            }
            is_first = is_first && j >= i;
            seconds += in->seconds;
            flops += instruction_cost(in).flops * (double)in->runs;
            calls += in->runs;
        }
        if (is_first) {
            cero_text_printf(out, "%-24s %8lld %10.4f %6.1f%% %10.1f\n", op->name, (long long)calls,
                             seconds, total > 0 ? 100 * seconds / total : 0.0,
                             seconds > 0 ? flops / seconds * 1e-9 : 0.0);
        }
    }
    return cero_text_finish(out);
}

static void dump_value(const cero_program *program, const cero_value *value, cero_text *out)
{
    static const char *const kinds[] = {"arena", "input", "param", "grad",
                                        "state", "const", "room"};
    char shape[128];
    const cero_place *place = &program->plan.place[value->id];

    cero_text_printf(out, " %s%s", cero_dtype_name(value->desc.dtype),
                     cero_shape_format(&value->desc.shape, shape, sizeof(shape)));
    if (place->root->kind == CERO_VALUE_ACTIVATION) {
        cero_text_printf(out, "@%zu", program->plan.place[place->root->id].offset);
    } else {
        cero_text_printf(out, "@%s", kinds[place->root->kind]);
        if (place->root->param >= 0) {
            cero_text_printf(out, ":%s", program->graph->params[place->root->param].name);
        }
        const cero_value *room =
            place->root->kind == CERO_VALUE_ROOM ? place->root : place->root->home;
        if (room != NULL) {
            cero_text_printf(out, "@%zu",
                             program->plan.place[room->id].offset + place->root->home_offset);
        }
    }
}

cero_status cero_program_dump(const cero_program *program, cero_text *out)
{
    static const char *const phases[] = {"forward", "backward", "recompute"};

    for (int64_t i = 0; i < program->stats.instruction_count; i++) {
        const instruction *in = &program->list[i];
        const cero_node *node = in->node;
        cero_text_printf(out, "%5lld %-9s %-12s %-20s", (long long)i, phases[node->phase],
                         node->unit >= 0 ? program->graph->units[node->unit].name : "-",
                         node->op->name);
        for (int k = 0; k < node->output_count; k++) {
            dump_value(program, node->output[k], out);
        }
        cero_text_printf(out, " <-");
        for (int k = 0; k < node->input_count; k++) {
            dump_value(program, node->input[k], out);
        }
        if (node->scratch_bytes > 0) {
            cero_text_printf(out, " scratch %zu@%zu", node->scratch_bytes,
                             program->plan.scratch_offset[i]);
        }
        cero_text_printf(out, " %.3g flop\n", instruction_cost(in).flops);
    }
    return cero_text_finish(out);
}
