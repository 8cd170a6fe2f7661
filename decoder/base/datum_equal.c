/* datum_equal.c: compare two packed values, detoasting as few bytes as necessary. */
#include "base/datum_equal.h"

#include "access/detoast.h"

#include "base/data.h"

/* The first slice to detoast and compare; each further slice is 16 times as long. */
#define FIRST_LOOK_BYTES (64 * 1024)

/* Returns the stored value. The reorder buffer replaces TOAST pointers by indirect pointers. */
static struct varlena *
follow(Datum value)
{
    struct varlena *varlena = (struct varlena *)DatumGetPointer(value);
    struct varatt_indirect indirect;

    if (!VARATT_IS_EXTERNAL_INDIRECT(varlena))
        return varlena;
    VARATT_EXTERNAL_GET_POINTER(indirect, varlena);
    return indirect.pointer;
}

static bool
equal_prefix(struct varlena *a, struct varlena *b, int32 len)
{
    struct varlena *left = detoast_attr_slice(a, 0, len);
    struct varlena *right = detoast_attr_slice(b, 0, len);
    bool same = VARSIZE_ANY_EXHDR(left) == VARSIZE_ANY_EXHDR(right) &&
                memcmp(VARDATA_ANY(left), VARDATA_ANY(right), VARSIZE_ANY_EXHDR(left)) == 0;

    pfree(left);
    pfree(right);
    return same;
}

bool
datum_equal_packed(Datum a, Datum b)
{
    int64 len = toast_raw_datum_size(a) - VARHDRSZ;
    struct varlena *left = follow(a);
    struct varlena *right = follow(b);

    if (toast_raw_datum_size(b) - VARHDRSZ != len)
        return false;
    if (!VARATT_IS_COMPRESSED(left) && !VARATT_IS_COMPRESSED(right))
        return memcmp(VARDATA_ANY(left), VARDATA_ANY(right), len) == 0;
    /* Equal input compresses to equal bytes; the header contains the compression method. */
    if (VARSIZE_ANY(left) == VARSIZE_ANY(right) && memcmp(left, right, VARSIZE_ANY(left)) == 0)
        return true;
    for (int64 look = FIRST_LOOK_BYTES; look < len; look *= 16)
        if (!equal_prefix(left, right, look))
            return false;
    return equal_prefix(left, right, len);
}
