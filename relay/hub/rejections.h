/* rejections.h: logs rejected acks, nacks and delivery reports at a limited rate. */
#ifndef CLAIRON_HUB_REJECTIONS_H
#define CLAIRON_HUB_REJECTIONS_H

#include "hub/hub_state.h"

/* `what` is the log message; `user` caused the last rejection. */
void rejections_add(struct rejections *rejections, const char *user, const char *what);

#endif
