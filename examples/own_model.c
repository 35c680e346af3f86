/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model and two operations of its own, with the public headers alone: a character model that looks a few
 * characters back by shifting, with squared ReLU (So et al., "Primer", 2021) between layers.
 *
 * An operation says what comes out (infer), appends its backward (differentiate), and runs; it may split its
 * work over the engine's threads. Nothing else has to know of it: gradients, activation checkpointing, the
 * memory plan and mixed precision work as for the operations that come with the library.
 *
 * usage: own_model [FILE]      trains on the bytes of FILE (default: this file)
 */
#include <cero/cero.h>

#include <stdio.h>
#include <string.h>

enum {
    VOCAB = 256,
    HIDDEN = 64,
    LAYERS = 3,
    SEQ_LEN = 64,
    BATCH = 8,
    STEPS = 120,
    MAX_TEXT = 1 << 16
};

/* Shift: row t of a sequence becomes row t - by; the first rows become zeros. by < 0 shifts back. */

typedef struct shift_attr {
    int64_t seq_len;
    int64_t by;
} shift_attr;

static cero_status shift_infer(cero_op_infer *infer)
{
    infer->output_count = 1;
    infer->output[0] = infer->input[0]; // same dtype and shape
    return CERO_OK;
}

typedef struct shift_task {
    const cero_op_run *run;
    size_t row_bytes;
} shift_task;

static void shift_rows(void *context, int64_t begin, int64_t end, int thread)
{
    const shift_task *task = context;
    const shift_attr *attr = task->run->attr;
    const char *x = task->run->input[0]; /* [rows, cols] */
    char *y = task->run->output[0];      /* [rows, cols] */
    (void)thread;

    for (int64_t row = begin; row < end; row++) {
        int64_t from = row % attr->seq_len - attr->by;
        char *to = y + (size_t)row * task->row_bytes;
        if (from < 0 || from >= attr->seq_len) {
            memset(to, 0, task->row_bytes);
        } else {
            memcpy(to, x + (size_t)(row - attr->by) * task->row_bytes, task->row_bytes);
        }
    }
}

static cero_status shift_run(const cero_op_run *run)
{
    const cero_tensor_desc *x = &run->input_desc[0];
    shift_task task = {.run = run,
                       .row_bytes = (size_t)x->shape.dim[1] * cero_dtype_size(x->dtype)};

    cero_run_parallel_for(run, x->shape.dim[0], shift_rows, &task);
    return CERO_OK;
}

static cero_status shift_differentiate(cero_graph *graph, const cero_node *node);

static const cero_op shift_op = {.name = "shift",
                                 .attr_size = sizeof(shift_attr),
                                 .infer = shift_infer,
                                 .differentiate = shift_differentiate,
                                 .run = shift_run};

static cero_value *shift(cero_graph *graph, cero_value *x, int64_t seq_len, int64_t by)
{
    return cero_graph_append(graph, &shift_op, &(shift_attr){.seq_len = seq_len, .by = by}, &x, 1,
                             NULL);
}

/* What went forward by `by` comes back by `by`. */
static cero_status shift_differentiate(cero_graph *graph, const cero_node *node)
{
    const shift_attr *attr = cero_node_attr(node);
    cero_value *dy = cero_graph_grad(graph, cero_node_output(node, 0));

    return cero_graph_add_grad(graph, cero_node_input(node, 0),
                               shift(graph, dy, attr->seq_len, -attr->by));
}

/* Squared ReLU, composed of operations that are there: its gradient needs no code. */
static cero_value *squared_relu(cero_graph *graph, cero_value *x)
{
    cero_value *y = cero_graph_apply_function(graph, x, CERO_FUNCTION_RELU);

    return cero_graph_mul(graph, y, y);
}

static cero_value *weight(cero_graph *graph, const char *name, int64_t rows, int64_t cols,
                          bool is_embedding)
{
    return cero_graph_param(graph, &(cero_param_params){.name = name,
                                                        .shape = {.ndim = 2, .dim = {rows, cols}},
                                                        .init = CERO_INIT_NORMAL,
                                                        .std = 0.08,
                                                        .is_embedding = is_embedding});
}

/* x + W2 squared_relu(W1 x + V1 shifted x): each layer sees one place further back. */
static cero_value *layer(cero_graph *graph, cero_value *x, int number, int64_t seq_len)
{
    char name[4][32];

    (void)snprintf(name[0], sizeof(name[0]), "layer.%d", number);
    (void)snprintf(name[1], sizeof(name[1]), "layer.%d.here", number);
    (void)snprintf(name[2], sizeof(name[2]), "layer.%d.before", number);
    (void)snprintf(name[3], sizeof(name[3]), "layer.%d.out", number);
    cero_graph_begin_unit(graph, name[0], true);
    cero_value *before = shift(graph, x, seq_len, number + 1);
    cero_value *y = cero_graph_add(
        graph,
        cero_graph_linear(graph, x, weight(graph, name[1], 2 * HIDDEN, HIDDEN, false), NULL, true),
        cero_graph_linear(graph, before, weight(graph, name[2], 2 * HIDDEN, HIDDEN, false), NULL,
                          true));
    y = squared_relu(graph, y);
    y = cero_graph_linear(graph, y, weight(graph, name[3], HIDDEN, 2 * HIDDEN, false), NULL, true);
    x = cero_graph_add(graph, x, y);
    cero_graph_end_unit(graph);
    return x;
}

static cero_status build(cero_graph *graph, const cero_model_shape *shape, const void *context)
{
    cero_shape rows = {.ndim = 1, .dim = {shape->micro_batch * shape->seq_len}};
    cero_value *tokens = cero_graph_input(graph, "tokens", CERO_DTYPE_I32, rows);
    cero_value *targets = cero_graph_input(graph, "targets", CERO_DTYPE_I32, rows);
    (void)context;

    cero_graph_begin_unit(graph, "embedding", false);
    cero_value *x =
        cero_graph_embedding(graph, tokens, weight(graph, "table", VOCAB, HIDDEN, true));
    cero_graph_end_unit(graph);
    for (int i = 0; i < LAYERS; i++) {
        x = layer(graph, x, i, shape->seq_len);
    }
    cero_graph_begin_unit(graph, "head", false);
    cero_value *head = weight(graph, "head", VOCAB, HIDDEN, true);
    cero_graph_set_output(graph, "loss", cero_graph_head_loss(graph, x, head, targets));
    cero_graph_end_unit(graph);
    return cero_graph_status(graph);
}

typedef struct text {
    unsigned char bytes[MAX_TEXT];
    int64_t length;
} text;

static bool read_text(const char *path, text *out)
{
    FILE *file = fopen(path, "rb");

    if (file == NULL) {
        return false;
    }
    out->length = (int64_t)fread(out->bytes, 1, sizeof(out->bytes), file);
    (void)fclose(file);
    return out->length > SEQ_LEN;
}

static void fill_batch(const text *from, int64_t step, int32_t *tokens, int32_t *targets)
{
    for (int64_t sample = 0; sample < BATCH; sample++) {
        int64_t start = (step * BATCH + sample) * 1009 % (from->length - SEQ_LEN);
        for (int64_t t = 0; t < SEQ_LEN; t++) {
            tokens[sample * SEQ_LEN + t] = from->bytes[start + t];
            targets[sample * SEQ_LEN + t] = from->bytes[start + t + 1];
        }
    }
}

static cero_status train(cero_engine *engine, const text *from)
{
    static int32_t tokens[BATCH * SEQ_LEN];
    static int32_t targets[BATCH * SEQ_LEN];
    const char *names[] = {"tokens", "targets"};
    const void *data[] = {tokens, targets};

    for (int64_t step = 0; step < STEPS; step++) {
        cero_batch batch = {.input_count = 2, .name = names, .data = data, .sample = step * BATCH};
        cero_step_stats stats;
        fill_batch(from, step, tokens, targets);
        cero_status st = cero_engine_train_batch(engine, &batch, &stats);
        if (st != CERO_OK) {
            return st;
        }
        if (stats.step == 1 || stats.step % 40 == 0) {
            (void)printf("step %lld loss %.4f\n", (long long)stats.step, stats.loss);
        }
    }
    return CERO_OK;
}

int main(int argc, char **argv)
{
    // A DeepSpeed config, as overrides: bf16 with fp32 masters, activation checkpointing of each layer.
    static const char *const overrides[] = {
        "train_batch_size=8",   "train_micro_batch_size_per_gpu=4", "bf16.enabled=true",
        "optimizer.type=AdamW", "optimizer.params.lr=0.004",        "cero.checkpoint_units=1"};
    static text corpus;
    cero_context *context = NULL;
    cero_config *config = NULL;
    cero_engine *engine = NULL;
    cero_engine_params params = {.build = build, .seq_len = SEQ_LEN};
    const char *path = argc > 1 ? argv[1] : __FILE__;

    if (!read_text(path, &corpus)) {
        (void)fprintf(stderr, "own_model: %s cannot be read or is shorter than %d bytes\n", path,
                      SEQ_LEN);
        return 1;
    }
    cero_status st = cero_context_create(NULL, &context);
    if (st == CERO_OK) {
        st = cero_config_create(context, NULL, overrides, 6, &config);
    }
    if (st == CERO_OK) {
        st = cero_engine_create(context, config, &params, &engine);
    }
    if (st == CERO_OK) {
        st = train(engine, &corpus);
    }
    if (st != CERO_OK) {
        (void)fprintf(stderr, "own_model: %s\n", cero_error_string());
    }
    cero_engine_destroy(&engine);
    cero_config_destroy(&config);
    cero_context_destroy(&context);
    return st == CERO_OK ? 0 : 1;
}
