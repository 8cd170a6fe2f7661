/* place.h: how far somebody has read of the streams that concern him. */
#ifndef CLAIRON_STORE_PLACE_H
#define CLAIRON_STORE_PLACE_H

#include "store/entry.h"

/* With a single shard all is in `shared`, and `own` stays zero. */
struct place {
    struct entry_id shared; /* in shard 0 */
    struct entry_id own;    /* in the shard of what is for him alone */
};

#endif
