/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weights in formats that are not read here: what they are, and how safetensors are made of them.
 *
 * Known by their names and first bytes alone; PyTorch's files are pickles, which can run any code, and are never
 * unpickled. Nothing here is collective.
 */
#ifndef CERO_CKPT_FOREIGN_H
#define CERO_CKPT_FOREIGN_H

#include "base/status.h"

/*
 * What a file that begins with these bytes is, NULL when that is not known: "a zip archive, as torch.save writes
 * them". Not collective.
 */
const char *cero_foreign_magic(const void *bytes, size_t length);

/*
 * A file, or a directory without safetensors, that holds weights of another format is an error with the file's
 * name, what it is and how to convert it; everything else, also what is not there, is fine. Not collective.
 *
 * Errors: UNSUPPORTED; NOMEM.
 */
CERO_NODISCARD cero_status cero_foreign_check(const char *path);

#endif
