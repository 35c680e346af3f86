/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiles a model (graph, autodiff, recomputation, ZeRO's exchanges, memory plan), allocates what the plan
 * says, and runs steps: micro-batches forward and backward, with their exchanges, then the update.
 *
 * The training program and the evaluation program share one arena. What one step costs in bytes and
 * operations is known as soon as the programs are compiled.
 */
#include "engine/engine_impl.h"

#include "base/clock.h"
#include "base/exact.h"
#include "base/fault.h"
#include "models/models.h"
#include "optim/optimizer.h"

#include <string.h>

cero_status cero_engine_build_model(cero_graph *graph, const cero_model_shape *shape,
                                    const void *context)
{
    return cero_model_build(graph, shape, context);
}

static bool is_frozen(const void *context, const char *name)
{
    return cero_patterns_match(context, name);
}

static void compiled_cleanup(cero_engine_compiled *c)
{
    cero_zero_schedule_destroy(&c->schedule);
    cero_program_destroy(&c->program);
    cero_graph_destroy(&c->graph);
}

/* Builds the model for one purpose. */
static cero_status build(const cero_engine *engine, cero_model_mode mode, cero_engine_compiled *out)
{
    const cero_train_spec *spec = engine->spec;
    cero_model_shape shape = {.mode = mode,
                              .micro_batch = spec->train_micro_batch_size_per_gpu,
                              .seq_len = engine->params.seq_len};

    CERO_TRY(cero_graph_create(engine->context->device, spec->compute_dtype, &out->graph));
    cero_graph_set_training(out->graph, mode == CERO_MODEL_TRAIN);
    cero_graph_set_frozen(out->graph, is_frozen, &spec->frozen);
    CERO_TRY(engine->params.build(out->graph, &shape, engine->params.context));
    CERO_TRY(cero_graph_status(out->graph));
    cero_value *loss = cero_graph_find_output(out->graph, "loss");
    CERO_CHECK(loss != NULL, CERO_ERR_INVALID,
               "the model has no output named \"loss\"; call cero_graph_set_output");
    CERO_CHECK(loss->desc.shape.ndim == 1 && loss->desc.dtype == CERO_DTYPE_F32, CERO_ERR_SHAPE,
               "the model's loss is %s with %d dimensions; expected f32 with one (a row each)",
               cero_dtype_name(loss->desc.dtype), loss->desc.shape.ndim);
    out->rows = loss->desc.shape.dim[0];
    if (mode == CERO_MODEL_TRAIN) {
        CERO_TRY(cero_graph_autodiff(out->graph, loss));
        CERO_TRY(cero_graph_recompute(out->graph, spec->checkpoint_units));
    }
    return CERO_OK;
}

static cero_status compile(const cero_engine *engine, cero_engine_compiled *c)
{
    CERO_TRY(cero_zero_schedule_create(engine->zero, c->graph, &c->schedule));
    return cero_program_create(c->graph, &c->program);
}

static size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Sums what zero and the programs will allocate. */
static void make_plan(cero_engine *engine)
{
    cero_engine_plan *plan = &engine->plan;
    const cero_zero_layout *layout = cero_zero_get_layout(engine->zero);

    plan->train = *cero_program_get_stats(engine->train.program);
    if (engine->eval.program != NULL) {
        plan->eval = *cero_program_get_stats(engine->eval.program);
    }
    plan->exchange_bytes = max_size(plan->train.exchange_bytes, plan->eval.exchange_bytes);
    cero_zero_bytes(engine->zero, plan->exchange_bytes, plan->bytes);
    plan->bytes[CERO_MEM_ACTIVATION] += max_size(plan->train.arena_bytes, plan->eval.arena_bytes);
    plan->bytes[CERO_MEM_IO] += plan->train.input_bytes + plan->eval.input_bytes;
    plan->bytes[CERO_MEM_OTHER] += plan->train.constant_bytes + plan->eval.constant_bytes +
                                   plan->train.state_bytes + plan->eval.state_bytes;
    plan->bytes[CERO_MEM_IO] += cero_engine_batch_bytes(engine);
    if (engine->spec->checkpoint_background) {
        plan->bytes[CERO_MEM_IO] += cero_engine_own_bytes(engine);
    }
    for (int c = 0; c < CERO_MEM_COUNT; c++) {
        plan->total += plan->bytes[c];
    }
    plan->param_count = layout->numel;
    plan->trained_count = layout->trained_numel;
    plan->decay_tensors = layout->decay_tensors;
    plan->decay_count = layout->decay_numel;
    plan->model_flops =
        (double)engine->micro_batch_count *
        (plan->train.flops[CERO_PHASE_FORWARD] + plan->train.flops[CERO_PHASE_BACKWARD]);
}

static void poll(void *context)
{
    cero_comm_poll(context);
}

/* What is this rank's alone: arena, inputs, constants. */
static cero_status bind_programs(cero_engine *engine)
{
    cero_mem *mem = engine->context->mem;
    size_t arena_bytes = engine->plan.bytes[CERO_MEM_ACTIVATION];
    cero_program_bindings bindings = {
        .mem = mem,
        .param = cero_zero_param_addresses(engine->zero),
        .grad = cero_zero_grad_addresses(engine->zero),
        .shared_arena_bytes = arena_bytes,
        .exchange = cero_zero_arena(engine->zero),
    };

    CERO_TRY(cero_mem_alloc(mem, arena_bytes, CERO_MEM_ACTIVATION, "activations", &engine->arena));
    bindings.shared_arena = engine->arena;
    CERO_TRY(cero_program_bind(engine->train.program, &bindings));
    cero_program_set_idle(engine->train.program, poll, engine->context->comm);
    if (engine->eval.program != NULL) {
        CERO_TRY(cero_program_bind(engine->eval.program, &bindings));
        cero_program_set_idle(engine->eval.program, poll, engine->context->comm);
    }
    return CERO_OK;
}

static cero_status bind(cero_engine *engine)
{
    CERO_TRY(cero_zero_allocate(engine->zero, engine->plan.exchange_bytes));
    CERO_TRY(cero_comm_agree(engine->context->comm, bind_programs(engine)));
    CERO_TRY(cero_zero_schedule_bind(engine->train.schedule, engine->train.program));
    if (engine->eval.program != NULL) {
        CERO_TRY(cero_zero_schedule_bind(engine->eval.schedule, engine->eval.program));
    }
    return cero_zero_init_weights(engine->zero, engine->spec->seed);
}

static cero_status create_zero(cero_engine *engine)
{
    cero_zero_params params = {
        .device = engine->context->device,
        .mem = engine->context->mem,
        .comm = engine->context->comm,
        .graph = engine->train.graph,
        .spec = engine->spec,
        .micro_batches = engine->micro_batch_count,
    };

    return cero_zero_create(&params, &engine->zero);
}

/* Everything that allocates no tensor. */
static cero_status compile_all(cero_engine *engine)
{
    CERO_TRY(build(engine, CERO_MODEL_TRAIN, &engine->train));
    CERO_TRY(create_zero(engine));
    CERO_TRY(compile(engine, &engine->train));
    if (!engine->params.no_eval) {
        CERO_TRY(build(engine, CERO_MODEL_EVAL, &engine->eval));
        CERO_TRY(compile(engine, &engine->eval));
    }
    make_plan(engine);
    return CERO_OK;
}

/* Compares a text of this rank, whose making may have failed, and empties it. */
static cero_status check_text(cero_comm *comm, const char *what, cero_status made, cero_text *text)
{
    CERO_TRY(cero_comm_agree(comm, made == CERO_OK ? cero_text_finish(text) : made));
    CERO_TRY(cero_comm_check_same_text(comm, what, text));
    text->length = 0;
    return CERO_OK;
}

cero_status cero_engine_check_ranks(cero_engine *engine)
{
    cero_comm *comm = engine->context->comm;
    cero_text text = {0};
    cero_status st = CERO_OK;

    cero_text_printf(&text, "version %s, kernels %s", cero_version(),
                     cero_device_kernels(engine->context->device)->isa);
    CERO_TRY_GOTO(check_text(comm, "the build", CERO_OK, &text), out);
    st = cero_train_config_write_json(engine->config, &text);
    CERO_TRY_GOTO(check_text(comm, "the effective config", st, &text), out);
    for (int64_t i = 0; i < cero_engine_param_count(engine); i++) {
        char shape[128];
        cero_param_info info = cero_engine_param_info(engine, i);
        cero_text_printf(&text, "%s %s%s, sequences of %lld\n", info.name,
                         cero_shape_format(&info.shape, shape, sizeof(shape)),
                         info.is_frozen ? ", frozen" : "", (long long)engine->params.seq_len);
    }
    CERO_TRY_GOTO(check_text(comm, "the model", CERO_OK, &text), out);
out:
    cero_text_cleanup(&text);
    return st;
}

cero_status cero_engine_new(cero_context *context, const cero_config *config, cero_engine **out)
{
    cero_engine *engine = cero_new(1, sizeof(*engine));

    if (engine == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for an engine");
    }
    engine->context = context;
    engine->config = config;
    engine->spec = cero_train_config_spec(config);
    engine->micro_batch_count = engine->spec->gradient_accumulation_steps;
    if (engine->spec->memory_budget > 0) {
        cero_mem_set_budget(context->mem, (size_t)engine->spec->memory_budget);
    }
    if (cero_train_config_origin(config, "cero.timeout_seconds") != CERO_ORIGIN_DEFAULT) {
        cero_comm_set_timeout(context->comm, engine->spec->timeout_seconds);
    }
    *out = engine;
    return CERO_OK;
}

cero_status cero_engine_create(cero_context *context, const cero_config *config,
                               const cero_engine_params *params, cero_engine **out)
{
    cero_status st = CERO_OK;
    cero_engine *engine = NULL;

    CERO_CHECK(context != NULL && config != NULL && params != NULL && out != NULL, CERO_ERR_INVALID,
               "cero_engine_create: an argument is NULL");
    CERO_CHECK(params->build != NULL, CERO_ERR_INVALID,
               "cero_engine_create: params->build is NULL; give a function that builds the model");
    CERO_CHECK(params->seq_len > 0, CERO_ERR_INVALID,
               "cero_engine_create: params->seq_len is %lld; expected 1 or more",
               (long long)params->seq_len);
    CERO_TRY_GOTO(cero_comm_agree(context->comm, cero_engine_new(context, config, &engine)), fail);
    engine->params = *params;
    cero_fault_at("start");
    CERO_TRY_GOTO(cero_comm_agree(context->comm, compile_all(engine)), fail);
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

void cero_engine_destroy(cero_engine **engine)
{
    if (engine == NULL || *engine == NULL) {
        return;
    }
    cero_engine *e = *engine;
    cero_context *context = e->external != NULL ? e->external->own_context : NULL;
    cero_config *config = e->external != NULL ? e->external->own_config : NULL;
    compiled_cleanup(&e->eval);
    compiled_cleanup(&e->train);
    cero_engine_external_destroy(&e->external);
    cero_zero_destroy(&e->zero);
    cero_mem_free(e->context->mem, e->arena);
    cero_delete(e);
    *engine = NULL;
    cero_config_destroy(&config);
    cero_context_destroy(&context);
}

/* Copies micro-batch `index` of each input to the program. */
static cero_status load_inputs(const cero_engine_compiled *c, const cero_batch *batch,
                               int64_t index)
{
    const cero_graph *g = c->graph;

    for (int64_t i = 0; i < g->value_count; i++) {
        const cero_value *v = g->values[i];
        const char *data = NULL;
        if (v->kind != CERO_VALUE_INPUT) {
            continue;
        }
        for (int k = 0; k < batch->input_count && data == NULL; k++) {
            if (strcmp(batch->name[k], v->name) == 0) {
                data = batch->data[k];
            }
        }
        CERO_CHECK(data != NULL, CERO_ERR_INVALID, "the batch has no input named \"%s\"", v->name);
        size_t nbytes = (size_t)cero_shape_numel(&v->desc.shape) * cero_dtype_size(v->desc.dtype);
        memcpy(cero_program_data(c->program, v->name), data + (size_t)index * nbytes, nbytes);
    }
    return CERO_OK;
}

/* Adds the row losses, and counts rows: all of them, or those whose target is not negative. */
static void add_losses(const cero_engine_compiled *c, cero_exact *sum, int64_t *rows)
{
    const float *loss = cero_program_data(c->program, "loss");
    const cero_value *value = cero_graph_find_value(c->graph, "targets");
    bool has_targets = value != NULL && value->kind == CERO_VALUE_INPUT &&
                       value->desc.dtype == CERO_DTYPE_I32 &&
                       cero_shape_numel(&value->desc.shape) == c->rows;
    const int32_t *targets = has_targets ? cero_program_data(c->program, "targets") : NULL;

    for (int64_t i = 0; i < c->rows; i++) {
        if (targets == NULL || targets[i] >= 0) {
            cero_exact_add(sum, (double)loss[i]);
            (*rows)++;
        }
    }
}

/* Runs a part of the training program; what it spends in exchanges is counted apart. */
static cero_status run_part(cero_engine *engine, const cero_step_env *env, cero_program_part part,
                            double *seconds, cero_step_stats *stats)
{
    double exchanged = cero_zero_exchange_seconds(engine->zero);
    double start = cero_clock_now();

    cero_fault_at(part == CERO_PROGRAM_FORWARD ? "forward" : "backward");
    CERO_TRY(cero_program_run(engine->train.program, env, part));
    exchanged = cero_zero_exchange_seconds(engine->zero) - exchanged;
    *seconds += cero_clock_now() - start - exchanged;
    stats->seconds_exchange += exchanged;
    return CERO_OK;
}

static cero_status run_micro_batch(cero_engine *engine, const cero_batch *batch, int64_t index,
                                   cero_exact *loss, int64_t *rows, cero_step_stats *stats)
{
    const cero_engine_compiled *c = &engine->train;
    cero_step_env env = {
        .seed = engine->spec->seed,
        .step = engine->step,
        .sample = batch->sample + cero_engine_micro_batch_sample(engine, index),
        .loss_grad = (float)(cero_zero_loss_scale(engine->zero) / (double)c->rows),
    };

    cero_zero_begin_micro_batch(engine->zero, index);
    CERO_TRY(load_inputs(c, batch, index));
    CERO_TRY(run_part(engine, &env, CERO_PROGRAM_FORWARD, &stats->seconds_forward, stats));
    CERO_TRY(run_part(engine, &env, CERO_PROGRAM_BACKWARD, &stats->seconds_backward, stats));
    // With a fused head the loss appears at the start of backward.
    add_losses(c, loss, rows);
    return CERO_OK;
}

static cero_status train_step(cero_engine *engine, const cero_batch *batch, cero_step_stats *stats)
{
    cero_comm *comm = engine->context->comm;
    cero_exact loss;
    cero_zero_step_result result;
    int64_t rows = 0;

    cero_comm_note(engine->context->comm, "step", engine->step + 1);
    cero_exact_clear(&loss);
    for (int64_t k = 0; k < engine->micro_batch_count; k++) {
        CERO_TRY(run_micro_batch(engine, batch, k, &loss, &rows, stats));
    }
    // A rank that was faster waits here; what the update waits for is no part of it either.
    double exchanged = cero_comm_get_total(comm).seconds;
    CERO_TRY(cero_comm_all_reduce_exact(comm, &loss, 1));
    CERO_TRY(cero_comm_all_reduce_i64(comm, CERO_COMM_SUM, &rows, 1));
    double exchanged_before = cero_comm_get_total(comm).seconds;
    double start = cero_clock_now();
    // A step without a single row that counts divides by one row: its gradient is zero.
    double divisor = (double)(rows > 0 ? rows : 1) / (double)engine->train.rows;
    cero_fault_at("update");
    CERO_TRY(cero_zero_step(engine->zero, divisor, &result));
    double exchanged_after = cero_comm_get_total(comm).seconds;
    stats->seconds_update = cero_clock_now() - start - (exchanged_after - exchanged_before);
    stats->seconds_exchange += exchanged_after - exchanged;
    engine->step++;
    stats->step = engine->step;
    stats->loss = rows > 0 ? cero_exact_round(&loss) / (double)rows : 0;
    stats->rows = rows;
    stats->lr = result.lr;
    stats->grad_norm = result.grad_norm;
    stats->clip_coef = result.clip_coef;
    stats->loss_scale = result.loss_scale;
    stats->is_applied = result.is_applied;
    stats->bad_tensor = result.bad_tensor;
    stats->applied = cero_zero_applied(engine->zero);
    stats->skipped = cero_zero_skipped(engine->zero);
    stats->model_flops = engine->plan.model_flops;
    return CERO_OK;
}

cero_status cero_engine_train_batch(cero_engine *engine, const cero_batch *batch,
                                    cero_step_stats *stats)
{
    CERO_CHECK(engine != NULL && batch != NULL && stats != NULL, CERO_ERR_INVALID,
               "cero_engine_train_batch: an argument is NULL");
    CERO_CHECK(engine->external == NULL, CERO_ERR_INVALID,
               "cero_engine_train_batch: the engine has no model, forward and backward are yours; "
               "call cero_engine_backward and cero_engine_step");
    CERO_CHECK(!engine->is_poisoned, CERO_ERR_INVALID,
               "the engine failed before and can only be destroyed");
    *stats = (cero_step_stats){0};
    cero_status st = train_step(engine, batch, stats);
    if (st != CERO_OK) {
        // Peers may be anywhere in the step: they are told, and end their waits.
        engine->is_poisoned = true;
        st = cero_error_prefix(st, "step %lld: ", (long long)engine->step + 1);
        return cero_comm_fail(engine->context->comm, st);
    }
    return CERO_OK;
}

cero_status cero_engine_eval_add(cero_engine *engine, const cero_batch *batch, cero_exact *loss,
                                 int64_t *rows)
{
    CERO_CHECK(engine->eval.program != NULL, CERO_ERR_INVALID,
               "the engine was created without an evaluation program (no_eval)");
    CERO_TRY(cero_zero_settle(engine->zero));
    CERO_TRY(load_inputs(&engine->eval, batch, 0));
    CERO_TRY(cero_program_run(engine->eval.program, &(cero_step_env){0}, CERO_PROGRAM_ALL));
    add_losses(&engine->eval, loss, rows);
    return CERO_OK;
}

static cero_status eval_batch(cero_engine *engine, const cero_batch *batch, cero_exact *loss,
                              int64_t *rows)
{
    CERO_TRY(cero_engine_eval_add(engine, batch, loss, rows));
    CERO_TRY(cero_comm_all_reduce_exact(engine->context->comm, loss, 1));
    return cero_comm_all_reduce_i64(engine->context->comm, CERO_COMM_SUM, rows, 1);
}

cero_status cero_engine_eval_batch(cero_engine *engine, const cero_batch *batch, double *loss_sum,
                                   int64_t *rows)
{
    cero_exact loss;
    int64_t counted = 0;

    CERO_CHECK(engine != NULL && batch != NULL && loss_sum != NULL && rows != NULL,
               CERO_ERR_INVALID, "cero_engine_eval_batch: an argument is NULL");
    CERO_CHECK(engine->external == NULL, CERO_ERR_INVALID,
               "cero_engine_eval_batch: the engine has no model; evaluate with your own forward");
    cero_exact_clear(&loss);
    CERO_TRY(cero_comm_fail(engine->context->comm, eval_batch(engine, batch, &loss, &counted)));
    *loss_sum = cero_exact_round(&loss);
    *rows = counted;
    return CERO_OK;
}

int64_t cero_engine_param_count(const cero_engine *engine)
{
    return cero_zero_get_layout(engine->zero)->param_count;
}

cero_param_info cero_engine_param_info(const cero_engine *engine, int64_t i)
{
    const cero_zero_layout *layout = cero_zero_get_layout(engine->zero);

    if (i < 0 || i >= layout->param_count) {
        return (cero_param_info){0};
    }
    const cero_zero_param *p = &layout->params[i];
    return (cero_param_info){.name = p->name,
                             .shape = p->shape,
                             .is_frozen = p->is_frozen,
                             .unit = layout->units[p->unit].name};
}

int64_t cero_engine_find_param(const cero_engine *engine, const char *name)
{
    return cero_zero_layout_find(cero_zero_get_layout(engine->zero), name);
}

cero_status cero_engine_get_param(cero_engine *engine, int64_t i, int64_t begin, int64_t n,
                                  float *out)
{
    return cero_zero_get_param(engine->zero, i, begin, n, out);
}

cero_status cero_engine_set_param(cero_engine *engine, int64_t i, int64_t begin, int64_t n,
                                  const float *values)
{
    CERO_TRY(cero_engine_set_held(engine, i, begin, n, values));
    // What a node shares is complete when all its ranks have been here.
    return cero_zero_weights_set(engine->zero);
}

cero_status cero_engine_set_held(cero_engine *engine, int64_t i, int64_t begin, int64_t n,
                                 const float *values)
{
    // New copies of the last update, if they are still on their way, would land on what is set here.
    CERO_TRY(cero_zero_settle(engine->zero));
    return engine->external != NULL ? cero_engine_external_set(engine, i, begin, n, values)
                                    : cero_zero_set_param(engine->zero, i, begin, n, values);
}

void cero_engine_held_param(const cero_engine *engine, int64_t i, int64_t *begin, int64_t *n)
{
    cero_zero_held_param(engine->zero, i, begin, n);
}

cero_status cero_engine_weights_set(cero_engine *engine)
{
    CERO_TRY(cero_zero_weights_set(engine->zero));
    if (engine->external != NULL) {
        cero_engine_external_give(engine, false);
    }
    return CERO_OK;
}

void cero_engine_zero_summary(const cero_engine *engine, cero_zero_summary *out)
{
    cero_zero_cost cost;

    cero_engine_zero_cost(engine, &cost);
    cero_zero_get_summary(engine->zero, &cost, out);
}

void cero_engine_zero_cost(const cero_engine *engine, cero_zero_cost *out)
{
    if (engine->train.schedule != NULL) {
        cero_zero_schedule_cost(engine->train.schedule, out);
    } else {
        cero_zero_get_cost(engine->zero, out);
    }
}

int64_t cero_engine_unit_count(const cero_engine *engine)
{
    return cero_zero_get_layout(engine->zero)->unit_count;
}

cero_engine_unit cero_engine_get_unit(const cero_engine *engine, int64_t i)
{
    const cero_zero_unit *unit = &cero_zero_get_layout(engine->zero)->units[i];
    int64_t trained = unit->range[CERO_ZERO_TRAINED].numel;

    return (cero_engine_unit){.name = unit->name,
                              .numel = trained + unit->range[CERO_ZERO_FROZEN].numel,
                              .trained_numel = trained,
                              .is_whole = cero_zero_is_unit_whole(engine->zero, i)};
}

int64_t cero_engine_micro_batch_sample(const cero_engine *engine, int64_t index)
{
    const cero_comm *comm = engine->context->comm;
    int64_t k = index * cero_comm_size(comm) + cero_comm_rank(comm);

    return k * engine->spec->train_micro_batch_size_per_gpu;
}

int64_t cero_engine_global_batch(const cero_engine *engine)
{
    return engine->spec->train_batch_size;
}

int64_t cero_engine_micro_batch(const cero_engine *engine)
{
    return engine->spec->train_micro_batch_size_per_gpu;
}

int64_t cero_engine_micro_batch_count(const cero_engine *engine)
{
    return engine->micro_batch_count;
}

const cero_engine_plan *cero_engine_get_plan(const cero_engine *engine)
{
    return &engine->plan;
}

cero_status cero_engine_dump(const cero_engine *engine, cero_text *out)
{
    return cero_program_dump(engine->train.program, out);
}

cero_status cero_engine_profile_begin(cero_engine *engine)
{
    return cero_program_profile_begin(engine->train.program);
}

cero_status cero_engine_profile_write(const cero_engine *engine, cero_text *out)
{
    return cero_program_profile_write(engine->train.program, out);
}

void cero_engine_profile_end(cero_engine *engine)
{
    cero_program_profile_end(engine->train.program);
}

bool cero_engine_profile_get(const cero_engine *engine, int64_t i, cero_program_profile *out)
{
    return cero_program_profile_get(engine->train.program, i, out);
}

size_t cero_engine_batch_bytes(const cero_engine *engine)
{
    const cero_graph *g = engine->train.graph;
    size_t nbytes = 0;

    for (int64_t i = 0; i < g->value_count; i++) {
        const cero_value *v = g->values[i];
        if (v->kind == CERO_VALUE_INPUT) {
            nbytes += (size_t)cero_shape_numel(&v->desc.shape) * cero_dtype_size(v->desc.dtype);
        }
    }
    return nbytes * (size_t)engine->micro_batch_count;
}

void *cero_engine_arena(cero_engine *engine, size_t *nbytes)
{
    *nbytes = engine->plan.bytes[CERO_MEM_ACTIVATION];
    return engine->arena;
}

const cero_train_spec *cero_engine_spec(const cero_engine *engine)
{
    return engine->spec;
}

const char *cero_engine_formula(const cero_engine *engine)
{
    return cero_optim_formula(&engine->spec->optimizer);
}

int64_t cero_engine_seq_len(const cero_engine *engine)
{
    return engine->params.seq_len;
}

const char *cero_engine_unused_param(const cero_engine *engine, int i)
{
    const cero_graph *g = engine->train.graph;

    for (int64_t p = 0; p < g->param_count; p++) {
        if (g->params[p].is_unused && i-- == 0) {
            return g->params[p].name;
        }
    }
    return NULL;
}
