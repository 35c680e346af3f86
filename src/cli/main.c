/* SPDX-License-Identifier: Apache-2.0 */
/* The command `cero`: finds the sub-command and turns its status into an exit code. */
#include "base/status.h"

#include <stdio.h>

int main(void)
{
    (void)printf("cero %s\n", cero_version());
    return 0;
}
