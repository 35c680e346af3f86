/* SPDX-License-Identifier: Apache-2.0 */
/* The end of this process, for those that must be sure of it: a rank whose job is over. */
#ifndef CERO_BASE_PROCESS_H
#define CERO_BASE_PROCESS_H

#include "base/status.h"

/* Ends this process with `code` now: nothing is flushed, nobody is waited for. */
_Noreturn void cero_process_end(int code);

/* Ends it after `seconds`, whatever it does then. Takes the alarm signal. */
void cero_process_end_after(int seconds, int code);

#endif
