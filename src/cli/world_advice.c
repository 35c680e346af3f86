/* SPDX-License-Identifier: Apache-2.0 */
/* Keys that have no effect in a layout, and what will make a run slow; see world_summary.h. */
#include "cli/world_summary.h"

#include <string.h>

/* Messages below this are ruled by their latency. */
#define SMALL_MESSAGE 65536.0

enum {
    MANY_MESSAGES = 1000, /* of a step; fewer cost nothing, whatever their size */
    PIECE_BLOCK = 256     /* elements: pieces of an exchange are multiples of it */
};

/* A key, and why it does nothing here. */
typedef struct idle_key {
    bool is_idle;
    const char *path;
    const char *why;
} idle_key;

static bool is_given(const cero_world_facts *f, const char *path)
{
    cero_origin origin = cero_train_config_origin(f->config, path);

    return origin == CERO_ORIGIN_FILE || origin == CERO_ORIGIN_COMMAND;
}

static void put_idle(const cero_world_facts *f, const idle_key *keys, size_t count,
                     const char **label, cero_text *out)
{
    for (size_t i = 0; i < count; i++) {
        if (keys[i].is_idle && is_given(f, keys[i].path)) {
            cero_text_printf(out, "%-10s %s: %s\n", *label, keys[i].path, keys[i].why);
            *label = "";
        }
    }
}

/* Keys of ZeRO and of the order of sums. */
static void put_idle_layout(const cero_world_facts *f, const char **label, cero_text *out)
{
    const cero_train_spec *s = cero_train_config_spec(f->config);
    bool is_alone = f->size == 1;
    bool is_below_3 = f->zero.stage < 3;
    bool is_uncut = !is_below_3 && f->zero.whole_units == f->unit_count;
    bool is_sharing = s->share_within_node;
    bool has_sharers = f->node_count < f->size;
    const char *alone = "one rank exchanges nothing";
    const char *below = is_alone ? alone : "for stage 3 alone";
    const idle_key keys[] = {
        {is_alone && s->zero_stage > 0, "zero_optimization.stage", "one rank holds everything"},
        {is_alone && s->overlap_comm, "zero_optimization.overlap_comm", alone},
        {is_alone, "zero_optimization.reduce_bucket_size", alone},
        {true, "zero_optimization.allgather_bucket_size", "a gather is always of one unit"},
        {is_below_3 || is_uncut, "zero_optimization.stage3_prefetch_bucket_size",
         is_uncut ? "every unit stays whole" : below},
        {is_below_3, "zero_optimization.stage3_param_persistence_threshold", below},
        {is_below_3 || is_uncut, "zero_optimization.stage3_max_live_parameters",
         is_uncut ? "every unit stays whole" : below},
        {is_alone, "cero.gradient_order", alone},
        {is_sharing && !f->zero.is_shared, "cero.share_within_node",
         is_alone ? "there is one rank" : "for stages 1 and 2, where parameters are whole"},
        {is_sharing && f->zero.is_shared && !has_sharers, "cero.share_within_node",
         "each node has one rank"},
    };

    put_idle(f, keys, CERO_COUNT_OF(keys), label, out);
}

/* Keys of what a run reports. */
static void put_idle_reports(const cero_world_facts *f, const char **label, cero_text *out)
{
    static const char comms_off[] = "counts only with comms_logger.enabled";
    static const char flops_off[] = "counts only with flops_profiler.enabled";
    const cero_train_spec *s = cero_train_config_spec(f->config);
    bool has_comms = s->comms_logger_enabled;
    bool has_flops = s->flops_profiler_enabled;
    const idle_key keys[] = {
        {s->wall_clock_breakdown && s->steps_per_print == 0, "wall_clock_breakdown",
         "for the log; steps_per_print is 0"},
        {has_comms && f->size == 1, "comms_logger.enabled", "one rank exchanges nothing"},
        {!has_comms, "comms_logger.verbose", comms_off},
        {!has_comms, "comms_logger.prof_all", comms_off},
        {!has_comms || s->comms_logger_prof_all, "comms_logger.prof_ops",
         has_comms ? "prof_all is true" : comms_off},
        {!has_comms || !s->comms_logger_verbose, "comms_logger.debug",
         has_comms ? "counts only with comms_logger.verbose" : comms_off},
        {!has_flops || s->flops_profiler_profile_step > f->steps, "flops_profiler.profile_step",
         has_flops ? "the run has fewer steps, so nothing is profiled" : flops_off},
        {!has_flops, "flops_profiler.module_depth", flops_off},
        {!has_flops, "flops_profiler.top_modules", flops_off},
        {!has_flops, "flops_profiler.detailed", flops_off},
        {!has_flops, "flops_profiler.output_file", flops_off},
    };

    put_idle(f, keys, CERO_COUNT_OF(keys), label, out);
}

void cero_summary_idle_keys(const cero_world_facts *f, cero_text *out)
{
    const char *label = "no effect";

    for (int i = 0; i < cero_train_config_note_count(f->config); i++) {
        cero_text_printf(out, "%-10s %s\n", label, cero_train_config_note(f->config, i));
        label = "";
    }
    put_idle_layout(f, &label, out);
    put_idle_reports(f, &label, out);
}

/* Ranks that may use the same cores, and have more threads than these. */
static void warn_of_threads(const cero_world_facts *f, cero_text *out)
{
    for (int r = 0; r < f->size && f->size > 1; r++) {
        const cero_rank_facts *a = &f->rank[r];
        int64_t threads = 0;
        int ranks = 0;
        for (int k = 0; k < f->size; k++) {
            const cero_rank_facts *b = &f->rank[k];
            bool is_sharing = b->node == a->node && b->core_set == a->core_set;
            threads += is_sharing ? b->threads : 0;
            ranks += is_sharing ? 1 : 0;
        }
        if (ranks > 1 && threads > a->cores) {
            cero_text_printf(out,
                             "%lld threads of %d ranks share %lld core(s) of host %s and wait for "
                             "each other; start fewer ranks there, or give them more cores (mpirun "
                             "--bind-to none) or fewer threads (--threads)\n",
                             (long long)threads, ranks, (long long)a->cores, a->host);
            return;
        }
    }
}

static void put_small(double nbytes, cero_text *out)
{
    char text[32];

    cero_text_printf(out, "%s", cero_text_bytes(nbytes, text, sizeof(text)));
}

/* A bucket that cuts exchanges into pieces which could be larger. */
static void warn_of_bucket(const cero_world_facts *f, cero_text *out)
{
    const cero_train_spec *s = cero_train_config_spec(f->config);
    bool is_local = strcmp(f->zero.order, "local") == 0;
    int64_t size = is_local ? (int64_t)sizeof(float) : (int64_t)cero_dtype_size(s->compute_dtype);
    int64_t piece = (s->reduce_bucket_size + f->size - 1) / f->size;

    piece = (piece + PIECE_BLOCK - 1) / PIECE_BLOCK * PIECE_BLOCK;
    if (f->size == 1 || piece >= f->largest_unit / f->size ||
        (double)(piece * size) >= SMALL_MESSAGE) {
        return;
    }
    cero_text_printf(out,
                     "zero_optimization.reduce_bucket_size %lld over %d ranks cuts gradients into "
                     "pieces of ",
                     (long long)s->reduce_bucket_size, f->size);
    put_small((double)(piece * size), out);
    if (f->rank[0].messages > 0) {
        cero_text_printf(out, " (%lld messages a step)", (long long)f->rank[0].messages);
    }
    cero_text_printf(
        out, "; exchanges are slow below 64 KiB: give at least %.0f, or leave the key out\n",
        SMALL_MESSAGE / (double)size * f->size);
}

/* Units that so many ranks cut into small parts. */
static void warn_of_messages(const cero_world_facts *f, cero_text *out)
{
    const cero_rank_facts *first = &f->rank[0];
    double by_message = (double)(f->has_shared_memory ? first->between_nodes : first->sent);

    if (first->messages < MANY_MESSAGES || by_message >= SMALL_MESSAGE * (double)first->messages) {
        return;
    }
    cero_text_printf(out, "a step sends %lld messages of ", (long long)first->messages);
    put_small(by_message / (double)first->messages, out);
    cero_text_printf(out,
                     " on average, and messages are slow below 64 KiB: the model's units are "
                     "small for %d ranks; fewer ranks, a lower ZeRO stage or more work a step "
                     "(a larger micro-batch) make it count less\n",
                     f->size);
}

void cero_summary_warnings(const cero_world_facts *facts, cero_text *out)
{
    warn_of_threads(facts, out);
    warn_of_bucket(facts, out);
    warn_of_messages(facts, out);
}
