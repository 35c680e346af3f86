/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The smallest program that trains with cero: a model of two layers that learns to continue a pattern of
 * tokens, with the public headers alone.
 *
 * A model is a function that appends operations to a graph; the engine differentiates it, plans its memory
 * and trains it by a DeepSpeed config, here given as overrides.
 */
#include <cero/cero.h>

#include <stdio.h>

enum {
    VOCAB = 64,
    HIDDEN = 128,
    SEQ_LEN = 32,
    BATCH = 8,
    STEPS = 60
};

static cero_shape matrix(int64_t rows, int64_t cols)
{
    return (cero_shape){.ndim = 2, .dim = {rows, cols}};
}

static cero_value *weight(cero_graph *graph, const char *name, int64_t rows, int64_t cols)
{
    return cero_graph_param(graph, &(cero_param_params){.name = name,
                                                        .shape = matrix(rows, cols),
                                                        .init = CERO_INIT_NORMAL,
                                                        .std = 0.05});
}

/* Predicts the next token from this one: a table, a hidden layer, and a head. */
static cero_status build(cero_graph *graph, const cero_model_shape *shape, const void *context)
{
    cero_shape rows = {.ndim = 1, .dim = {shape->micro_batch * shape->seq_len}};
    cero_value *tokens = cero_graph_input(graph, "tokens", CERO_DTYPE_I32, rows);
    cero_value *targets = cero_graph_input(graph, "targets", CERO_DTYPE_I32, rows);
    (void)context;

    cero_graph_begin_unit(graph, "model", false);
    cero_value *x = cero_graph_embedding(graph, tokens, weight(graph, "table", VOCAB, HIDDEN));
    x = cero_graph_linear(graph, x, weight(graph, "hidden", HIDDEN, HIDDEN), NULL, true);
    x = cero_graph_apply_function(graph, x, CERO_FUNCTION_GELU_TANH);
    cero_value *loss =
        cero_graph_head_loss(graph, x, weight(graph, "head", VOCAB, HIDDEN), targets);
    cero_graph_end_unit(graph);
    cero_graph_set_output(graph, "loss", loss);
    return cero_graph_status(graph);
}

/* Token t is followed by 5 t + 3: what the model can learn. */
static void fill_batch(int32_t *tokens, int32_t *targets, int step)
{
    for (int i = 0; i < BATCH * SEQ_LEN; i++) {
        tokens[i] = (i * 7 + step) % VOCAB;
        targets[i] = (5 * tokens[i] + 3) % VOCAB;
    }
}

static cero_status train(cero_engine *engine)
{
    static int32_t tokens[BATCH * SEQ_LEN];
    static int32_t targets[BATCH * SEQ_LEN];
    const char *names[] = {"tokens", "targets"};
    const void *data[] = {tokens, targets};
    cero_batch batch = {.input_count = 2, .name = names, .data = data};

    for (int step = 0; step < STEPS; step++) {
        cero_step_stats stats;
        fill_batch(tokens, targets, step);
        batch.sample = (int64_t)step * BATCH;
        cero_status st = cero_engine_train_batch(engine, &batch, &stats);
        if (st != CERO_OK) {
            return st;
        }
        if (stats.step == 1 || stats.step % 20 == 0) {
            (void)printf("step %lld loss %.4f\n", (long long)stats.step, stats.loss);
        }
    }
    return CERO_OK;
}

int main(void)
{
    static const char *const overrides[] = {"train_batch_size=8", "optimizer.type=AdamW",
                                            "optimizer.params.lr=0.01"};
    cero_context *context = NULL;
    cero_config *config = NULL;
    cero_engine *engine = NULL;
    cero_engine_params params = {.build = build, .seq_len = SEQ_LEN};

    cero_status st = cero_context_create(NULL, &context);
    if (st == CERO_OK) {
        st = cero_config_create(context, NULL, overrides, 3, &config);
    }
    if (st == CERO_OK) {
        st = cero_engine_create(context, config, &params, &engine);
    }
    if (st == CERO_OK) {
        st = train(engine);
    }
    if (st != CERO_OK) {
        (void)fprintf(stderr, "first_model: %s\n", cero_error_string());
    }
    cero_engine_destroy(&engine);
    cero_config_destroy(&config);
    cero_context_destroy(&context);
    return st == CERO_OK ? 0 : 1;
}
