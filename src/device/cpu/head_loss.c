/* SPDX-License-Identifier: Apache-2.0 */
#include "device/device_impl.h"
void cero_head_loss_destroy(cero_head_loss *plan)
{
    CERO_UNUSED(plan);
}
