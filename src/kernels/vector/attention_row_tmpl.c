/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention of one query over many keys, as in decoding: every key and value is read once and used
 * once, so this runs at the speed of memory and packs nothing. Included after attention_blocks_tmpl.c.
 */
enum {
    ROW_VECTORS = 4 /* of the result held in registers */
};

/* scores[j] = factor * q . k of key + j; q is f32, padded with zeros to VEC_WIDTH. */
KERNEL_INLINE void row_scores(cero_dtype dtype, const cero_attention_args *a, const float *q,
                              int64_t key, int64_t count, float *scores)
{
    float factor = a->scale * log2_e;

    for (int64_t j = 0; j < count; j++) {
        matrix k = rows_of(dtype, a->k, a->k_stride, key + j, 1, a->head_dim);
        vec sum[2] = {vec_set(0.0f), vec_set(0.0f)};
        int64_t c = 0;
        for (; c + 2 * VEC_WIDTH <= a->head_dim; c += 2 * VEC_WIDTH) {
            vec k0 = load_any(dtype, k.data, c, VEC_WIDTH);
            vec k1 = load_any(dtype, k.data, c + VEC_WIDTH, VEC_WIDTH);
            sum[0] = vec_fma(load_f32(q + c), k0, sum[0]);
            sum[1] = vec_fma(load_f32(q + c + VEC_WIDTH), k1, sum[1]);
        }
        for (; c < a->head_dim; c += VEC_WIDTH) {
            vec part = load_any(dtype, k.data, c, a->head_dim - c);
            sum[0] = vec_fma(load_f32(q + c), part, sum[0]);
        }
        scores[j] = factor * vec_sum(sum[0] + sum[1]);
    }
}

/* acc[c] += sum over rows j of weights[j] * v[j][c], for cols <= ROW_VECTORS * VEC_WIDTH from col on */
KERNEL_INLINE void row_columns(cero_dtype dtype, const matrix *v, const float *weights, int64_t col,
                               int64_t cols, float *acc)
{
    vec sum[ROW_VECTORS];

    for (int i = 0; i < ROW_VECTORS; i++) {
        sum[i] = load_f32(acc + col + i * VEC_WIDTH);
    }
    for (int64_t j = 0; j < v->rows; j++) {
        const void *row = row_at(v, j);
        vec weight = vec_set(weights[j]);
        for (int i = 0; i < ROW_VECTORS; i++) {
            int64_t at = i * VEC_WIDTH;
            if (at < cols) {
                sum[i] = vec_fma(weight, load_any(dtype, row, col + at, cols - at), sum[i]);
            }
        }
    }
    for (int i = 0; i < ROW_VECTORS; i++) {
        store_f32(acc + col + i * VEC_WIDTH, sum[i]);
    }
}

/* acc += sum over j of weights[j] * v of key + j */
KERNEL_INLINE void row_values(cero_dtype dtype, const cero_attention_args *a, const float *weights,
                              int64_t key, int64_t count, float *acc)
{
    const int64_t whole = ROW_VECTORS * VEC_WIDTH;
    matrix v = rows_of(dtype, a->v, a->v_stride, key, count, a->head_dim);
    int64_t col = 0;

    for (; col + whole <= a->head_dim; col += whole) {
        row_columns(dtype, &v, weights, col, whole, acc);
    }
    if (col < a->head_dim) {
        row_columns(dtype, &v, weights, col, a->head_dim - col, acc);
    }
}

/* weights[0 .. KEYS-1] = 2^(scores - base); those from the count-th on were set to -inf. */
KERNEL_INLINE float row_weights(float *weights, float base)
{
    vec sum = vec_set(0.0f);

    for (int64_t j = 0; j < KEYS; j += VEC_WIDTH) {
        vec p = vec_exp2(load_f32(weights + j) - vec_set(base));
        sum = sum + p;
        store_f32(weights + j, p);
    }
    return vec_sum(sum);
}

static void row_dropout(const cero_attention_args *a, int64_t query, int64_t key, int64_t count,
                        float *weights)
{
    uint64_t first = a->drop_element + (uint64_t)query * a->drop_stride + (uint64_t)key;
    uint32_t words[4];

    for (int64_t j = 0; j < count; j++) {
        uint64_t element = first + (uint64_t)j;
        if (j == 0 || element % 4 == 0) {
            cero_rng_block(a->drop_key, a->drop_sample, element / 4, words);
        }
        weights[j] = words[element % 4] >= a->drop_threshold ? weights[j] * a->drop_scale : 0.0f;
    }
}

static int64_t row_scratch(int64_t head_dim)
{
    return 2 * round_up(head_dim, ROW_VECTORS * VEC_WIDTH);
}

KERNEL_INLINE void forward_row_of(cero_dtype dtype, const cero_attention_args *a, int64_t query)
{
    int64_t visible = a->query_offset + query + 1;
    int64_t padded = round_up(a->head_dim, ROW_VECTORS * VEC_WIDTH);
    float *q = a->scratch;
    float *acc = q + padded;
    float max = -INFINITY;
    float sum = 0.0f;

    for (int64_t c = 0; c < padded; c += VEC_WIDTH) {
        matrix m = rows_of(dtype, a->q, a->q_stride, query, 1, a->head_dim);
        store_f32(q + c, c < m.cols ? load_any(dtype, m.data, c, m.cols - c) : vec_set(0.0f));
        store_f32(acc + c, vec_set(0.0f));
    }
    for (int64_t key = 0; key < visible; key += KEYS) {
        int64_t count = smaller(KEYS, visible - key);
        float weights[KEYS];
        float next = max;
        prefetch_keys(dtype, a, key + KEYS, visible);
        row_scores(dtype, a, q, key, count, weights);
        for (int64_t j = count; j < KEYS; j++) {
            weights[j] = -INFINITY;
        }
        for (int64_t j = 0; j < KEYS; j += VEC_WIDTH) {
            float largest = vec_max_lane(load_f32(weights + j));
            next = largest > next ? largest : next;
        }
        float base = next == -INFINITY ? 0.0f : next;
        float shrink = exp2f(max - base);
        sum = sum * shrink + row_weights(weights, base);
        if (a->drop_threshold != 0) {
            row_dropout(a, query, key, count, weights);
        }
        for (int64_t c = 0; c < padded && shrink != 1.0f; c += VEC_WIDTH) {
            store_f32(acc + c, load_f32(acc + c) * vec_set(shrink));
        }
        row_values(dtype, a, weights, key, count, acc);
        max = next;
    }
    for (int64_t c = 0; c < a->head_dim; c += VEC_WIDTH) {
        target out = target_of(dtype, a->out, a->out_stride, query, 1, a->head_dim);
        vec x = load_f32(acc + c) / vec_set(sum);
        store_any(dtype, out.data, c, a->head_dim - c, x);
    }
    if (a->lse != NULL) {
        a->lse[query] = max * ln_2 + logf(sum);
    }
}

/* The constants let the loads of each dtype be chosen when compiled. */
static void forward_row(cero_dtype dtype, const cero_attention_args *a, int64_t query)
{
    if (dtype == CERO_DTYPE_F32) {
        forward_row_of(CERO_DTYPE_F32, a, query);
    } else if (dtype == CERO_DTYPE_BF16) {
        forward_row_of(CERO_DTYPE_BF16, a, query);
    } else {
        forward_row_of(CERO_DTYPE_F16, a, query);
    }
}
