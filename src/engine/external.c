/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engines whose forward and backward are the caller's: makes of what is registered (external_table.c checks it)
 * the layout that zero needs, a graph of parameters alone, and brings initial weights from rank 0 to all. The
 * calls of a step are in external_step.c.
 */
#include "engine/engine_impl.h"

#include "base/fault.h"

cero_external_param cero_external_matrix(const char *name, int64_t rows, int64_t cols, float *data,
                                         float *grad)
{
    return (cero_external_param){.name = name,
                                 .shape =
                                     rows > 0 ? cero_shape_2d(rows, cols) : cero_shape_1d(cols),
                                 .data = data,
                                 .grad = grad};
}

/* The graph of the parameters, with the units that they name. */
static cero_status build_graph(const cero_external_param *params, int64_t count, cero_graph *graph)
{
    for (int64_t i = 0; i < count; i++) {
        const cero_external_param *p = &params[i];
        if (i == 0 || !cero_engine_is_same_unit(p, p - 1)) {
            size_t length;
            const char *unit = cero_engine_unit_of(p, &length);
            char *name = cero_strndup(unit, length);
            CERO_CHECK(name != NULL, CERO_ERR_NOMEM, "no memory for the unit of %s", p->name);
            if (i > 0) {
                cero_graph_end_unit(graph);
            }
            cero_graph_begin_unit(graph, name, false);
            cero_delete(name);
        }
        (void)cero_graph_param(graph, &(cero_param_params){.name = p->name,
                                                           .shape = p->shape,
                                                           .is_embedding = p->is_embedding,
                                                           .is_frozen = p->is_frozen});
    }
    cero_graph_end_unit(graph);
    return cero_graph_status(graph);
}

static bool is_frozen(const void *context, const char *name)
{
    return cero_patterns_match(context, name);
}

/* The layout alone is kept of the graph. */
static cero_status create_zero(cero_engine *engine, const cero_external_param *params,
                               int64_t count)
{
    cero_status st = CERO_OK;
    cero_graph *graph = NULL;
    cero_zero_params zero = {.device = engine->context->device,
                             .mem = engine->context->mem,
                             .comm = engine->context->comm,
                             .spec = engine->spec,
                             .micro_batches = engine->micro_batch_count};

    CERO_TRY(cero_graph_create(engine->context->device, engine->spec->compute_dtype, &graph));
    cero_graph_set_frozen(graph, is_frozen, &engine->spec->frozen);
    CERO_TRY_GOTO(build_graph(params, count, graph), out);
    zero.graph = graph;
    CERO_TRY_GOTO(cero_zero_create(&zero, &engine->zero), out);
    if (cero_zero_get_layout(engine->zero)->trained_numel == 0) {
        CERO_FAIL_GOTO(out, CERO_ERR_INVALID, "nothing to train: all %lld parameters are frozen",
                       (long long)count);
    }
out:
    cero_graph_destroy(&graph);
    return st;
}

static void copy_params(cero_engine *engine, const cero_external_param *params)
{
    const cero_zero_layout *layout = cero_zero_get_layout(engine->zero);

    for (int64_t i = 0; i < layout->param_count; i++) {
        engine->external->params[i] = (cero_engine_outside){
            .dtype = params[i].dtype, .data = params[i].data, .grad = params[i].grad};
    }
}

static cero_status create_rooms(cero_engine *engine)
{
    cero_engine_external *x = engine->external;
    const cero_zero_layout *layout = cero_zero_get_layout(engine->zero);
    bool *has_room = cero_new((size_t)layout->unit_count, sizeof(bool));

    CERO_CHECK(has_room != NULL, CERO_ERR_NOMEM, "no memory for a list of %lld units",
               (long long)layout->unit_count);
    for (int64_t i = 0; i < layout->param_count; i++) {
        const cero_zero_param *p = &layout->params[i];
        has_room[p->unit] = has_room[p->unit] || (!p->is_frozen && x->params[i].grad == NULL);
        x->waiting[p->unit] += p->is_frozen ? 0 : 1;
    }
    cero_zero_external_params params = {.zero = engine->zero,
                                        .has_room = has_room,
                                        .fill = cero_engine_external_fill,
                                        .context = engine};
    cero_status st = cero_zero_external_create(&params, &x->rooms);
    cero_delete(has_room);
    return st;
}

static void make_plan(cero_engine *engine)
{
    cero_engine_plan *plan = &engine->plan;
    const cero_zero_layout *layout = cero_zero_get_layout(engine->zero);

    plan->exchange_bytes = cero_zero_external_bytes(engine->external->rooms);
    cero_zero_bytes(engine->zero, plan->exchange_bytes, plan->bytes);
    for (int c = 0; c < CERO_MEM_COUNT; c++) {
        plan->total += plan->bytes[c];
    }
    plan->param_count = layout->numel;
    plan->trained_count = layout->trained_numel;
    plan->decay_tensors = layout->decay_tensors;
    plan->decay_count = layout->decay_numel;
}

/* Everything that allocates no tensor. */
static cero_status prepare(cero_engine *engine, const cero_external_param *params, int64_t count)
{
    CERO_TRY(create_zero(engine, params, count));
    size_t units = (size_t)cero_zero_get_layout(engine->zero)->unit_count;
    cero_engine_external *x = engine->external;

    x->params = cero_new((size_t)count, sizeof(cero_engine_outside));
    x->waiting = cero_new(units, sizeof(int64_t));
    x->was_gathered = cero_new(units, sizeof(bool));
    CERO_CHECK(x->params != NULL && x->waiting != NULL && x->was_gathered != NULL, CERO_ERR_NOMEM,
               "no memory for a table of %lld parameters", (long long)count);
    copy_params(engine, params);
    CERO_TRY(create_rooms(engine));
    make_plan(engine);
    return CERO_OK;
}

/* Sets a parameter from the program's memory, of any dtype it may have. */
static cero_status take_data(cero_engine *engine, int64_t i)
{
    enum {
        SPAN = 4096
    };
    const cero_engine_outside *p = &engine->external->params[i];
    int64_t numel = cero_zero_get_layout(engine->zero)->params[i].numel;
    const char *data = p->data;
    float span[SPAN];

    if (p->dtype == CERO_DTYPE_F32) {
        return cero_zero_set_param(engine->zero, i, 0, numel, p->data);
    }
    for (int64_t at = 0; at < numel; at += SPAN) {
        int64_t n = numel - at < SPAN ? numel - at : SPAN;
        cero_device_to_f32(engine->context->device, p->dtype, n,
                           data + (size_t)at * cero_dtype_size(p->dtype), span);
        CERO_TRY(cero_zero_set_param(engine->zero, i, at, n, span));
    }
    return CERO_OK;
}

/* Rank 0's weights become those of all, and what the program sees are compute copies. */
static cero_status take_weights(cero_engine *engine)
{
    const cero_zero_layout *layout = cero_zero_get_layout(engine->zero);
    cero_comm *comm = engine->context->comm;

    for (int64_t i = 0; i < layout->param_count; i++) {
        const cero_engine_outside *p = &engine->external->params[i];
        if (p->data == NULL) {
            continue;
        }
        size_t nbytes = (size_t)layout->params[i].numel * cero_dtype_size(p->dtype);
        CERO_TRY(cero_comm_broadcast(comm, p->data, nbytes, 0));
        CERO_TRY(take_data(engine, i));
    }
    return cero_engine_weights_set(engine);
}

static cero_status bind(cero_engine *engine)
{
    CERO_TRY(cero_zero_allocate(engine->zero, engine->plan.exchange_bytes));
    CERO_TRY(cero_zero_external_bind(engine->external->rooms));
    CERO_TRY(cero_zero_init_weights(engine->zero, engine->spec->seed));
    return take_weights(engine);
}

static cero_status make(cero_context *context, const cero_config *config, cero_engine **engine)
{
    CERO_TRY(cero_engine_new(context, config, engine));
    (*engine)->external = cero_new(1, sizeof(cero_engine_external));
    CERO_CHECK((*engine)->external != NULL, CERO_ERR_NOMEM, "no memory for an engine");
    return CERO_OK;
}

cero_status cero_engine_create_external(cero_context *context, const cero_config *config,
                                        const cero_external_param *params, int64_t count,
                                        cero_engine **out)
{
    cero_status st = CERO_OK;
    cero_engine *engine = NULL;

    CERO_CHECK(context != NULL && config != NULL && out != NULL, CERO_ERR_INVALID,
               "cero_engine_create_external: an argument is NULL");
    CERO_TRY_GOTO(cero_comm_agree(context->comm, make(context, config, &engine)), fail);
    cero_fault_at("start");
    CERO_TRY_GOTO(cero_engine_check_table(engine, params, count), fail);
    CERO_TRY_GOTO(cero_comm_agree(context->comm, prepare(engine, params, count)), fail);
    CERO_TRY_GOTO(cero_engine_check_ranks(engine), fail);
    if (!cero_device_is_meta(context->device)) {
        CERO_TRY_GOTO(bind(engine), fail);
    }
    *out = engine;
    return CERO_OK;

fail:
    cero_engine_destroy(&engine);
    return st;
}

cero_status cero_engine_open_external(const char *config_path, const cero_external_param *params,
                                      int64_t count, cero_engine **out)
{
    cero_status st = CERO_OK;
    cero_context *context = NULL;
    cero_config *config = NULL;
    cero_engine *engine = NULL;

    CERO_CHECK(out != NULL, CERO_ERR_INVALID, "cero_engine_open_external: out is NULL");
    CERO_TRY(cero_context_create(NULL, &context));
    st = cero_config_create(context, config_path, NULL, 0, &config);
    CERO_TRY_GOTO(cero_comm_agree(context->comm, st), fail);
    CERO_TRY_GOTO(cero_engine_create_external(context, config, params, count, &engine), fail);
    engine->external->own_context = context;
    engine->external->own_config = config;
    *out = engine;
    return CERO_OK;

fail:
    cero_config_destroy(&config);
    cero_context_destroy(&context);
    return st;
}

void cero_engine_external_destroy(cero_engine_external **external)
{
    if (external == NULL || *external == NULL) {
        return;
    }
    cero_engine_external *x = *external;
    cero_zero_external_destroy(&x->rooms);
    cero_delete(x->was_gathered);
    cero_delete(x->waiting);
    cero_delete(x->params);
    cero_delete(x);
    *external = NULL;
}
