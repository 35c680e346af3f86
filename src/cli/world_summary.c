/* SPDX-License-Identifier: Apache-2.0 */
/* The facts and lines of world_summary.h; keys and warnings are in world_advice.c. */
#include "cli/world_summary.h"

#include "base/memory.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void fill_own(const cero_context *context, const cero_engine *engine,
                     const cero_zero_cost *cost, cero_rank_facts *own)
{
    const cero_engine_plan *plan = cero_engine_get_plan(engine);
    const cero_comm *comm = context->comm;

    *own = (cero_rank_facts){
        .node = cero_comm_node_of(comm, cero_comm_rank(comm)),
        .machine_cores = sysconf(_SC_NPROCESSORS_ONLN),
        .threads = cero_device_threads(context->device),
        .total = (int64_t)plan->total,
        .sent = cost->reductions.bytes + cost->gathers.bytes,
        .between_nodes = cost->reductions.bytes_between_nodes + cost->gathers.bytes_between_nodes,
        .messages = cost->reductions.messages + cost->gathers.messages,
    };
    own->cores = cero_device_cores(&own->core_set);
    if (gethostname(own->host, sizeof(own->host) - 1) != 0 || own->host[0] == '\0') {
        (void)snprintf(own->host, sizeof(own->host), "unknown");
    }
    for (int c = 0; c < CERO_MEM_COUNT; c++) {
        own->memory[c] = (int64_t)plan->bytes[c];
    }
}

static void fill_units(const cero_engine *engine, cero_world_facts *out)
{
    out->unit_count = cero_engine_unit_count(engine);
    for (int64_t u = 0; u < out->unit_count; u++) {
        cero_engine_unit unit = cero_engine_get_unit(engine, u);
        out->numel += unit.numel;
        out->whole_numel += unit.is_whole ? unit.numel : 0;
        out->largest_unit =
            unit.trained_numel > out->largest_unit ? unit.trained_numel : out->largest_unit;
    }
}

cero_status cero_world_facts_gather(cero_context *context, const cero_config *config,
                                    const cero_engine *engine, int64_t steps, cero_world_facts *out)
{
    cero_comm *comm = context->comm;
    cero_rank_facts own;

    *out = (cero_world_facts){
        .config = config,
        .size = cero_comm_size(comm),
        .node_count = cero_comm_node_count(comm),
        .has_shared_memory = cero_comm_has_shared_memory(comm),
        .transport = cero_comm_transport_name(comm),
        .library = cero_comm_mpi_library(),
        .steps = steps,
        .rank = cero_new((size_t)cero_comm_size(comm), sizeof(cero_rank_facts)),
    };
    CERO_TRY(cero_comm_agree(comm, out->rank != NULL ? CERO_OK
                                                     : CERO_FAIL(CERO_ERR_NOMEM,
                                                                 "no memory for the facts of "
                                                                 "%d ranks",
                                                                 out->size)));
    cero_engine_zero_summary(engine, &out->zero);
    cero_engine_zero_cost(engine, &out->cost);
    fill_units(engine, out);
    fill_own(context, engine, &out->cost, &own);
    return cero_comm_all_gather(comm, &own, sizeof(own), out->rank);
}

void cero_world_facts_cleanup(cero_world_facts *facts)
{
    cero_delete(facts->rank);
    facts->rank = NULL;
}

/* Least and most of an integer of ranks, all or those of a node. */
typedef struct range {
    int64_t least;
    int64_t most;
} range;

static range range_of(const cero_world_facts *f, int64_t node, size_t offset)
{
    range r = {.least = INT64_MAX, .most = INT64_MIN};

    for (int i = 0; i < f->size; i++) {
        int64_t value;
        memcpy(&value, (const char *)&f->rank[i] + offset, sizeof(value));
        if (node < 0 || f->rank[i].node == node) {
            r.least = value < r.least ? value : r.least;
            r.most = value > r.most ? value : r.most;
        }
    }
    return r;
}

static void put_range(range r, cero_text *out)
{
    cero_text_printf(out, "%lld", (long long)r.least);
    if (r.most != r.least) {
        cero_text_printf(out, " to %lld", (long long)r.most);
    }
}

/* "231.00 KiB", or "231.00 to 232.00 KiB" where ranks differ. */
static void put_bytes_range(range r, cero_text *out)
{
    char least[32];
    char most[32];

    (void)cero_text_bytes((double)r.least, least, sizeof(least));
    (void)cero_text_bytes((double)r.most, most, sizeof(most));
    if (strcmp(least, most) == 0) {
        cero_text_printf(out, "%s", most);
        return;
    }
    const char *unit = strchr(least, ' ');
    const char *other = strchr(most, ' ');
    bool has_same_unit = unit != NULL && other != NULL && strcmp(unit, other) == 0;
    cero_text_printf(out, "%.*s to %s", has_same_unit ? (int)(unit - least) : (int)sizeof(least),
                     least, most);
}

static void put_bytes(double nbytes, cero_text *out)
{
    char text[32];

    cero_text_printf(out, "%s", cero_text_bytes(nbytes, text, sizeof(text)));
}

static int ranks_of(const cero_world_facts *f, int node)
{
    int count = 0;

    for (int r = 0; r < f->size; r++) {
        count += f->rank[r].node == node ? 1 : 0;
    }
    return count;
}

/* "0 - 3", or "0 2 4". */
static void put_ranks(const cero_world_facts *f, int node, cero_text *out)
{
    const char *before = "";

    for (int r = 0; r < f->size; r++) {
        int last = r;
        if (f->rank[r].node != node) {
            continue;
        }
        while (last + 1 < f->size && f->rank[last + 1].node == node) {
            last++;
        }
        cero_text_printf(out, last > r ? "%s%d - %d" : "%s%d", before, r, last);
        before = " ";
        r = last;
    }
}

static void put_node(const cero_world_facts *f, int node, cero_text *out)
{
    range sets = {.least = 0};
    range machine = range_of(f, node, offsetof(cero_rank_facts, machine_cores));
    range cores = range_of(f, node, offsetof(cero_rank_facts, cores));
    range threads = range_of(f, node, offsetof(cero_rank_facts, threads));
    const cero_rank_facts *first = NULL;
    int count = ranks_of(f, node);

    for (int r = 0; r < f->size; r++) {
        if (f->rank[r].node == node) {
            first = first == NULL ? &f->rank[r] : first;
            sets.most += f->rank[r].core_set != first->core_set ? 1 : 0;
        }
    }
    cero_text_printf(out, "node %-5d host %s: rank%s ", node, first != NULL ? first->host : "",
                     count > 1 ? "s" : "");
    put_ranks(f, node, out);
    cero_text_printf(out, ", ");
    put_range(cores, out);
    cero_text_printf(out, " of %lld cores allowed%s, ", (long long)machine.most,
                     count == 1       ? ""
                     : sets.most == 0 ? ", the same for all"
                                      : " each");
    put_range(threads, out);
    cero_text_printf(out, " thread%s%s\n", threads.most > 1 ? "s" : "", count > 1 ? " each" : "");
}

static const char *transport_of(const cero_world_facts *f)
{
    if (!f->has_shared_memory || f->node_count == f->size) {
        return "messages";
    }
    return f->node_count == 1 ? "shared memory"
                              : "shared memory inside a node, messages between nodes";
}

void cero_summary_world(const cero_world_facts *f, cero_text *out)
{
    if (f->size == 1) {
        cero_text_printf(out, "world      1 rank\n");
    } else {
        cero_text_printf(out, "world      ranks %d on %d node%s (", f->size, f->node_count,
                         f->node_count > 1 ? "s" : "");
        for (int n = 0; n < f->node_count; n++) {
            cero_text_printf(out, "%s%d", n > 0 ? " + " : "", ranks_of(f, n));
        }
        cero_text_printf(out, "), dp %d, threads ", f->size);
        put_range(range_of(f, -1, offsetof(cero_rank_facts, threads)), out);
        cero_text_printf(out, " per rank; transport: %s, %s\n", transport_of(f), f->library);
    }
    for (int n = 0; n < f->node_count; n++) {
        put_node(f, n, out);
    }
}

static void put_stage(const cero_world_facts *f, cero_text *out)
{
    static const char *const cut[] = {
        "nothing is cut: every rank holds everything",
        "optimizer states are cut",
        "optimizer states and gradient sums are cut",
        "optimizer states, gradient sums and parameters are cut",
    };
    const cero_train_spec *spec = cero_train_config_spec(f->config);

    if (f->size == 1) {
        cero_text_printf(out, "zero       stage %d of the config: one rank holds everything\n",
                         spec->zero_stage);
        return;
    }
    // Where every unit stays whole, stage 3 is stage 2.
    bool is_uncut = f->zero.stage == 3 && f->zero.whole_units == f->unit_count;
    cero_text_printf(out, "zero       stage %d, %s", f->zero.stage,
                     cut[is_uncut ? 2 : f->zero.stage]);
    if (f->zero.stage > 0) {
        cero_text_printf(out, " over %d ranks", f->size);
    }
    cero_text_printf(out, "; %s%s\n",
                     spec->overlap_comm ? "exchanges of gradients go on while backward does"
                                        : "exchanges of gradients are waited for",
                     f->zero.is_shared ? "; a node keeps one copy of the parameters" : "");
}

static const char *order_reason(const cero_world_facts *f)
{
    cero_gradient_order asked = cero_train_config_spec(f->config)->gradient_order;
    bool is_local = strcmp(f->zero.order, "local") == 0;

    if (asked == CERO_GRADIENT_ORDER_LOCAL && !is_local) {
        return "of local: a rank has one micro-batch, so there is nothing to add first";
    }
    if (asked != CERO_GRADIENT_ORDER_AUTO) {
        return "as configured";
    }
    if (is_local) {
        return "auto: at stages 0 and 1 a rank can add its own micro-batches first";
    }
    if (strcmp(f->zero.order, "node") == 0) {
        return "auto: nodes of several ranks, which share memory";
    }
    return f->node_count == 1         ? "auto: one node"
           : f->node_count == f->size ? "auto: one rank on each node"
                                      : "auto: ranks of a node share no memory";
}

static void put_order(const cero_world_facts *f, cero_text *out)
{
    int own_node = ranks_of(f, (int)f->rank[0].node);
    double leaving = (double)(f->size - own_node) / (double)(f->size - 1);

    cero_text_printf(out, "order      %s (%s); ", f->zero.order, order_reason(f));
    if (strcmp(f->zero.order, "local") == 0) {
        cero_text_printf(out, "bits depend on the number of ranks; gradients take ");
    } else if (strcmp(f->zero.order, "node") == 0) {
        cero_text_printf(out, "bits depend on how ranks form nodes; gradients take ");
    } else {
        cero_text_printf(out, "bits depend on neither ranks nor nodes; gradients take ");
    }
    put_bytes(f->zero.gradient_bytes, out);
    cero_text_printf(out, " a step and rank");
    if (strcmp(f->zero.order, "local") == 0) {
        cero_text_printf(out, ", in order global ");
        put_bytes(f->zero.gradient_bytes_global, out);
    } else if (strcmp(f->zero.order, "node") == 0) {
        cero_text_printf(out, ", of which ");
        put_bytes((double)f->cost.reductions.bytes_between_nodes, out);
        cero_text_printf(out, " leave the node, in order global ");
        put_bytes(f->zero.gradient_bytes_global * leaving, out);
    }
    cero_text_printf(out, "\n");
}

static void put_buckets(const cero_world_facts *f, cero_text *out)
{
    int64_t bucket = cero_train_config_spec(f->config)->reduce_bucket_size;

    if (bucket >= f->largest_unit) {
        cero_text_printf(out,
                         "buckets    reduce_bucket_size %lld is clamped to the model: gradients go "
                         "unit by unit, the largest has %lld elements\n",
                         (long long)bucket, (long long)f->largest_unit);
    } else {
        cero_text_printf(out,
                         "buckets    gradients go in pieces of %lld elements over all ranks "
                         "(reduce_bucket_size); the largest unit has %lld\n",
                         (long long)bucket, (long long)f->largest_unit);
    }
}

static void put_stage_3(const cero_world_facts *f, cero_text *out)
{
    const cero_train_spec *spec = cero_train_config_spec(f->config);

    if (f->zero.whole_units > 0) {
        cero_text_printf(
            out,
            "whole      %lld of %lld units, %lld of %lld elements, stay whole on every "
            "rank: they have at most stage3_param_persistence_threshold %lld%s\n",
            (long long)f->zero.whole_units, (long long)f->unit_count, (long long)f->whole_numel,
            (long long)f->numel, (long long)spec->stage3_param_persistence_threshold,
            f->zero.whole_units == f->unit_count ? "; no parameter is cut, lower it to cut them"
                                                 : "");
    }
    if (f->zero.whole_units == f->unit_count) {
        return;
    }
    cero_text_printf(
        out,
        "prefetch   up to %lld elements ahead of use (%s): %lld of a step's %lld gathers start "
        "ahead\n",
        (long long)f->cost.ahead_limit,
        f->cost.ahead_limit < spec->stage3_prefetch_bucket_size
            ? "an eighth of the model; stage3_prefetch_bucket_size is clamped to it"
            : "stage3_prefetch_bucket_size",
        (long long)f->cost.uses_ahead, (long long)f->cost.uses);
    if (f->node_count == 1) {
        cero_text_printf(out, "           parameters are gathered for every use: on one node stage "
                              "2 is usually faster where its memory suffices\n");
    }
}

static void put_sent(const cero_world_facts *f, cero_text *out)
{
    const cero_rank_facts *first = &f->rank[0];
    double by_message = (double)(f->has_shared_memory ? first->between_nodes : first->sent);

    cero_text_printf(out, "sends      ");
    put_bytes_range(range_of(f, -1, offsetof(cero_rank_facts, sent)), out);
    cero_text_printf(out, " a step and rank, ");
    put_bytes((double)f->cost.reductions.bytes, out);
    cero_text_printf(out, " of gradients and ");
    put_bytes((double)f->cost.gathers.bytes, out);
    cero_text_printf(out, f->zero.stage == 0 ? " of their sums" : " of parameters");
    if (first->messages == 0) {
        cero_text_printf(out, "; peers read it in shared memory, without messages\n");
        return;
    }
    cero_text_printf(out, "; %lld messages of ", (long long)first->messages);
    put_bytes(by_message / (double)first->messages, out);
    cero_text_printf(out, " on average");
    if (f->node_count > 1) {
        cero_text_printf(out, "; ");
        put_bytes((double)first->between_nodes, out);
        cero_text_printf(out, " leave the node");
    }
    cero_text_printf(out, "\n");
}

void cero_summary_zero(const cero_world_facts *f, cero_text *out)
{
    put_stage(f, out);
    if (f->size == 1) {
        return;
    }
    put_order(f, out);
    put_buckets(f, out);
    if (f->zero.stage == 3) {
        put_stage_3(f, out);
    }
    put_sent(f, out);
}

void cero_summary_memory(const cero_world_facts *f, cero_text *out)
{
    const char *before = f->size > 1 ? " a rank: " : ": ";

    cero_text_printf(out, "memory     ");
    put_bytes_range(range_of(f, -1, offsetof(cero_rank_facts, total)), out);
    for (int c = 0; c < CERO_MEM_COUNT; c++) {
        range r = range_of(f, -1, offsetof(cero_rank_facts, memory) + (size_t)c * sizeof(int64_t));
        if (r.most > 0) {
            cero_text_printf(out, "%s%s ", before, cero_mem_category_name((cero_mem_category)c));
            put_bytes_range(r, out);
            before = ", ";
        }
    }
    cero_text_printf(out, "\n");
}
