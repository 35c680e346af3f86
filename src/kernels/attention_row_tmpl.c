/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention of one query over many keys, as in decoding: every key and value is read once and used
 * once, so this runs at the speed of memory and packs nothing. Included after attention_blocks_tmpl.c.
 */
enum {
    ROW_VECTORS = 4 /* of the result held in registers */
};

/* scores[j] = factor * q . k of key + j; q is f32, padded with zeros to LANES. */
INLINE void row_scores(cero_dtype dtype, const cero_attention_args *a, const float *q, int64_t key,
                       int64_t count, float *scores)
{
    float factor = a->scale * log2_e;

    for (int64_t j = 0; j < count; j++) {
        matrix k = rows_of(dtype, a->k, a->k_stride, key + j, 1, a->head_dim);
        vf sum[2] = {vf_zero(), vf_zero()};
        int64_t c = 0;
        for (; c + 2 * LANES <= a->head_dim; c += 2 * LANES) {
            vf k0 = load_f32(dtype, k.data, c, LANES);
            vf k1 = load_f32(dtype, k.data, c + LANES, LANES);
            sum[0] = vf_fma(vf_load(q + c), k0, sum[0]);
            sum[1] = vf_fma(vf_load(q + c + LANES), k1, sum[1]);
        }
        for (; c < a->head_dim; c += LANES) {
            vf part = load_f32(dtype, k.data, c, a->head_dim - c);
            sum[0] = vf_fma(vf_load(q + c), part, sum[0]);
        }
        scores[j] = factor * vf_sum(vf_add(sum[0], sum[1]));
    }
}

/* acc = acc * shrink + sum over j of weights[j] * v of key + j */
INLINE void row_values(cero_dtype dtype, const cero_attention_args *a, const float *weights,
                       int64_t key, int64_t count, float *acc)
{
    for (int64_t col = 0; col < a->head_dim; col += ROW_VECTORS * LANES) {
        vf sum[ROW_VECTORS];
        bool is_whole = col + ROW_VECTORS * LANES <= a->head_dim;
        for (int i = 0; i < ROW_VECTORS; i++) {
            sum[i] = vf_load(acc + col + i * LANES);
        }
        for (int64_t j = 0; j < count; j++) {
            matrix v = rows_of(dtype, a->v, a->v_stride, key + j, 1, a->head_dim);
            vf weight = vf_set1(weights[j]);
            for (int i = 0; i < ROW_VECTORS; i++) {
                int64_t at = col + i * LANES;
                if (is_whole) {
                    sum[i] = vf_fma(weight, load_f32(dtype, v.data, at, LANES), sum[i]);
                } else if (at < a->head_dim) {
                    sum[i] = vf_fma(weight, load_f32(dtype, v.data, at, a->head_dim - at), sum[i]);
                }
            }
        }
        for (int i = 0; i < ROW_VECTORS; i++) {
            vf_store(acc + col + i * LANES, sum[i]);
        }
    }
}

/* weights[0 .. KEYS-1] = 2^(scores - base); those from the count-th on were set to -inf. */
INLINE float row_weights(float *weights, float base)
{
    vf sum = vf_zero();

    for (int64_t j = 0; j < KEYS; j += LANES) {
        vf p = vf_exp2(vf_sub(vf_load(weights + j), vf_set1(base)));
        sum = vf_add(sum, p);
        vf_store(weights + j, p);
    }
    return vf_sum(sum);
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
    return 2 * round_up(head_dim, ROW_VECTORS * LANES);
}

INLINE void forward_row_of(cero_dtype dtype, const cero_attention_args *a, int64_t query)
{
    int64_t visible = a->query_offset + query + 1;
    int64_t padded = round_up(a->head_dim, ROW_VECTORS * LANES);
    float *q = a->scratch;
    float *acc = q + padded;
    float max = -INFINITY;
    float sum = 0.0f;

    for (int64_t c = 0; c < padded; c += LANES) {
        matrix m = rows_of(dtype, a->q, a->q_stride, query, 1, a->head_dim);
        vf_store(q + c, c < m.cols ? load_f32(dtype, m.data, c, m.cols - c) : vf_zero());
        vf_store(acc + c, vf_zero());
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
        for (int64_t j = 0; j < KEYS; j += LANES) {
            float largest = vf_largest(vf_load(weights + j));
            next = largest > next ? largest : next;
        }
        float base = next == -INFINITY ? 0.0f : next;
        float shrink = exp2f(max - base);
        sum = sum * shrink + row_weights(weights, base);
        if (a->drop_threshold != 0) {
            row_dropout(a, query, key, count, weights);
        }
        for (int64_t c = 0; c < padded && shrink != 1.0f; c += LANES) {
            vf_store(acc + c, vf_mul(vf_load(acc + c), vf_set1(shrink)));
        }
        row_values(dtype, a, weights, key, count, acc);
        max = next;
    }
    for (int64_t c = 0; c < a->head_dim; c += LANES) {
        target out = target_of(dtype, a->out, a->out_stride, query, 1, a->head_dim);
        vf x = vf_div(vf_load(acc + c), vf_set1(sum));
        store_f32(dtype, out.data, c, a->head_dim - c, x);
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
