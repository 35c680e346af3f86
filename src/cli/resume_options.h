/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `cero train` that are about checkpoints: when they are made, and from which the run goes on. */
#ifndef CERO_CLI_RESUME_OPTIONS_H
#define CERO_CLI_RESUME_OPTIONS_H

#include "ckpt/checkpoint/folder.h"
#include "cli/run_options.h"
#include "train/train.h"

/*
 * Sets what the options say. `tag` gets the name of a checkpoint that is named, and lives as long as `params`.
 * Errors: INVALID, for a word that is none, and for options that contradict each other.
 */
CERO_NODISCARD cero_status cero_resume_options_apply(const cero_train_options *options,
                                                     char tag[CERO_FOLDER_MAX_TAG],
                                                     cero_trainer_params *params);

#endif
