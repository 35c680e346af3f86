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
                                   .world_size = params->world_size,
                                   .world_rank = params->world_rank,
                                   .ranks_per_node = params->ranks_per_node};
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

static void write_text(const cero_run_plan *plan, cero_text *out)
{
    const cero_engine_plan *p = cero_run_plan_get(plan);
    char text[32];

    cero_text_printf(out, "model       %s, %lld parameters (%lld trained), sequences of %lld\n",
                     plan->model.name, (long long)p->param_count, (long long)p->trained_count,
                     (long long)plan->seq_len);
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
