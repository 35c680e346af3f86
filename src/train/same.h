/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the ranks of a run must have in common besides the config, which the engine compares: options, model
 * description, data, and the weights it starts from. Each may come from a disk of its node.
 */
#ifndef CERO_TRAIN_SAME_H
#define CERO_TRAIN_SAME_H

#include "ckpt/hf.h"
#include "train/train.h"

/* Collective: over the world. Errors: INVALID with what differs, REMOTE, NOMEM. */
CERO_NODISCARD cero_status cero_same_options(const cero_trainer_params *params);

/*
 * Compares the number of tokens, and tokens from all over the stream.
 *
 * Collective: over the world.
 * Errors:     INVALID with both numbers; CORRUPT when a token that was looked at is none; REMOTE.
 */
CERO_NODISCARD cero_status cero_same_data(cero_comm *comm, cero_token_stream *stream,
                                          const char *what);

/* The hash of these tokens, of which equal data have the same. Not collective. Errors: CORRUPT. */
CERO_NODISCARD cero_status cero_same_data_hash(cero_token_stream *stream, uint64_t *hash);

/* Mixes some elements of each parameter into *hash. Not collective. Errors: those of cero_hf_import_read. */
CERO_NODISCARD cero_status cero_same_weights_hash(cero_hf_import *import, uint64_t *hash);

#endif
