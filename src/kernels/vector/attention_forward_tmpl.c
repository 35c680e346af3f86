/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocked causal attention forward (FlashAttention-2, arXiv 2307.08691): blocks of keys outside, panels of
 * queries inside, online softmax in f32. Blocks beyond the diagonal are skipped, and inside a block the
 * rows of keys that no query of the panel sees. What a row gives depends on its position alone, not on
 * the range of queries it came in; a few queries (decoding) take the path of one row each.
 *
 * A hidden key inside a panel's rows has probability 0 and is multiplied all the same, so a value that
 * is not finite reaches the other queries of its panel. Included after attention_blocks_tmpl.c.
 */
enum {
    ROW_QUERIES = 4 /* at most so many are done row by row */
};

typedef struct forward_work {
    const cero_attention_args *args;
    cero_dtype dtype;
    head_sizes size;
    float *q;       /* [panels][step_ld][WIDTH] Q^T */
    float *acc;     /* [panels][rows][WIDTH] O^T, not yet divided by sum */
    float *max;     /* [panels][WIDTH] of the scores so far, times log2(e) */
    float *sum;     /* [panels][WIDTH] of the probabilities so far */
    float *keys;    /* [KEYS][step_ld] K */
    float *values;  /* [rows][KEY_STEPS] V^T */
    float *scores;  /* [KEYS][WIDTH] S^T times log2(e) */
    float *weights; /* [KEY_STEPS][WIDTH] P^T */
} forward_work;

/* The keys that one panel meets in one block. */
typedef struct panel_keys {
    int64_t panel;
    int64_t query;    /* row of args->q in lane 0 */
    int64_t position; /* of that query */
    int64_t key;
    int64_t rows; /* keys that a query of the panel sees, rounded up to TILE_ROWS */
} panel_keys;

/* Cuts the scratch into arrays. */
static void forward_cut(forward_work *w, int64_t query_count, cutter *c)
{
    int64_t panels = (smaller(query_count, PART_QUERIES) + WIDTH - 1) / WIDTH;

    w->q = cut(c, panels * w->size.step_ld * WIDTH);
    w->acc = cut(c, panels * w->size.rows * WIDTH);
    w->max = cut(c, panels * WIDTH);
    w->sum = cut(c, panels * WIDTH);
    w->keys = cut(c, KEYS * w->size.step_ld);
    w->values = cut(c, w->size.rows * KEY_STEPS);
    w->scores = cut(c, KEYS * WIDTH);
    w->weights = cut(c, KEY_STEPS * WIDTH);
}

/* S^T of the panel, hidden scores -inf; raises max to the largest. */
static void forward_scores(const forward_work *w, const panel_keys *at, vec max[2])
{
    vec factor = vec_set(w->args->scale * log2_e);
    vec lowest = vec_set(-INFINITY);
    const float *q = w->q + at->panel * w->size.step_ld * WIDTH;

    for (int64_t row = 0; row < at->rows; row += TILE_ROWS) {
        vec acc[TILE_ROWS][2];
        tile_product(w->size.steps, w->keys + row * w->size.step_ld, w->size.step_ld, q, acc);
        bool is_masked = at->key + row + TILE_ROWS - 1 > at->position;
        for (int r = 0; r < TILE_ROWS; r++) {
            float *to = w->scores + (row + r) * WIDTH;
            vec s0 = acc[r][0] * factor;
            vec s1 = acc[r][1] * factor;
            if (is_masked) {
                uint32_t bits = visible_bits(at->key + row + r, at->position);
                s0 = vec_select(vec_mask_of(bits), s0, lowest);
                s1 = vec_select(vec_mask_of(bits >> VEC_WIDTH), s1, lowest);
            }
            max[0] = vec_max(max[0], s0);
            max[1] = vec_max(max[1], s1);
            store_f32(to, s0);
            store_f32(to + VEC_WIDTH, s1);
        }
    }
}

/* P^T = 2^(S^T - base), the layout of a right factor; adds to sum before dropout. */
static void forward_weights(const forward_work *w, const panel_keys *at, const vec base[2],
                            vec sum[2])
{
    const cero_attention_args *a = w->args;
    uint32_t buffer[KEYS + 8];
    const uint32_t *keep = NULL;
    vec drop_scale = vec_set(a->drop_scale);

    if (a->drop_threshold != 0) {
        keep = keep_bits(a, at->query, at->key, at->rows, buffer);
    }
    for (int64_t row = 0; row < at->rows; row += 2) {
        vec p[2][2];
        for (int r = 0; r < 2; r++) {
            const float *from = w->scores + (row + r) * WIDTH;
            for (int h = 0; h < 2; h++) {
                p[r][h] = vec_exp2(load_f32(from + h * VEC_WIDTH) - base[h]);
                sum[h] = sum[h] + p[r][h];
                if (keep != NULL) {
                    vec kept = p[r][h] * drop_scale;
                    p[r][h] = vec_select(vec_mask_of(keep[row + r] >> (h * VEC_WIDTH)), kept,
                                         vec_set(0.0f));
                }
            }
        }
        put_across(w->weights + row / PAIR * WIDTH, p[0], p[1]);
    }
}

/* One panel meets one block of keys. */
static void forward_panel(const forward_work *w, const panel_keys *at)
{
    float *max_at = w->max + at->panel * WIDTH;
    float *sum_at = w->sum + at->panel * WIDTH;
    float *acc_at = w->acc + at->panel * w->size.rows * WIDTH;
    vec base[2];
    vec shrink[2];
    vec sum[2];
    vec max[2] = {load_f32(max_at), load_f32(max_at + VEC_WIDTH)};

    forward_scores(w, at, max);
    for (int h = 0; h < 2; h++) {
        // While all scores are -inf the maximum is no number to subtract.
        base[h] = finite_base(max[h]);
        shrink[h] = vec_exp2(load_f32(max_at + h * VEC_WIDTH) - base[h]);
        sum[h] = load_f32(sum_at + h * VEC_WIDTH) * shrink[h];
        store_f32(max_at + h * VEC_WIDTH, max[h]);
    }
    forward_weights(w, at, base, sum);
    store_f32(sum_at, sum[0]);
    store_f32(sum_at + VEC_WIDTH, sum[1]);
    for (int64_t row = 0; row < w->size.rows; row += TILE_ROWS) {
        vec acc[TILE_ROWS][2];
        tile_product(at->rows / PAIR, w->values + row * KEY_STEPS, KEY_STEPS, w->weights, acc);
        for (int r = 0; r < TILE_ROWS; r++) {
            float *to = acc_at + (row + r) * WIDTH;
            store_f32(to, vec_fma(load_f32(to), shrink[0], acc[r][0]));
            store_f32(to + VEC_WIDTH, vec_fma(load_f32(to + VEC_WIDTH), shrink[1], acc[r][1]));
        }
    }
}

static void forward_begin(const forward_work *w, int64_t first, int64_t count)
{
    const cero_attention_args *a = w->args;

    for (int64_t panel = 0; panel * WIDTH < count; panel++) {
        int64_t rows = smaller(WIDTH, count - panel * WIDTH);
        matrix q = rows_of(w->dtype, a->q, a->q_stride, first + panel * WIDTH, rows, a->head_dim);
        pack_along_transposed(&q, w->size.step_ld, w->q + panel * w->size.step_ld * WIDTH);
        float *acc = w->acc + panel * w->size.rows * WIDTH;
        for (int64_t i = 0; i < w->size.rows * WIDTH; i++) {
            acc[i] = 0.0f;
        }
        for (int64_t i = 0; i < WIDTH; i++) {
            w->max[panel * WIDTH + i] = -INFINITY;
            w->sum[panel * WIDTH + i] = 0.0f;
        }
    }
}

static void forward_end(const forward_work *w, int64_t first, int64_t count)
{
    const cero_attention_args *a = w->args;

    for (int64_t panel = 0; panel * WIDTH < count; panel++) {
        int64_t query = first + panel * WIDTH;
        int64_t rows = smaller(WIDTH, count - panel * WIDTH);
        float inverse[WIDTH];
        for (int64_t i = 0; i < WIDTH; i++) {
            float sum = w->sum[panel * WIDTH + i];
            inverse[i] = 1.0f / sum;
            if (a->lse != NULL && i < rows) {
                a->lse[query + i] = w->max[panel * WIDTH + i] * ln_2 + logf(sum);
            }
        }
        target out = target_of(w->dtype, a->out, a->out_stride, query, rows, a->head_dim);
        store_transposed(&out, w->acc + panel * w->size.rows * WIDTH, inverse);
    }
}

/* Queries first .. first+count-1, at most PART_QUERIES. */
static void forward_part(const forward_work *w, int64_t first, int64_t count)
{
    const cero_attention_args *a = w->args;
    int64_t visible = a->query_offset + first + count;

    matrix q = rows_of(w->dtype, a->q, a->q_stride, first, count, a->head_dim);

    prefetch_rows(&q);
    prefetch_keys(w->dtype, a, 0, visible);
    forward_begin(w, first, count);
    for (int64_t key = 0; key < visible; key += KEYS) {
        int64_t keys = smaller(KEYS, visible - key);
        matrix k = rows_of(w->dtype, a->k, a->k_stride, key, keys, a->head_dim);
        matrix v = rows_of(w->dtype, a->v, a->v_stride, key, keys, a->head_dim);
        pack_along(&k, round_up(keys, TILE_ROWS), w->size.step_ld, w->keys);
        pack_across_transposed(&v, w->size.rows, w->values);
        prefetch_keys(w->dtype, a, key + KEYS, visible);
        for (int64_t panel = 0; panel * WIDTH < count; panel++) {
            int64_t query = first + panel * WIDTH;
            int64_t seen = a->query_offset + smaller(first + count, query + WIDTH);
            if (seen > key) {
                int64_t rows = round_up(smaller(keys, seen - key), TILE_ROWS);
                forward_panel(w, &(panel_keys){panel, query, a->query_offset + query, key, rows});
            }
        }
    }
    forward_end(w, first, count);
}

static void forward(cero_dtype dtype, const cero_attention_args *args)
{
    forward_work w = {.args = args, .dtype = dtype, .size = sizes_of(args->head_dim)};

    if (args->query_count <= ROW_QUERIES) {
        for (int64_t query = 0; query < args->query_count; query++) {
            forward_row(dtype, args, query);
        }
        return;
    }
    forward_cut(&w, args->query_count, &(cutter){args->scratch, 0});
    for (int64_t first = 0; first < args->query_count; first += PART_QUERIES) {
        forward_part(&w, first, smaller(PART_QUERIES, args->query_count - first));
    }
}
