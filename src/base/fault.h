/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seam through which tests make a system call fail, or a process end or stop at a certain point:
 * CERO_FAULT=<call>:<n>:<errno or signal name>.
 *
 * "write:3:ENOSPC" lets the third write from now on fail; "read:1:SHORT" lets the first read move one
 * byte only; at "forward:2:SIGKILL" the process sends itself that signal when it begins the second forward
 * pass. The count starts again when the variable changes. Calls are those of io.h: open read write truncate fsync
 * rename close mkdir unlink rmdir, and io, any of them that changes something. Points that are no call, for signals: start
 * forward backward exchange update evaluate export. Without the variable this costs one look at the environment.
 */
#ifndef CERO_BASE_FAULT_H
#define CERO_BASE_FAULT_H

#include "base/status.h"

enum {
    CERO_FAULT_NONE = 0,
    CERO_FAULT_SHORT = -1 /* let the call move one byte */
};

/* Counts one `call`: the errno it must fail with, CERO_FAULT_SHORT, or CERO_FAULT_NONE. Signals are sent here. */
int cero_fault_next(const char *call);

/* The same for a point at which nothing can fail. */
static inline void cero_fault_at(const char *point)
{
    (void)cero_fault_next(point);
}

#endif
