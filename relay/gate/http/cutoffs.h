/* cutoffs.h: the cut-offs of the store, in memory (wire/cutoff.h). */
#ifndef CLAIRON_GATE_HTTP_CUTOFFS_H
#define CLAIRON_GATE_HTTP_CUTOFFS_H

#include <stdbool.h>

struct cutoff;
struct cutoff_marks;
struct gate;

#define GATE_CUT_OFF "access revoked: sign in again"

/*
 * End the connections of these tokens. `cutoff` NULL: of any cut-off (gate_cutoffs_reject), and
 * verify the tokens that wait for the first one (gate_token_retry).
 */
typedef void gate_cutoffs_added(struct gate *gate, const struct cutoff *cutoff);

/* Without the role gate, nothing is read, and no token is rejected. */
void gate_cutoffs_open(struct gate *gate, gate_cutoffs_added *added);
void gate_cutoffs_close(struct gate *gate);

/* A cut-off was stored: it counts from now on. */
void gate_cutoffs_add(struct gate *gate, const struct cutoff *cutoff);

bool gate_cutoffs_reject(const struct gate *gate, const struct cutoff_marks *marks);
/* False until the store was read once: tokens wait until then (gate_token_wait). */
bool gate_cutoffs_are_known(const struct gate *gate);

#endif
