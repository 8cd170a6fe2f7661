/* template.h: the parts of a plan that a spooled notification needs at its commit. */
#ifndef CLAIRON_TEMPLATE_H
#define CLAIRON_TEMPLATE_H

#include "plan/plan.h"

/* Returns the plan's template number. Writes the template unless the spool contains it. */
extern uint32 spool_template(struct decoder *decoder, const struct plan *plan);

/* Creates a plan with the members that notification_write needs, in the current memory context. */
extern struct plan *spool_get_template(const char *body);

#endif
