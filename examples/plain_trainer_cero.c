/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A character-level language model and its trainer in plain C. examples/plain_trainer.c is what a trainer is
 * before cero comes to it, examples/plain_trainer_cero.c after that; docs/external.md explains the difference.
 *
 * The model is that of Bengio et al., "A Neural Probabilistic Language Model" (2003), with a second hidden
 * layer: each of the last CONTEXT bytes is looked up in a table, and what stands there goes through two
 * layers of tanh to a distribution over the next byte. Forward and backward are written by hand.
 *
 * usage: trainer [TEXTFILE [STEPS [WEIGHTS]]]   trains on the bytes of TEXTFILE (default: this file, 200 steps),
 *                                               writes a few characters, and saves the weights in WEIGHTS
 *        trainer --check [TEXTFILE]             compares gradients with central differences of the loss
 */
#include <cero/cero.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the program with a message if something is not as it must be. */
#define CHECK(ok, ...) ((ok) ? (void)0 : (fprintf(stderr, "trainer: " __VA_ARGS__), exit(1)))
#define TRY(call)      CHECK(!(call), "%s\n", cero_error_message())

enum {
    VOCAB = 256,        /* every byte is a character */
    CONTEXT = 16,       /* bytes the model looks back */
    WIDTH = 21,         /* numbers that stand for a byte */
    HIDDEN = 77,        /* units of a hidden layer */
    MICRO_BATCH = 16,   /* samples that go forward and backward together */
    MICRO_BATCHES = 12, /* micro-batches of a step */
    INPUT = CONTEXT * WIDTH,
    NUMEL = VOCAB * WIDTH + (INPUT + 1) * HIDDEN + (HIDDEN + 1) * HIDDEN + (HIDDEN + 1) * VOCAB
};

enum {
    TABLE,
    W1,
    B1,
    W2,
    B2,
    W3,
    B3,
    PARAM_COUNT
};

/* A weight matrix, or a bias as a matrix of one row. */
struct param {
    const char *name;
    int rows, cols;
    float *data, *grad; /* [rows, cols] each, inside the model's */
};

/* One prediction: the bytes it is made from, the byte that comes, and what forward leaves for backward. */
struct sample {
    unsigned char context[CONTEXT], next;
    float x[INPUT]; /* the context, looked up in the table */
    float h1[HIDDEN], h2[HIDDEN], prob[VOCAB];
};

struct model {
    struct param params[PARAM_COUNT];
    cero_external_param table[PARAM_COUNT];
    float data[NUMEL], grad[NUMEL]; /* of all parameters, one after the other */
    struct sample batch[MICRO_BATCH];
};

struct text {
    unsigned char *bytes;
    size_t length; /* more than CONTEXT */
};

/* Random bits as a function of a number: one step of splitmix64. */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

/* Number i of a stream of random numbers that are even over [0, 1). */
static double uniform(uint64_t stream, int i)
{
    return (double)(mix(mix(stream) + (uint64_t)i) >> 11) * 0x1p-53;
}

/* Fills the table of parameters. An initial value is a function of the parameter's name and its place. */
static void init_params(struct model *model)
{
    static const struct param shapes[] = {
        [TABLE] = {.name = "table", .rows = VOCAB, .cols = WIDTH},
        [W1] = {.name = "hidden1.weight", .rows = INPUT, .cols = HIDDEN},
        [B1] = {.name = "hidden1.bias", .rows = 1, .cols = HIDDEN},
        [W2] = {.name = "hidden2.weight", .rows = HIDDEN, .cols = HIDDEN},
        [B2] = {.name = "hidden2.bias", .rows = 1, .cols = HIDDEN},
        [W3] = {.name = "output.weight", .rows = HIDDEN, .cols = VOCAB},
        [B3] = {.name = "output.bias", .rows = 1, .cols = VOCAB},
    };
    int begin = 0;

    for (int i = 0; i < PARAM_COUNT; i++) {
        struct param *p = &model->params[i];
        *p = shapes[i];
        p->data = model->data + begin;
        p->grad = model->grad + begin;
        uint64_t stream = 0;
        for (const char *c = p->name; *c != '\0'; c++) {
            stream = mix(stream + (unsigned char)*c);
        }
        double bound = i == TABLE ? 1.0 : p->rows == 1 ? 0.0 : sqrt(3.0 / p->rows);
        for (int k = 0; k < p->rows * p->cols; k++) {
            p->data[k] = (float)(bound * (2.0 * uniform(stream, k) - 1.0));
        }
        model->table[i] = cero_external_matrix(p->name, p->rows, p->cols, p->data, p->grad);
        begin += p->rows * p->cols;
    }
}

/* y = x W + b, for one row x. */
static void linear(const struct param *w, const struct param *b, const float *x, float *y)
{
    memcpy(y, b->data, (size_t)w->cols * sizeof(*y));
    for (int i = 0; i < w->rows; i++) {
        for (int j = 0; j < w->cols; j++) {
            y[j] += x[i] * w->data[i * w->cols + j];
        }
    }
}

/* From dy, the gradient of y: adds to the gradients of W and b, and sets that of x. */
static void linear_backward(const struct param *w, const struct param *b, const float *x,
                            const float *dy, float *dx)
{
    for (int j = 0; j < w->cols; j++) {
        b->grad[j] += dy[j];
    }
    for (int i = 0; i < w->rows; i++) {
        float sum = 0.0F;
        for (int j = 0; j < w->cols; j++) {
            w->grad[i * w->cols + j] += x[i] * dy[j];
            sum += w->data[i * w->cols + j] * dy[j];
        }
        dx[i] = sum;
    }
}

/* Turns scores into probabilities; returns the logarithm of the sum of the scores' exponentials. */
static double softmax(float *row)
{
    float max = row[0];
    double sum = 0.0;

    for (int v = 1; v < VOCAB; v++) {
        max = fmaxf(max, row[v]);
    }
    for (int v = 0; v < VOCAB; v++) {
        row[v] = expf(row[v] - max);
        sum += (double)row[v];
    }
    for (int v = 0; v < VOCAB; v++) {
        row[v] = (float)((double)row[v] / sum);
    }
    return (double)max + log(sum);
}

/* Predicts the samples' next bytes; returns the mean of the losses -ln(probability of the true next byte). */
static double forward(const struct param *p, struct sample *samples, int count)
{
    double loss = 0.0;

    for (struct sample *s = samples; s < samples + count; s++) {
        for (int c = 0; c < CONTEXT; c++) {
            memcpy(s->x + c * WIDTH, p[TABLE].data + s->context[c] * WIDTH, WIDTH * sizeof(float));
        }
        linear(&p[W1], &p[B1], s->x, s->h1);
        for (int j = 0; j < HIDDEN; j++) {
            s->h1[j] = tanhf(s->h1[j]);
        }
        linear(&p[W2], &p[B2], s->h1, s->h2);
        for (int j = 0; j < HIDDEN; j++) {
            s->h2[j] = tanhf(s->h2[j]);
        }
        linear(&p[W3], &p[B3], s->h2, s->prob);
        double score = (double)s->prob[s->next];
        loss += softmax(s->prob) - score;
    }
    return loss / count;
}

/* Adds to all gradients those of the mean loss of samples that forward has seen. */
static void backward(const struct param *p, const struct sample *samples, int count)
{
    float dscore[VOCAB], dh2[HIDDEN], dh1[HIDDEN], dx[INPUT];

    for (const struct sample *s = samples; s < samples + count; s++) {
        for (int v = 0; v < VOCAB; v++) {
            dscore[v] = (s->prob[v] - (v == s->next ? 1.0F : 0.0F)) / (float)count;
        }
        linear_backward(&p[W3], &p[B3], s->h2, dscore, dh2);
        for (int j = 0; j < HIDDEN; j++) {
            dh2[j] *= 1.0F - s->h2[j] * s->h2[j];
        }
        linear_backward(&p[W2], &p[B2], s->h1, dh2, dh1);
        for (int j = 0; j < HIDDEN; j++) {
            dh1[j] *= 1.0F - s->h1[j] * s->h1[j];
        }
        linear_backward(&p[W1], &p[B1], s->x, dh1, dx);
        for (int k = 0; k < INPUT; k++) {
            p[TABLE].grad[s->context[k / WIDTH] * WIDTH + k % WIDTH] += dx[k];
        }
    }
}

/* Reads a file whole. */
static void read_text(const char *path, struct text *text)
{
    size_t room = 0;
    FILE *file = fopen(path, "rb");

    CHECK(file != NULL, "cannot open %s: %s\n", path, strerror(errno));
    while (text->length == room) {
        room = 2 * room + 65536;
        text->bytes = realloc(text->bytes, room);
        CHECK(text->bytes != NULL, "no memory for %zu bytes of %s\n", room, path);
        text->length += fread(text->bytes + text->length, 1, room - text->length, file);
    }
    CHECK(ferror(file) == 0 && fclose(file) == 0, "cannot read %s: %s\n", path, strerror(errno));
    CHECK(text->length > CONTEXT, "%s is too short: it has %zu bytes, and at least %d are needed\n",
          path, text->length, CONTEXT + 1);
}

/* Samples first, first + 1, … of the run: the place of a sample in the text is a hash of its number. */
static void fill_batch(struct model *model, const struct text *text, int64_t first)
{
    for (int i = 0; i < MICRO_BATCH; i++) {
        size_t place = mix((uint64_t)(first + i)) % (text->length - CONTEXT);
        memcpy(model->batch[i].context, text->bytes + place, CONTEXT);
        model->batch[i].next = text->bytes[place + CONTEXT];
    }
}

/* Writes all parameters in the order of the table: floats, row by row, and nothing else. */
static void save_weights(const struct model *model, const char *path)
{
    FILE *file = fopen(path, "wb");

    bool is_written = file != NULL && fwrite(model->data, sizeof(float), NUMEL, file) == NUMEL;
    CHECK(is_written && fclose(file) == 0, "cannot write %s: %s\n", path, strerror(errno));
}

/* Continues the beginning of the text with bytes drawn from the model. */
static void generate(const struct model *model, const struct text *text, int count)
{
    struct sample s = {0};

    memcpy(s.context, text->bytes, CONTEXT);
    for (int i = 0; i < count; i++) {
        (void)forward(model->params, &s, 1);
        double left = uniform(1, i);
        int next = 0;
        while (next < VOCAB - 1 && left >= (double)s.prob[next]) {
            left -= (double)s.prob[next++];
        }
        (void)putchar(next == '\n' || (next >= ' ' && next <= '~') ? next : '?');
        memmove(s.context, s.context + 1, CONTEXT - 1);
        s.context[CONTEXT - 1] = (unsigned char)next;
    }
    (void)putchar('\n');
}

/* Trains, tells how it goes, and leaves a sample of what the weights write, and perhaps the weights. */
static void train(struct model *model, const struct text *text, int steps, const char *weights)
{
    cero_step_stats stats = {0};
    cero_engine *engine = NULL;

    TRY(cero_engine_open_external("ds_config.json", model->table, PARAM_COUNT, &engine));
    TRY(cero_engine_resume(engine, "checkpoints", &stats));
    /* This process takes micro-batches rank, rank + size, … of each step: alone, it takes all. */
    const int rank = cero_engine_rank(engine), size = cero_engine_size(engine);

    while (stats.step < steps) {
        for (int k = rank; k < MICRO_BATCHES; k += size) {
            fill_batch(model, text, (stats.step * MICRO_BATCHES + k) * MICRO_BATCH);
            memset(model->grad, 0, sizeof(model->grad));
            double loss = forward(model->params, model->batch, MICRO_BATCH);
            backward(model->params, model->batch, MICRO_BATCH);
            TRY(cero_engine_backward(engine, loss) || cero_engine_step(engine, &stats));
        }
        if (rank == 0 && (stats.step == 1 || stats.step % 10 == 0)) {
            (void)printf("step %lld loss %.6f lr %.6f\n", (long long)stats.step, stats.loss,
                         stats.lr);
        }
    }
    TRY(cero_engine_save(engine, "checkpoints", NULL));
    if (rank == 0 && weights != NULL) {
        save_weights(model, weights);
    }
    if (rank == 0) {
        generate(model, text, 300);
    }
    cero_engine_destroy(&engine);
}

/* Compares gradients with central differences of the loss: of each parameter as many elements, drawn from all. */
static void check_gradients(struct model *model, const struct text *text)
{
    enum {
        ELEMENTS = 400,
        COUNT = 2 /* samples: each costs two passes for every element */
    };
    const float by = 0.01F;

    fill_batch(model, text, 0);
    (void)forward(model->params, model->batch, COUNT);
    backward(model->params, model->batch, COUNT);
    for (struct param *p = model->params; p < model->params + PARAM_COUNT; p++) {
        double error = 0.0, norm = 0.0;
        int numel = p->rows * p->cols;
        for (int i = 0; i < ELEMENTS && i < numel; i++) {
            int k = numel <= ELEMENTS ? i : (int)(mix((uint64_t)i) % (uint64_t)numel);
            float saved = p->data[k];
            p->data[k] = saved + by;
            double above = forward(model->params, model->batch, COUNT);
            p->data[k] = saved - by;
            double slope = (above - forward(model->params, model->batch, COUNT)) / (2 * (double)by);
            p->data[k] = saved;
            error += pow(slope - (double)p->grad[k], 2);
            norm += pow(slope, 2);
        }
        (void)printf("%s: relative error %.1e\n", p->name, sqrt(error / norm));
        CHECK(sqrt(error / norm) < 0.005, "the gradient of %s is wrong\n", p->name);
    }
}

int main(int argc, char **argv)
{
    static struct model model; /* static: too large for the stack */
    static struct text text;
    bool is_check = argc > 1 && strcmp(argv[1], "--check") == 0;
    const char *path = argc > 1 + is_check ? argv[1 + is_check] : __FILE__;
    char *end = NULL;
    long steps = argc > 2 && !is_check ? strtol(argv[2], &end, 10) : 200;

    CHECK(argc <= (is_check ? 3 : 4) && (end == NULL || *end == '\0') && steps > 0 &&
              steps <= 1000000,
          "usage: trainer [TEXTFILE [STEPS [WEIGHTS]]], or trainer --check [TEXTFILE]\n");
    read_text(path, &text);
    init_params(&model);
    if (is_check) {
        check_gradients(&model, &text);
    } else {
        train(&model, &text, (int)steps, argc > 3 ? argv[3] : NULL);
    }
    free(text.bytes);
    return 0;
}
