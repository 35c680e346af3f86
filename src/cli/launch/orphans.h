/* SPDX-License-Identifier: Apache-2.0 */
/* Ends the processes that a launcher has left to us; see launch/supervise.h. */
#ifndef CERO_CLI_LAUNCH_ORPHANS_H
#define CERO_CLI_LAUNCH_ORPHANS_H

/*
 * Waits a moment for children of this process to end, then sends SIGTERM, then SIGKILL, and reaps them,
 * with what they leave in turn. The caller has no other children and is their reaper.
 */
void cero_launch_end_orphans(void);

#endif
