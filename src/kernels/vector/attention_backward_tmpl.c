/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocked causal attention backward (FlashAttention-2, arXiv 2307.08691): P is rebuilt from the
 * log-sum-exp, D = rowsum(dO * O), dS = P * (dP - D). Blocks of keys outside, blocks of queries inside:
 * dK and dV are added to where they lie, dQ^T stays in scratch until its part of the queries is done.
 * Included after attention_forward_tmpl.c.
 */
typedef struct backward_work {
    const cero_attention_args *args;
    cero_dtype dtype;
    head_sizes size;
    /* The queries of a part. */
    float *q;       /* [panels][step_ld][WIDTH] Q^T */
    float *dout;    /* [panels][step_ld][WIDTH] dO^T */
    float *q_cols;  /* [blocks][head panels][BLOCK_STEPS][WIDTH] Q */
    float *do_cols; /* [blocks][head panels][BLOCK_STEPS][WIDTH] dO */
    float *dq;      /* [panels][rows][WIDTH] dQ^T */
    float *lse;     /* [panels][WIDTH] times log2(e) */
    float *delta;   /* [panels][WIDTH] D */
    /* The block of keys. */
    float *keys;     /* [KEYS][step_ld] K */
    float *values;   /* [KEYS][step_ld] V */
    float *key_cols; /* [rows][KEY_STEPS] K^T */
    /* The block of keys and a block of queries. */
    float *scores;  /* [KEYS][WIDTH] S^T of one panel */
    float *dp;      /* [KEYS][WIDTH] dP^T of one panel */
    float *weights; /* [KEYS][BLOCK_STEPS] P^T with dropout, left factor */
    float *ds;      /* [KEYS][BLOCK_STEPS] dS^T, left factor */
    float *ds_cols; /* [KEY_STEPS][WIDTH] dS^T of one panel, right factor */
} backward_work;

/* A block of queries meets a block of keys. */
typedef struct block_keys {
    int64_t block;
    int64_t query;    /* row of args->q of the first query */
    int64_t position; /* of that query */
    int64_t queries;
    int64_t key;
    int64_t keys;
} block_keys;

/* Cuts the scratch into arrays. */
static void backward_cut(backward_work *w, int64_t query_count, cutter *c)
{
    int64_t part = smaller(query_count, PART_QUERIES);
    int64_t blocks = (part + BLOCK_QUERIES - 1) / BLOCK_QUERIES;
    int64_t panels = blocks * BLOCK_PANELS;
    int64_t cols = blocks * w->size.panels * BLOCK_STEPS * WIDTH;

    w->q = cut(c, panels * w->size.step_ld * WIDTH);
    w->dout = cut(c, panels * w->size.step_ld * WIDTH);
    w->q_cols = cut(c, cols);
    w->do_cols = cut(c, cols);
    w->dq = cut(c, panels * w->size.rows * WIDTH);
    w->lse = cut(c, panels * WIDTH);
    w->delta = cut(c, panels * WIDTH);
    w->keys = cut(c, KEYS * w->size.step_ld);
    w->values = cut(c, KEYS * w->size.step_ld);
    w->key_cols = cut(c, w->size.rows * KEY_STEPS);
    w->scores = cut(c, KEYS * WIDTH);
    w->dp = cut(c, KEYS * WIDTH);
    w->weights = cut(c, KEYS * BLOCK_STEPS);
    w->ds = cut(c, KEYS * BLOCK_STEPS);
    w->ds_cols = cut(c, KEY_STEPS * WIDTH);
}

/* out[row] = left [rows][step_ld] times a panel over head_dim */
static void panel_product(const head_sizes *size, int64_t rows, const float *left,
                          const float *right, float *out)
{
    for (int64_t row = 0; row < rows; row += TILE_ROWS) {
        vec acc[TILE_ROWS][2];
        tile_product(size->steps, left + row * size->step_ld, size->step_ld, right, acc);
        for (int r = 0; r < TILE_ROWS; r++) {
            store_f32(out + (row + r) * WIDTH, acc[r][0]);
            store_f32(out + (row + r) * WIDTH + VEC_WIDTH, acc[r][1]);
        }
    }
}

/* One vector of P^T and dS^T; `visible` and `keep` hold the bits of its lanes. */
typedef struct lane_state {
    vec lse;
    vec delta;
    vec factor; /* scale * log2(e) */
    vec scale;
    vec drop_scale;
} lane_state;

KERNEL_INLINE void rebuild(const lane_state *lane, uint32_t visible, const uint32_t *keep, vec *s,
                           vec *dp)
{
    vec p = vec_exp2(*s * lane->factor - lane->lse);
    vec kept = p;
    vec grad = *dp;

    p = vec_select(vec_mask_of(visible), p, vec_set(0.0f));
    kept = p;
    if (keep != NULL) {
        kept = vec_select(vec_mask_of(*keep), p * lane->drop_scale, vec_set(0.0f));
        grad = vec_select(vec_mask_of(*keep), grad * lane->drop_scale, vec_set(0.0f));
    }
    *s = kept;
    *dp = (p * (grad - lane->delta)) * lane->scale;
}

/* From S^T and dP^T of a panel: P^T and dS^T in the layouts of the products. */
static void backward_weights(const backward_work *w, const panel_keys *at)
{
    const cero_attention_args *a = w->args;
    int64_t col = at->panel % BLOCK_PANELS * (WIDTH / PAIR);
    uint32_t buffer[KEYS + 8];
    const uint32_t *keep =
        a->drop_threshold == 0 ? NULL : keep_bits(a, at->query, at->key, at->rows, buffer);
    lane_state lanes[2];

    for (int h = 0; h < 2; h++) {
        lanes[h] = (lane_state){
            .lse = load_f32(w->lse + at->panel * WIDTH + h * VEC_WIDTH),
            .delta = load_f32(w->delta + at->panel * WIDTH + h * VEC_WIDTH),
            .factor = vec_set(a->scale * log2_e),
            .scale = vec_set(a->scale),
            .drop_scale = vec_set(a->drop_scale),
        };
    }
    for (int64_t row = 0; row < at->rows; row += 2) {
        vec p[2][2];
        vec ds[2][2];
        for (int r = 0; r < 2; r++) {
            uint32_t visible = visible_bits(at->key + row + r, at->position);
            for (int h = 0; h < 2; h++) {
                p[r][h] = load_f32(w->scores + (row + r) * WIDTH + h * VEC_WIDTH);
                ds[r][h] = load_f32(w->dp + (row + r) * WIDTH + h * VEC_WIDTH);
                uint32_t kept = keep == NULL ? 0 : keep[row + r] >> (h * VEC_WIDTH);
                rebuild(&lanes[h], visible >> (h * VEC_WIDTH), keep == NULL ? NULL : &kept,
                        &p[r][h], &ds[r][h]);
            }
            put_along(w->weights + (row + r) * BLOCK_STEPS + col, p[r]);
            put_along(w->ds + (row + r) * BLOCK_STEPS + col, ds[r]);
        }
        put_across(w->ds_cols + row / PAIR * WIDTH, ds[0], ds[1]);
    }
}

/* P^T, dS^T of a panel, and what it adds to dQ^T. */
static void backward_panel(const backward_work *w, const panel_keys *at)
{
    int64_t query_at = at->panel * w->size.step_ld * WIDTH;
    float *dq = w->dq + at->panel * w->size.rows * WIDTH;

    panel_product(&w->size, at->rows, w->keys, w->q + query_at, w->scores);
    panel_product(&w->size, at->rows, w->values, w->dout + query_at, w->dp);
    backward_weights(w, at);
    for (int64_t row = 0; row < w->size.rows; row += TILE_ROWS) {
        vec acc[TILE_ROWS][2];
        tile_product(at->rows / PAIR, w->key_cols + row * KEY_STEPS, KEY_STEPS, w->ds_cols, acc);
        for (int r = 0; r < TILE_ROWS; r++) {
            float *to = dq + (row + r) * WIDTH;
            store_f32(to, load_f32(to) + acc[r][0]);
            store_f32(to + VEC_WIDTH, load_f32(to + VEC_WIDTH) + acc[r][1]);
        }
    }
}

/* Adds a tile to rows of head_dim elements, of which `rows` and `cols` exist. */
KERNEL_INLINE void add_tile(vec acc[TILE_ROWS][2], int64_t rows, int64_t cols, int64_t ld,
                            float *to)
{
    if (rows >= TILE_ROWS && cols >= WIDTH) {
        for (int r = 0; r < TILE_ROWS; r++) {
            float *row = to + r * ld;
            store_f32(row, load_f32(row) + acc[r][0]);
            store_f32(row + VEC_WIDTH, load_f32(row + VEC_WIDTH) + acc[r][1]);
        }
        return;
    }
    float tile[TILE_ROWS][WIDTH];
    for (int r = 0; r < TILE_ROWS; r++) {
        store_f32(tile[r], acc[r][0]);
        store_f32(tile[r] + VEC_WIDTH, acc[r][1]);
    }
    for (int64_t r = 0; r < smaller(rows, TILE_ROWS); r++) {
        for (int64_t c = 0; c < smaller(cols, WIDTH); c++) {
            to[r * ld + c] += tile[r][c];
        }
    }
}

/* grad[keys] += left [KEYS][BLOCK_STEPS] times the block's columns; hidden queries are skipped. */
static void add_key_grad(const backward_work *w, const block_keys *at, const float *left,
                         const float *cols, float *grad)
{
    int64_t head_dim = w->args->head_dim;
    int64_t steps = round_up(at->queries, WIDTH) / PAIR;

    for (int64_t row = 0; row < at->keys; row += TILE_ROWS) {
        int64_t hidden = at->key + row - at->position;
        int64_t first = hidden > 0 ? hidden / PAIR : 0;
        for (int64_t panel = 0; panel < w->size.panels; panel++) {
            vec acc[TILE_ROWS][2];
            tile_product(steps - first, left + row * BLOCK_STEPS + first, BLOCK_STEPS,
                         cols + (panel * BLOCK_STEPS + first) * WIDTH, acc);
            add_tile(acc, at->keys - row, head_dim - panel * WIDTH, head_dim,
                     grad + (at->key + row) * head_dim + panel * WIDTH);
        }
    }
}

static void backward_block(const backward_work *w, const block_keys *at)
{
    int64_t end = at->position + at->queries;
    int64_t cols = at->block * w->size.panels * BLOCK_STEPS * WIDTH;
    block_keys seen = *at;

    if (end <= at->key) {
        return;
    }
    for (int64_t i = 0; i * WIDTH < at->queries; i++) {
        int64_t position = at->position + i * WIDTH;
        int64_t visible = smaller(end, position + WIDTH) - at->key;
        if (visible > 0) {
            int64_t rows = round_up(smaller(at->keys, visible), TILE_ROWS);
            int64_t panel = at->block * BLOCK_PANELS + i;
            backward_panel(w, &(panel_keys){panel, at->query + i * WIDTH, position, at->key, rows});
        }
    }
    seen.keys = smaller(at->keys, end - at->key);
    add_key_grad(w, &seen, w->weights, w->do_cols + cols, w->args->dv);
    add_key_grad(w, &seen, w->ds, w->q_cols + cols, w->args->dk);
}

/* D of one query. */
static float row_delta(const backward_work *w, int64_t query)
{
    const cero_attention_args *a = w->args;
    matrix out = rows_of(w->dtype, a->out, a->out_stride, query, 1, a->head_dim);
    matrix dout = rows_of(w->dtype, a->dout, a->out_stride, query, 1, a->head_dim);
    vec sum = vec_set(0.0f);

    for (int64_t c = 0; c < a->head_dim; c += VEC_WIDTH) {
        vec x = load_any(w->dtype, out.data, c, a->head_dim - c);
        vec y = load_any(w->dtype, dout.data, c, a->head_dim - c);
        sum = vec_fma(x, y, sum);
    }
    return vec_sum(sum);
}

/* Rows of the queries' tensors. */
typedef struct query_rows {
    matrix q;
    matrix dout;
    matrix out;
} query_rows;

static query_rows query_rows_of(const backward_work *w, int64_t first, int64_t count)
{
    const cero_attention_args *a = w->args;
    int64_t rows = count > 0 ? count : 0;
    return (query_rows){
        .q = rows_of(w->dtype, a->q, a->q_stride, first, rows, a->head_dim),
        .dout = rows_of(w->dtype, a->dout, a->out_stride, first, rows, a->head_dim),
        .out = rows_of(w->dtype, a->out, a->out_stride, first, rows, a->head_dim),
    };
}

static void prefetch_queries(const backward_work *w, int64_t first, int64_t count)
{
    query_rows rows = query_rows_of(w, first, smaller(count, BLOCK_QUERIES));

    prefetch_rows(&rows.q);
    prefetch_rows(&rows.dout);
    prefetch_rows(&rows.out);
}

/* Packs a block of queries; lanes without a query get probability 0. */
static void backward_load(const backward_work *w, const block_keys *at)
{
    int64_t panel = at->block * BLOCK_PANELS;
    int64_t cols = at->block * w->size.panels * BLOCK_STEPS * WIDTH;
    query_rows whole = query_rows_of(w, at->query, at->queries);

    pack_across(&whole.q, BLOCK_STEPS, w->size.panels, w->q_cols + cols);
    pack_across(&whole.dout, BLOCK_STEPS, w->size.panels, w->do_cols + cols);
    for (int64_t i = 0; i < BLOCK_QUERIES; i++) {
        bool is_query = i < at->queries;
        int64_t lane = panel * WIDTH + i;
        w->lse[lane] = is_query ? w->args->lse[at->query + i] * log2_e : INFINITY;
        w->delta[lane] = is_query ? row_delta(w, at->query + i) : 0.0f;
    }
    for (int64_t i = 0; i < BLOCK_PANELS; i++) {
        int64_t left = at->queries - i * WIDTH;
        int64_t to = (panel + i) * w->size.step_ld * WIDTH;
        query_rows rows = query_rows_of(w, at->query + i * WIDTH, smaller(left, WIDTH));
        pack_along_transposed(&rows.q, w->size.step_ld, w->q + to);
        pack_along_transposed(&rows.dout, w->size.step_ld, w->dout + to);
    }
    float *dq = w->dq + panel * w->size.rows * WIDTH;
    for (int64_t i = 0; i < BLOCK_PANELS * w->size.rows * WIDTH; i += VEC_WIDTH) {
        store_f32(dq + i, vec_set(0.0f));
    }
}

static void backward_end(const backward_work *w, int64_t first, int64_t count)
{
    const cero_attention_args *a = w->args;
    float ones[WIDTH];

    for (int64_t i = 0; i < WIDTH; i++) {
        ones[i] = 1.0f;
    }
    for (int64_t panel = 0; panel * WIDTH < count; panel++) {
        int64_t rows = smaller(WIDTH, count - panel * WIDTH);
        target dq =
            target_of(w->dtype, a->dq, a->q_stride, first + panel * WIDTH, rows, a->head_dim);
        store_transposed(&dq, w->dq + panel * w->size.rows * WIDTH, ones);
    }
}

/* Packs a block of keys and asks for the next. */
static void backward_keys(const backward_work *w, int64_t key, int64_t visible)
{
    const cero_attention_args *a = w->args;
    int64_t keys = smaller(KEYS, visible - key);
    matrix k = rows_of(w->dtype, a->k, a->k_stride, key, keys, a->head_dim);
    matrix v = rows_of(w->dtype, a->v, a->v_stride, key, keys, a->head_dim);

    pack_along(&k, round_up(keys, TILE_ROWS), w->size.step_ld, w->keys);
    pack_along(&v, round_up(keys, TILE_ROWS), w->size.step_ld, w->values);
    pack_across_transposed(&k, w->size.rows, w->key_cols);
    prefetch_keys(w->dtype, a, key + KEYS, visible);
}

/* Queries first .. first+count-1, at most PART_QUERIES. */
static void backward_part(const backward_work *w, int64_t first, int64_t count)
{
    const cero_attention_args *a = w->args;
    int64_t visible = a->query_offset + first + count;

    prefetch_keys(w->dtype, a, 0, visible);
    prefetch_queries(w, first, count);
    for (int64_t key = 0; key < visible; key += KEYS) {
        backward_keys(w, key, visible);
        for (int64_t query = 0; query < count; query += BLOCK_QUERIES) {
            block_keys at = {
                .block = query / BLOCK_QUERIES,
                .query = first + query,
                .position = a->query_offset + first + query,
                .queries = smaller(BLOCK_QUERIES, count - query),
                .key = key,
                .keys = smaller(KEYS, visible - key),
            };
            // All queries see key 0: each block of them is packed when it meets the first keys.
            if (key == 0) {
                backward_load(w, &at);
                prefetch_queries(w, first + query + BLOCK_QUERIES, count - query - BLOCK_QUERIES);
            }
            backward_block(w, &at);
        }
    }
    backward_end(w, first, count);
}

static void backward(cero_dtype dtype, const cero_attention_args *args)
{
    backward_work w = {.args = args, .dtype = dtype, .size = sizes_of(args->head_dim)};

    backward_cut(&w, args->query_count, &(cutter){args->scratch, 0});
    for (int64_t first = 0; first < args->query_count; first += PART_QUERIES) {
        backward_part(&w, first, smaller(PART_QUERIES, args->query_count - first));
    }
}

/* Bytes for both directions of every dtype: f32 steps need the most. */
static inline size_t scratch(int64_t query_count, int64_t key_count, int64_t head_dim,
                             bool is_backward)
{
    CERO_UNUSED(key_count);
    forward_work f = {.size = sizes_of(head_dim)};
    backward_work b = {.size = sizes_of(head_dim)};
    cutter c = {NULL, 0};

    if (is_backward) {
        backward_cut(&b, query_count, &c);
    } else {
        forward_cut(&f, query_count, &c);
    }
    int64_t row = row_scratch(head_dim);
    return (size_t)(c.used > row ? c.used : row) * sizeof(float);
}
