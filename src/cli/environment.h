/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment variables that cero reads, for debugging only: `cero info` prints them, and a test
 * holds this list against the sources.
 */
#ifndef CERO_CLI_ENVIRONMENT_H
#define CERO_CLI_ENVIRONMENT_H

/* X(name, meaning) */
#define CERO_ENVIRONMENT_LIST(X)                                                   \
    X("CERO_FAULT", "fault at the n-th call: write:3:ENOSPC, forward:2:SIGKILL")   \
    X("CERO_ISA", "highest instruction set to use: ref, avx2, avx512, avx512bf16") \
    X("CERO_LOG", "log level: error, warn, info, debug, trace")                    \
    X("CERO_LOG_PARTS", "folders whose log lines are shown, separated by commas")  \
    X("CERO_POISON", "1 fills released float memory with NaNs")                    \
    X("NO_COLOR", "any value switches colours off")                                \
    X("OMP_NUM_THREADS", "threads of this process")

#endif
