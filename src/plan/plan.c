/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles an engine on the meta device and prints what it knows. */
#include "plan/plan.h"

#include <string.h>

struct cero_run_plan {
    cero_context *context; /* owned, like engine */
    cero_engine *engine;
    cero_model_spec model;
    int64_t seq_len;
};

cero_status cero_run_plan_create(const cero_plan_params *params, cero_run_plan **out)
{
    cero_status st = CERO_OK;
    cero_run_plan *plan = cero_new(1, sizeof(*plan));

    if (plan == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for a plan");
    }
    plan->model = *params->model;
    plan->seq_len = params->seq_len > 0 ? params->seq_len : params->model->context;
    cero_engine_params engine = {.build = cero_engine_build_model,
                                 .context = &plan->model,
                                 .seq_len = plan->seq_len,
                                 .no_eval = params->no_eval};
    cero_context_params context = {.device = "meta",
                                   .threads = params->threads,
                                   .world_size = params->world_size,
                                   .world_rank = params->world_rank,
                                   .ranks_per_node = params->ranks_per_node,
                                   .no_shared_memory = params->no_shared_memory};
    CERO_TRY_GOTO(cero_context_create(&context, &plan->context), fail);
    CERO_TRY_GOTO(cero_engine_create(plan->context, params->config, &engine, &plan->engine), fail);
    *out = plan;
    return CERO_OK;

fail:
    cero_run_plan_destroy(&plan);
    return st;
}

void cero_run_plan_destroy(cero_run_plan **plan)
{
    if (plan == NULL || *plan == NULL) {
        return;
    }
    cero_engine_destroy(&(*plan)->engine);
    cero_context_destroy(&(*plan)->context);
    cero_delete(*plan);
    *plan = NULL;
}

const cero_engine_plan *cero_run_plan_get(const cero_run_plan *plan)
{
    return cero_engine_get_plan(plan->engine);
}

const cero_engine *cero_run_plan_engine(const cero_run_plan *plan)
{
    return plan->engine;
}

static void write_json_exchanges(const cero_run_plan *plan, cero_text *out)
{
    cero_zero_summary zero;
    cero_zero_cost cost;

    cero_engine_zero_summary(plan->engine, &zero);
    cero_engine_zero_cost(plan->engine, &cost);
    cero_text_printf(out, ",\"world\":{\"size\":%d,\"rank\":%d,\"nodes\":%d}", zero.size, zero.rank,
                     zero.node_count);
    cero_text_printf(out,
                     ",\"zero\":{\"stage\":%d,\"gradient_order\":\"%s\",\"share_within_node\":%s,"
                     "\"units\":%lld,\"whole_units\":%lld}",
                     zero.stage, zero.order, zero.is_shared ? "true" : "false",
                     (long long)zero.unit_count, (long long)zero.whole_units);
    cero_text_printf(
        out,
        ",\"bytes_sent\":{\"reductions\":%lld,\"gathers\":%lld,\"total\":%lld,"
        "\"between_nodes\":%lld}",
        (long long)cost.reductions.bytes, (long long)cost.gathers.bytes,
        (long long)(cost.reductions.bytes + cost.gathers.bytes),
        (long long)(cost.reductions.bytes_between_nodes + cost.gathers.bytes_between_nodes));
}

static void write_json(const cero_run_plan *plan, cero_text *out)
{
    const cero_engine_plan *p = cero_run_plan_get(plan);

    cero_text_printf(out, "{\"model\":");
    cero_text_append_json_string(out, plan->model.name, strlen(plan->model.name));
    cero_text_printf(out, ",\"parameters\":%lld,\"trained\":%lld,\"seq_len\":%lld,\"memory\":{",
                     (long long)p->param_count, (long long)p->trained_count,
                     (long long)plan->seq_len);
    for (int c = 0; c < CERO_MEM_COUNT; c++) {
        cero_text_printf(out, "%s\"%s\":%zu", c == 0 ? "" : ",",
                         cero_mem_category_name((cero_mem_category)c), p->bytes[c]);
    }
    cero_text_printf(out, "},\"total\":%zu,\"arena_lower_bound\":%zu,\"instructions\":%lld",
                     p->total, p->train.lower_bound, (long long)p->train.instruction_count);
    write_json_exchanges(plan, out);
    cero_text_printf(out, ",\"step_flops\":");
    cero_text_append_double(out, p->model_flops);
    cero_text_printf(out, ",\"micro_batch_flops\":{\"forward\":");
    cero_text_append_double(out, p->train.flops[CERO_PHASE_FORWARD]);
    cero_text_printf(out, ",\"backward\":");
    cero_text_append_double(out, p->train.flops[CERO_PHASE_BACKWARD]);
    cero_text_printf(out, ",\"recompute\":");
    cero_text_append_double(out, p->train.flops[CERO_PHASE_RECOMPUTE]);
    cero_text_printf(out, "}}\n");
}

/* "1234 bytes (1.2 KiB)", and what follows. */
static void write_bytes(int64_t nbytes, const char *after, cero_text *out)
{
    char text[32];

    cero_text_printf(out, "%lld bytes", (long long)nbytes);
    if (nbytes >= 1024) {
        cero_text_printf(out, " (%s)", cero_text_bytes((double)nbytes, text, sizeof(text)));
    }
    cero_text_printf(out, "%s", after);
}

static void write_world(const cero_zero_summary *zero, cero_text *out)
{
    cero_text_printf(out, "world       rank %d of %d, on %d node%s; ZeRO stage %d", zero->rank,
                     zero->size, zero->node_count, zero->node_count == 1 ? "" : "s", zero->stage);
    if (zero->stage == 3) {
        cero_text_printf(out, " with %lld of %lld units cut",
                         (long long)(zero->unit_count - zero->whole_units),
                         (long long)zero->unit_count);
    }
    cero_text_printf(out, ", gradients in order %s%s\n", zero->order,
                     zero->is_shared ? ", weights once per node" : "");
}

static void write_exchanges(const cero_engine *engine, cero_text *out)
{
    cero_zero_cost cost;

    cero_engine_zero_cost(engine, &cost);
    cero_text_printf(out, "exchange    a step sends ");
    write_bytes(cost.reductions.bytes + cost.gathers.bytes, ", between nodes ", out);
    write_bytes(cost.reductions.bytes_between_nodes + cost.gathers.bytes_between_nodes, ";\n", out);
    cero_text_printf(out, "            reductions ");
    write_bytes(cost.reductions.bytes, ", gathers ", out);
    write_bytes(cost.gathers.bytes, "", out);
    if (cost.uses > 0) {
        cero_text_printf(out, " for %lld uses of units, %lld of them ahead", (long long)cost.uses,
                         (long long)cost.uses_ahead);
    }
    cero_text_printf(out, "\n");
}

static void write_text(const cero_run_plan *plan, cero_text *out)
{
    const cero_engine_plan *p = cero_run_plan_get(plan);
    cero_zero_summary zero;
    char text[32];

    cero_engine_zero_summary(plan->engine, &zero);
    cero_text_printf(out, "model       %s, %lld parameters (%lld trained), sequences of %lld\n",
                     plan->model.name, (long long)p->param_count, (long long)p->trained_count,
                     (long long)plan->seq_len);
    if (zero.size > 1) {
        write_world(&zero, out);
    }
    cero_text_printf(out, "memory of a rank\n");
    for (int c = 0; c < CERO_MEM_COUNT; c++) {
        if (p->bytes[c] > 0) {
            cero_text_printf(out, "  %-11s %18zu bytes %12s\n",
                             cero_mem_category_name((cero_mem_category)c), p->bytes[c],
                             cero_text_bytes((double)p->bytes[c], text, sizeof(text)));
        }
    }
    cero_text_printf(out, "  %-11s %18zu bytes %12s\n", "total", p->total,
                     cero_text_bytes((double)p->total, text, sizeof(text)));
    if (zero.size > 1) {
        write_exchanges(plan->engine, out);
    }
    cero_text_printf(out,
                     "program     %lld instructions; activations in %zu bytes, at least %zu are "
                     "alive at once\n",
                     (long long)p->train.instruction_count, p->train.arena_bytes,
                     p->train.lower_bound);
    cero_text_printf(out,
                     "operations  %.4g a step; a micro-batch: forward %.4g, backward %.4g, "
                     "recomputed %.4g\n",
                     p->model_flops, p->train.flops[CERO_PHASE_FORWARD],
                     p->train.flops[CERO_PHASE_BACKWARD], p->train.flops[CERO_PHASE_RECOMPUTE]);
}

cero_status cero_run_plan_write(const cero_run_plan *plan, bool as_json, cero_text *out)
{
    if (as_json) {
        write_json(plan, out);
    } else {
        write_text(plan, out);
    }
    return cero_text_finish(out);
}

cero_status cero_run_plan_dump(const cero_run_plan *plan, cero_text *out)
{
    return cero_engine_dump(plan->engine, out);
}
