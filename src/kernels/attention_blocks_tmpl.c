/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What blocked attention is made of: packing into the layouts of the products, and the product of a
 * register tile. Included, never compiled alone, by a file that defines the vector words and
 *   PAIR             elements of a step: 1 (f32) or 2 (bf16), a step being 32 bits of a product's
 *                    inner dimension
 *   vf_dot           acc + a . b over one step in each lane
 *   load_along       LANES steps that run along a row
 *   load_across      LANES steps of which lane l holds column at + l of PAIR rows
 *   put_along        2 * LANES f32 lanes as steps that run along a row
 *   put_across       two rows of 2 * LANES f32 lanes as rows of steps that run across them
 *
 * All products are computed transposed, with queries in the lanes: the softmax then reduces over keys
 * with vertical operations only, and the probabilities come out in the layout of the next product.
 * The left factor is a row-major array of steps; the right one is panels [steps][WIDTH] of 2 vectors.
 */
enum {
    WIDTH = 2 * LANES, /* queries, or columns of a head, that a panel holds */
    KEYS = 64,         /* keys of a block */
    KEY_STEPS = KEYS / PAIR,
    BLOCK_QUERIES = 64, /* queries of a block of backward */
    BLOCK_STEPS = BLOCK_QUERIES / PAIR,
    BLOCK_PANELS = BLOCK_QUERIES / WIDTH,
    PART_QUERIES = 256 /* queries worked on at a time: bounds the scratch */
};

static const float log2_e = 1.44269504088896341f;
static const float ln_2 = 0.693147180559945309f;

/* Rows of a head; what lies outside reads as zeros. */
typedef struct matrix {
    cero_dtype dtype;
    const void *data;
    int64_t stride;
    int64_t rows;
    int64_t cols;
} matrix;

/* Sizes that follow from head_dim. */
typedef struct head_sizes {
    int64_t steps;   /* of an inner product over head_dim */
    int64_t step_ld; /* steps between packed rows: a multiple of LANES */
    int64_t rows;    /* head_dim rounded up to LANES */
    int64_t panels;  /* that hold head_dim columns */
} head_sizes;

/* Cuts scratch into arrays of floats; with no base it only counts. */
typedef struct cutter {
    float *base;
    int64_t used;
} cutter;

INLINE float *cut(cutter *c, int64_t count)
{
    float *at = c->base == NULL ? NULL : c->base + c->used;

    c->used += count;
    return at;
}

INLINE int64_t round_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

INLINE int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static head_sizes sizes_of(int64_t head_dim)
{
    int64_t steps = (head_dim + PAIR - 1) / PAIR;
    return (head_sizes){
        .steps = steps,
        .step_ld = round_up(steps, LANES),
        .rows = round_up(head_dim, LANES),
        .panels = (head_dim + WIDTH - 1) / WIDTH,
    };
}

/* Rows first .. first+count-1 of an array of rows. */
static matrix rows_of(cero_dtype dtype, const void *data, int64_t stride, int64_t first,
                      int64_t count, int64_t cols)
{
    size_t offset = (size_t)(first * stride) * (dtype == CERO_DTYPE_F32 ? 4 : 2);
    return (matrix){dtype, (const char *)data + offset, stride, count, cols};
}

INLINE const void *row_at(const matrix *m, int64_t row)
{
    size_t size = m->dtype == CERO_DTYPE_F32 ? 4 : 2;
    return (const char *)m->data + (size_t)(row * m->stride) * size;
}

/*
 * Asks for rows that will be read soon. Heads lie side by side, so the rows of one are far apart and the
 * hardware does not foresee them.
 */
static void prefetch_rows(const matrix *m)
{
    const uintptr_t line = 64;
    size_t bytes = (size_t)m->cols * (m->dtype == CERO_DTYPE_F32 ? 4 : 2);

    for (int64_t row = 0; row < m->rows; row++) {
        const char *at = row_at(m, row);
        size_t before = (uintptr_t)at % line;
        for (size_t b = 0; b < before + bytes; b += line) {
            prefetch(at - before + b);
        }
    }
}

/* Asks for the block of keys and values that begins at `key`, if it does. */
static void prefetch_keys(cero_dtype dtype, const cero_attention_args *a, int64_t key, int64_t end)
{
    int64_t keys = smaller(KEYS, end - key);

    if (keys > 0) {
        matrix k = rows_of(dtype, a->k, a->k_stride, key, keys, a->head_dim);
        matrix v = rows_of(dtype, a->v, a->v_stride, key, keys, a->head_dim);
        prefetch_rows(&k);
        prefetch_rows(&v);
    }
}

INLINE vf steps_along(const matrix *m, int64_t row, int64_t step)
{
    if (row >= m->rows || step * PAIR >= m->cols) {
        return vf_zero();
    }
    return load_along(m->dtype, row_at(m, row), step * PAIR, m->cols - step * PAIR);
}

INLINE vf steps_across(const matrix *m, int64_t step, int64_t col)
{
    int64_t row = step * PAIR;

    if (row >= m->rows || col >= m->cols) {
        return vf_zero();
    }
    const void *next = row + PAIR <= m->rows ? row_at(m, row + PAIR - 1) : NULL;
    return load_across(m->dtype, row_at(m, row), next, col, m->cols - col);
}

/* out[row][step], rows 0 .. rows-1 */
static void pack_along(const matrix *m, int64_t rows, int64_t ld, float *out)
{
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t step = 0; step < ld; step += LANES) {
            vf_store(out + row * ld + step, steps_along(m, row, step));
        }
    }
}

/* A panel out[step][row] of WIDTH rows: the right factor of a product over the columns. */
static void pack_along_transposed(const matrix *m, int64_t ld, float *out)
{
    for (int64_t row = 0; row < WIDTH; row += LANES) {
        for (int64_t step = 0; step < ld; step += LANES) {
            vf t[LANES];
            for (int64_t i = 0; i < LANES; i++) {
                t[i] = steps_along(m, row + i, step);
            }
            transpose_lanes(t);
            for (int64_t i = 0; i < LANES; i++) {
                vf_store(out + (step + i) * WIDTH + row, t[i]);
            }
        }
    }
}

/* Panels out[panel][step][column]: the right factor of a product over the rows. */
static void pack_across(const matrix *m, int64_t steps, int64_t panels, float *out)
{
    for (int64_t panel = 0; panel < panels; panel++) {
        for (int64_t step = 0; step < steps; step++) {
            float *to = out + (panel * steps + step) * WIDTH;
            vf_store(to, steps_across(m, step, panel * WIDTH));
            vf_store(to + LANES, steps_across(m, step, panel * WIDTH + LANES));
        }
    }
}

/* out[column][step] of KEYS rows: the left factor of a product over the rows. */
static void pack_across_transposed(const matrix *m, int64_t cols, float *out)
{
    for (int64_t col = 0; col < cols; col += LANES) {
        for (int64_t step = 0; step < KEY_STEPS; step += LANES) {
            vf t[LANES];
            for (int64_t i = 0; i < LANES; i++) {
                t[i] = steps_across(m, step + i, col);
            }
            transpose_lanes(t);
            for (int64_t i = 0; i < LANES; i++) {
                vf_store(out + (col + i) * KEY_STEPS + step, t[i]);
            }
        }
    }
}

/* acc = TILE_ROWS rows of the left factor times a panel. */
INLINE void tile_product(int64_t steps, const float *a, int64_t lda, const float *b,
                         vf acc[TILE_ROWS][2])
{
    for (int r = 0; r < TILE_ROWS; r++) {
        acc[r][0] = vf_zero();
        acc[r][1] = vf_zero();
    }
    for (int64_t s = 0; s < steps; s++) {
        vf b0 = vf_load(b + s * WIDTH);
        vf b1 = vf_load(b + s * WIDTH + LANES);
        for (int r = 0; r < TILE_ROWS; r++) {
            vf x = vf_set1(a[r * lda + s]);
            acc[r][0] = vf_dot(acc[r][0], x, b0);
            acc[r][1] = vf_dot(acc[r][1], x, b1);
        }
    }
}

/* Bit l: key `key` is visible to the query of lane l, whose position is first + l. */
INLINE uint32_t visible_bits(int64_t key, int64_t first)
{
    uint32_t all = WIDTH == 32 ? 0xFFFFFFFFu : (1u << (WIDTH % 32)) - 1u;
    int64_t hidden = key - first;

    return hidden <= 0 ? all : hidden >= WIDTH ? 0u : all & all << hidden;
}

/* Where finished rows go. */
typedef struct target {
    cero_dtype dtype;
    void *data;
    int64_t stride;
    int64_t rows;
    int64_t cols;
} target;

static target target_of(cero_dtype dtype, void *data, int64_t stride, int64_t first, int64_t count,
                        int64_t cols)
{
    size_t offset = (size_t)(first * stride) * (dtype == CERO_DTYPE_F32 ? 4 : 2);
    return (target){dtype, (char *)data + offset, stride, count, cols};
}

/* Row l of the target = lane l of x [cols][WIDTH], times factor[l]. */
static void store_transposed(const target *to, const float *x, const float *factor)
{
    matrix rows = {to->dtype, to->data, to->stride, to->rows, to->cols};

    prefetch_rows(&rows);
    for (int64_t lane = 0; lane < to->rows; lane += LANES) {
        vf scale = vf_load(factor + lane);
        for (int64_t col = 0; col < to->cols; col += LANES) {
            vf t[LANES];
            for (int64_t i = 0; i < LANES; i++) {
                t[i] = vf_mul(vf_load(x + (col + i) * WIDTH + lane), scale);
            }
            transpose_lanes(t);
            for (int64_t i = 0; i < LANES && lane + i < to->rows; i++) {
                int64_t at = (lane + i) * to->stride + col;
                store_f32(to->dtype, to->data, at, to->cols - col, t[i]);
            }
        }
    }
}
