/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What blocked attention is made of: packing into the layouts of the products, and the product of a
 * register tile. Included, never compiled alone, by a file that defines the vector words, load_any and
 *   PAIR             elements of a step: 1 (f32) or 2 (bf16), a step being 32 bits of a product's
 *                    inner dimension
 *   vec_dot          acc + a . b over one step in each lane
 *   load_along       VEC_WIDTH steps that run along a row
 *   load_across      VEC_WIDTH steps of which lane l holds column at + l of PAIR rows
 *   put_along        2 * VEC_WIDTH f32 lanes as steps that run along a row
 *   put_across       two rows of 2 * VEC_WIDTH f32 lanes as rows of steps that run across them
 *
 * All products are computed transposed, with queries in the lanes: the softmax then reduces over keys
 * with vertical operations only, and the probabilities come out in the layout of the next product.
 * The left factor is a row-major array of steps; the right one is panels [steps][WIDTH] of 2 vectors.
 */
enum {
    WIDTH = 2 * VEC_WIDTH, /* queries, or columns of a head, that a panel holds */
    KEYS = 64,             /* keys of a block */
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
    int64_t step_ld; /* steps between packed rows: a multiple of VEC_WIDTH */
    int64_t rows;    /* head_dim rounded up to VEC_WIDTH */
    int64_t panels;  /* that hold head_dim columns */
} head_sizes;

/* Cuts scratch into arrays of floats; with no base it only counts. */
typedef struct cutter {
    float *base;
    int64_t used;
} cutter;

KERNEL_INLINE float *cut(cutter *c, int64_t count)
{
    float *at = c->base == NULL ? NULL : c->base + c->used;

    c->used += count;
    return at;
}

KERNEL_INLINE int64_t round_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

KERNEL_INLINE int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static head_sizes sizes_of(int64_t head_dim)
{
    int64_t steps = (head_dim + PAIR - 1) / PAIR;
    return (head_sizes){
        .steps = steps,
        .step_ld = round_up(steps, VEC_WIDTH),
        .rows = round_up(head_dim, VEC_WIDTH),
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

KERNEL_INLINE const void *row_at(const matrix *m, int64_t row)
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

KERNEL_INLINE vec steps_along(const matrix *m, int64_t row, int64_t step)
{
    if (row >= m->rows || step * PAIR >= m->cols) {
        return vec_set(0.0f);
    }
    return load_along(m->dtype, row_at(m, row), step * PAIR, m->cols - step * PAIR);
}

KERNEL_INLINE vec steps_across(const matrix *m, int64_t step, int64_t col)
{
    int64_t row = step * PAIR;

    if (row >= m->rows || col >= m->cols) {
        return vec_set(0.0f);
    }
    const void *next = row + PAIR <= m->rows ? row_at(m, row + PAIR - 1) : NULL;
    return load_across(m->dtype, row_at(m, row), next, col, m->cols - col);
}

/* out[i * ld + l] = lane i of t[l] */
KERNEL_INLINE void put_transposed(vec t[VEC_WIDTH], int64_t ld, float *out)
{
    transpose_lanes(t);
    for (int64_t i = 0; i < VEC_WIDTH; i++) {
        store_f32(out + i * ld, t[i]);
    }
}

/* out[row][step], rows 0 .. rows-1 */
static void pack_along(const matrix *m, int64_t rows, int64_t ld, float *out)
{
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t step = 0; step < ld; step += VEC_WIDTH) {
            store_f32(out + row * ld + step, steps_along(m, row, step));
        }
    }
}

/* A panel out[step][row] of WIDTH rows: the right factor of a product over the columns. */
static void pack_along_transposed(const matrix *m, int64_t ld, float *out)
{
    for (int64_t row = 0; row < WIDTH; row += VEC_WIDTH) {
        for (int64_t step = 0; step < ld; step += VEC_WIDTH) {
            vec t[VEC_WIDTH];
            for (int64_t i = 0; i < VEC_WIDTH; i++) {
                t[i] = steps_along(m, row + i, step);
            }
            put_transposed(t, WIDTH, out + step * WIDTH + row);
        }
    }
}

/* Panels out[panel][step][column]: the right factor of a product over the rows. */
static void pack_across(const matrix *m, int64_t steps, int64_t panels, float *out)
{
    for (int64_t panel = 0; panel < panels; panel++) {
        for (int64_t step = 0; step < steps; step++) {
            float *to = out + (panel * steps + step) * WIDTH;
            store_f32(to, steps_across(m, step, panel * WIDTH));
            store_f32(to + VEC_WIDTH, steps_across(m, step, panel * WIDTH + VEC_WIDTH));
        }
    }
}

/* out[column][step] of KEYS rows: the left factor of a product over the rows. */
static void pack_across_transposed(const matrix *m, int64_t cols, float *out)
{
    for (int64_t col = 0; col < cols; col += VEC_WIDTH) {
        for (int64_t step = 0; step < KEY_STEPS; step += VEC_WIDTH) {
            vec t[VEC_WIDTH];
            for (int64_t i = 0; i < VEC_WIDTH; i++) {
                t[i] = steps_across(m, step + i, col);
            }
            put_transposed(t, KEY_STEPS, out + col * KEY_STEPS + step);
        }
    }
}

/* acc = TILE_ROWS rows of the left factor times a panel. */
KERNEL_INLINE void tile_product(int64_t steps, const float *a, int64_t lda, const float *b,
                                vec acc[TILE_ROWS][2])
{
    for (int r = 0; r < TILE_ROWS; r++) {
        acc[r][0] = vec_set(0.0f);
        acc[r][1] = vec_set(0.0f);
    }
    for (int64_t s = 0; s < steps; s++) {
        vec b0 = load_f32(b + s * WIDTH);
        vec b1 = load_f32(b + s * WIDTH + VEC_WIDTH);
        for (int r = 0; r < TILE_ROWS; r++) {
            vec x = vec_set(a[r * lda + s]);
            acc[r][0] = vec_dot(acc[r][0], x, b0);
            acc[r][1] = vec_dot(acc[r][1], x, b1);
        }
    }
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
    for (int64_t lane = 0; lane < to->rows; lane += VEC_WIDTH) {
        vec scale = load_f32(factor + lane);
        for (int64_t col = 0; col < to->cols; col += VEC_WIDTH) {
            vec t[VEC_WIDTH];
            for (int64_t i = 0; i < VEC_WIDTH; i++) {
                t[i] = load_f32(x + (col + i) * WIDTH + lane) * scale;
            }
            transpose_lanes(t);
            for (int64_t i = 0; i < VEC_WIDTH && lane + i < to->rows; i++) {
                int64_t at = (lane + i) * to->stride + col;
                store_any(to->dtype, to->data, at, to->cols - col, t[i]);
            }
        }
    }
}
