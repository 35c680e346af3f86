/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPT-2 and Llama as Hugging Face defines them, in double and with plain loops, from the tensors of a model
 * directory by their names: what the logits of an imported model are held against. Nothing of the graph, the
 * kernels or the import is used.
 *
 * T positions, H hidden, A heads of D, K key/value heads, I inner, V vocabulary.
 */
#ifndef CERO_TESTS_UNIT_CKPT_HF_REFERENCE_H
#define CERO_TESTS_UNIT_CKPT_HF_REFERENCE_H

#include "unit/ckpt/files.h"

#include "ckpt/shards.h"

#include <math.h>

enum {
    REFERENCE_MAX = 256, /* of H, I and the width of all heads */
    REFERENCE_T = 9,     /* positions */
    REFERENCE_MAX_V = 64
};

#define REFERENCE_PI 3.14159265358979323846

typedef enum reference_activation {
    REFERENCE_GELU_TANH = 0,
    REFERENCE_GELU = 1,
    REFERENCE_RELU = 2,
    REFERENCE_SILU = 3,
    REFERENCE_TANH = 4
} reference_activation;

typedef enum reference_rope {
    REFERENCE_ROPE_DEFAULT = 0,
    REFERENCE_ROPE_LINEAR = 1,
    REFERENCE_ROPE_LLAMA3 = 2
} reference_rope;

/* The numbers of a config.json, all of them double so that a test can set any by its offset. */
typedef struct reference_model {
    double is_llama;
    double V, C, H, L, A, K, D, I;
    double activation;
    double eps;
    double is_tied;
    double scale_weights, scale_by_layer; /* GPT-2 */
    double attention_bias, mlp_bias;      /* Llama */
    double rope, theta, factor, low, high, original;
} reference_model;

/* A tensor as doubles, [numel], from the files; freed by reference_run. */
typedef struct reference_files {
    cero_shards *shards;
    double *loaded[256];
    int count;
} reference_files;

static inline const double *reference_get(reference_files *f, const char *name, int64_t numel)
{
    const cero_shards_entry *e = cero_shards_find(f->shards, name);
    float *x = cero_new((size_t)numel, sizeof(float));
    double *out = cero_new((size_t)numel, sizeof(double));

    if (e == NULL || e->tensor->numel != numel) {
        fail_msg("the reference expects %s with %lld elements", name, (long long)numel);
        abort();
    }
    assert_ok(cero_safetensors_read_f32(e->file, e->tensor, 0, numel, x));
    for (int64_t i = 0; i < numel; i++) {
        out[i] = (double)x[i];
    }
    cero_delete(x);
    assert_true(f->count < 256);
    f->loaded[f->count++] = out;
    return out;
}

CERO_PRINTF(3, 4)
static inline const double *reference_layer(reference_files *f, int64_t numel, const char *fmt, ...)
{
    char name[128];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(name, sizeof(name), fmt, args);
    va_end(args);
    return reference_get(f, name, numel);
}

static inline double reference_act(int kind, double x)
{
    switch ((reference_activation)kind) {
    case REFERENCE_GELU_TANH:
        return 0.5 * x * (1 + tanh(sqrt(2 / REFERENCE_PI) * (x + 0.044715 * x * x * x)));
    case REFERENCE_GELU:
        return 0.5 * x * (1 + erf(x / sqrt(2)));
    case REFERENCE_RELU:
        return x > 0 ? x : 0;
    case REFERENCE_SILU:
        return x / (1 + exp(-x));
    case REFERENCE_TANH:
    default:
        return tanh(x);
    }
}

/* y [n] = w x + b; w is [n, m], or [m, n] when is_conv (Hugging Face's Conv1D). */
static inline void reference_linear(const double *w, const double *b, const double *x, int n, int m,
                                    bool is_conv, double *y)
{
    for (int i = 0; i < n; i++) {
        y[i] = b == NULL ? 0 : b[i];
        for (int k = 0; k < m; k++) {
            y[i] += x[k] * (is_conv ? w[k * n + i] : w[i * m + k]);
        }
    }
}

/* Layer norm with a bias, RMS norm without. */
static inline void reference_norm(const double *w, const double *b, const double *x, int n,
                                  double eps, double *y)
{
    double mean = 0;
    double square = 0;

    for (int i = 0; i < n && b != NULL; i++) {
        mean += x[i] / n;
    }
    for (int i = 0; i < n; i++) {
        square += (x[i] - mean) * (x[i] - mean) / n;
    }
    for (int i = 0; i < n; i++) {
        y[i] = (x[i] - mean) / sqrt(square + eps) * w[i] + (b == NULL ? 0 : b[i]);
    }
}

/* The frequency of pair j of a head. */
static inline double reference_frequency(const reference_model *m, int j)
{
    double f = pow(m->theta, -2.0 * j / m->D);
    double wavelength = 2 * REFERENCE_PI / f;

    if (m->rope == REFERENCE_ROPE_LINEAR) {
        return f / m->factor;
    }
    if (m->rope != REFERENCE_ROPE_LLAMA3 || wavelength < m->original / m->high) {
        return f;
    }
    if (wavelength > m->original / m->low) {
        return f / m->factor;
    }
    double smooth = (m->original / wavelength - m->low) / (m->high - m->low);
    return (1 - smooth) * f / m->factor + smooth * f;
}

/* Half-split layout: element j is turned with element j + D/2. */
static inline void reference_rotate(const reference_model *m, int position, int heads, double *x)
{
    int D = (int)m->D;

    for (int h = 0; h < heads; h++, x += D) {
        for (int j = 0; j < D / 2; j++) {
            double angle = position * reference_frequency(m, j);
            double a = x[j];
            double b = x[j + D / 2];
            x[j] = a * cos(angle) - b * sin(angle);
            x[j + D / 2] = b * cos(angle) + a * sin(angle);
        }
    }
}

/* Keys and values of one layer at all positions so far. */
typedef struct reference_cache {
    double k[REFERENCE_T][REFERENCE_MAX];
    double v[REFERENCE_T][REFERENCE_MAX];
} reference_cache;

static inline void reference_attend(const reference_model *m, int layer, int t,
                                    const reference_cache *c, const double *q, double *out)
{
    int D = (int)m->D;
    double scale = m->scale_weights != 0 ? 1 / sqrt(m->D) : 1;

    scale /= m->scale_by_layer != 0 ? layer + 1 : 1;
    for (int h = 0; h < (int)m->A; h++) {
        double score[REFERENCE_T];
        double most = -1e300;
        double sum = 0;
        int kv = h / (int)(m->A / m->K) * D; // query heads of a group share a key head
        for (int s = 0; s <= t; s++) {
            score[s] = 0;
            for (int j = 0; j < D; j++) {
                score[s] += q[h * D + j] * c->k[s][kv + j] * scale;
            }
            most = fmax(most, score[s]);
        }
        for (int s = 0; s <= t; s++) {
            score[s] = exp(score[s] - most);
            sum += score[s];
        }
        for (int j = 0; j < D; j++) {
            out[h * D + j] = 0;
            for (int s = 0; s <= t; s++) {
                out[h * D + j] += score[s] / sum * c->v[s][kv + j];
            }
        }
    }
}

/* One layer of GPT-2 at position t, in place. */
static inline void reference_gpt2_layer(const reference_model *m, reference_files *f, int l, int t,
                                        reference_cache *c, double *x)
{
    int H = (int)m->H;
    int I = (int)m->I;
    double h[REFERENCE_MAX];
    double y[3 * REFERENCE_MAX];
    double o[REFERENCE_MAX];
    const char *p = "transformer.h";

    reference_norm(reference_layer(f, H, "%s.%d.ln_1.weight", p, l),
                   reference_layer(f, H, "%s.%d.ln_1.bias", p, l), x, H, m->eps, h);
    reference_linear(reference_layer(f, 3LL * H * H, "%s.%d.attn.c_attn.weight", p, l),
                     reference_layer(f, 3LL * H, "%s.%d.attn.c_attn.bias", p, l), h, 3 * H, H, true,
                     y);
    memcpy(c->k[t], y + H, (size_t)H * sizeof(double));
    memcpy(c->v[t], y + 2 * (size_t)H, (size_t)H * sizeof(double));
    reference_attend(m, l, t, c, y, h);
    reference_linear(reference_layer(f, (int64_t)H * H, "%s.%d.attn.c_proj.weight", p, l),
                     reference_layer(f, H, "%s.%d.attn.c_proj.bias", p, l), h, H, H, true, o);
    for (int i = 0; i < H; i++) {
        x[i] += o[i];
    }
    reference_norm(reference_layer(f, H, "%s.%d.ln_2.weight", p, l),
                   reference_layer(f, H, "%s.%d.ln_2.bias", p, l), x, H, m->eps, h);
    reference_linear(reference_layer(f, (int64_t)H * I, "%s.%d.mlp.c_fc.weight", p, l),
                     reference_layer(f, I, "%s.%d.mlp.c_fc.bias", p, l), h, I, H, true, y);
    for (int i = 0; i < I; i++) {
        y[i] = reference_act((int)m->activation, y[i]);
    }
    reference_linear(reference_layer(f, (int64_t)I * H, "%s.%d.mlp.c_proj.weight", p, l),
                     reference_layer(f, H, "%s.%d.mlp.c_proj.bias", p, l), y, H, I, true, o);
    for (int i = 0; i < H; i++) {
        x[i] += o[i];
    }
}

/* A linear layer of Llama by its name, with its bias where the model has some. */
static inline void reference_project(reference_files *f, int l, const char *name, bool has_bias,
                                     const double *x, int n, int m, double *y)
{
    const double *w = reference_layer(f, (int64_t)n * m, "model.layers.%d.%s.weight", l, name);
    const double *b = has_bias ? reference_layer(f, n, "model.layers.%d.%s.bias", l, name) : NULL;

    reference_linear(w, b, x, n, m, false, y);
}

static inline void reference_llama_layer(const reference_model *m, reference_files *f, int l, int t,
                                         reference_cache *c, double *x)
{
    int H = (int)m->H;
    int I = (int)m->I;
    int q = (int)(m->A * m->D);
    int kv = (int)(m->K * m->D);
    bool attention_bias = m->attention_bias != 0;
    bool mlp_bias = m->mlp_bias != 0;
    double h[REFERENCE_MAX];
    double y[REFERENCE_MAX];
    double z[REFERENCE_MAX];

    reference_norm(reference_layer(f, H, "model.layers.%d.input_layernorm.weight", l), NULL, x, H,
                   m->eps, h);
    reference_project(f, l, "self_attn.q_proj", attention_bias, h, q, H, y);
    reference_project(f, l, "self_attn.k_proj", attention_bias, h, kv, H, c->k[t]);
    reference_project(f, l, "self_attn.v_proj", attention_bias, h, kv, H, c->v[t]);
    reference_rotate(m, t, (int)m->A, y);
    reference_rotate(m, t, (int)m->K, c->k[t]);
    reference_attend(m, l, t, c, y, z);
    reference_project(f, l, "self_attn.o_proj", attention_bias, z, H, q, h);
    for (int i = 0; i < H; i++) {
        x[i] += h[i];
    }
    reference_norm(reference_layer(f, H, "model.layers.%d.post_attention_layernorm.weight", l),
                   NULL, x, H, m->eps, h);
    reference_project(f, l, "mlp.gate_proj", mlp_bias, h, I, H, y);
    reference_project(f, l, "mlp.up_proj", mlp_bias, h, I, H, z);
    for (int i = 0; i < I; i++) {
        y[i] = reference_act((int)m->activation, y[i]) * z[i];
    }
    reference_project(f, l, "mlp.down_proj", mlp_bias, y, H, I, h);
    for (int i = 0; i < H; i++) {
        x[i] += h[i];
    }
}

/* Logits [REFERENCE_T, V] of the model whose files are in `where`. */
static inline void reference_run(const char *where, const reference_model *m, const int32_t *tokens,
                                 double *logits)
{
    reference_files f = {0};
    reference_cache *cache = cero_new((size_t)m->L, sizeof(*cache));
    bool is_llama = m->is_llama != 0;
    int H = (int)m->H;
    int V = (int)m->V;
    double x[REFERENCE_MAX];
    double h[REFERENCE_MAX];

    assert_ok(cero_shards_open(where, &f.shards));
    const double *table = reference_get(
        &f, is_llama ? "model.embed_tokens.weight" : "transformer.wte.weight", (int64_t)V * H);
    const double *positions =
        is_llama ? NULL : reference_get(&f, "transformer.wpe.weight", (int64_t)m->C * H);
    const double *head =
        m->is_tied != 0 ? table : reference_get(&f, "lm_head.weight", (int64_t)V * H);
    for (int t = 0; t < REFERENCE_T; t++) {
        int loaded = f.count;
        for (int i = 0; i < H; i++) {
            x[i] = table[tokens[t] * H + i] + (is_llama ? 0 : positions[t * H + i]);
        }
        for (int l = 0; l < (int)m->L; l++) {
            (is_llama ? reference_llama_layer : reference_gpt2_layer)(m, &f, l, t, &cache[l], x);
        }
        reference_norm(
            reference_get(&f, is_llama ? "model.norm.weight" : "transformer.ln_f.weight", H),
            is_llama ? NULL : reference_get(&f, "transformer.ln_f.bias", H), x, H, m->eps, h);
        reference_linear(head, NULL, h, V, H, false, logits + (size_t)t * (size_t)V);
        while (f.count > loaded) {
            cero_delete(f.loaded[--f.count]);
        }
    }
    while (f.count > 0) {
        cero_delete(f.loaded[--f.count]);
    }
    cero_shards_close(&f.shards);
    cero_delete(cache);
}

#endif
