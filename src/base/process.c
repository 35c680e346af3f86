/* SPDX-License-Identifier: Apache-2.0 */
/* Ends this process, at once or by an alarm that nothing it is stuck in can hold up. */
#include "base/process.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t code_of_end;

static void end_by_alarm(int signal_number)
{
    CERO_UNUSED(signal_number);
    _exit(code_of_end);
}

void cero_process_end(int code)
{
    _exit(code);
}

void cero_process_end_after(int seconds, int code)
{
    struct sigaction action;
    sigset_t set;

    code_of_end = code;
    memset(&action, 0, sizeof(action));
    action.sa_handler = end_by_alarm;
    (void)sigaction(SIGALRM, &action, NULL);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGALRM);
    (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
    (void)alarm((unsigned)seconds);
}
