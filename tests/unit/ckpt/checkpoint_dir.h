/* SPDX-License-Identifier: Apache-2.0 */
/* A folder for each test, and checkpoints of the same id, run and blocks below it. */
#ifndef CERO_TESTS_UNIT_CKPT_CHECKPOINT_DIR_H
#define CERO_TESTS_UNIT_CKPT_CHECKPOINT_DIR_H

#include "unit/ckpt/checkpoints.h"

#define ID  "00112233445566778899aabbccddeeff"
#define RUN "0123456789abcdef0123456789abcdef"

enum {
    BLOCK = 64 /* bytes: 16 elements */
};

static char dir[64];

static inline int set_up(void **state)
{
    CERO_UNUSED(state);
    files_make_dir(dir, sizeof(dir));
    return 0;
}

static inline int tear_down(void **state)
{
    CERO_UNUSED(state);
    (void)unsetenv("CERO_FAULT");
    files_remove(dir);
    return 0;
}

static inline checkpoints_params params_of(int files, checkpoints_cut cut)
{
    checkpoints_params p = {
        .files = files, .cut = cut, .block_nbytes = BLOCK, .id = ID, .run = RUN, .step = 12};

    p.tensors = checkpoints_tensors(&p.tensor_count);
    return p;
}

/* A fresh folder below `dir` with a checkpoint in it. */
static inline const char *make(const char *name, const checkpoints_params *p)
{
    const char *path = files_in(dir, name);

    assert_int_equal(mkdir(path, 0700), 0);
    checkpoints_write(path, p);
    return path;
}

#endif
