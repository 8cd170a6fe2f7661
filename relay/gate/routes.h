/* routes.h: the route table. */
#ifndef CLAIRON_GATE_ROUTES_H
#define CLAIRON_GATE_ROUTES_H

#include "gate/http/request.h"

extern const struct gate_route GATE_ROUTES[]; /* terminated by a NULL path */

#endif
