/* image.h: one side of a changed row, old or new. */
#ifndef CLAIRON_IMAGE_H
#define CLAIRON_IMAGE_H

#include "postgres.h"

#include "base/compat.h"

struct image {
    Datum *values; /* by attribute number - 1 */
    bool *nulls;
    bool present;
    bool whole; /* all columns, not only the replica identity */
};

/*
 * True when the WAL does not contain the value, because it is TOASTed and the change did not touch
 * it.
 */
static inline bool
image_lacks(const struct image *image, int index, int16 typlen)
{
    return typlen == -1 && !image->nulls[index] &&
           VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(image->values[index]));
}

#endif
