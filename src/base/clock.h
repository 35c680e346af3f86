/* SPDX-License-Identifier: Apache-2.0 */
/* Seconds from clocks that do not jump, for reports; nothing that changes a result reads them. */
#ifndef CERO_BASE_CLOCK_H
#define CERO_BASE_CLOCK_H

/* Monotonic seconds since an arbitrary start. */
double cero_clock_now(void);

/* Seconds since 1970, for file names and event files. */
double cero_clock_wall(void);

/* Seconds that the calling thread has computed, in the kernel too. */
double cero_clock_thread(void);

/* Waits about that long; for polling loops. */
void cero_clock_sleep(double seconds);

#endif
