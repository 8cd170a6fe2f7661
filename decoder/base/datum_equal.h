/* datum_equal.h: compares values that are compressed or stored out of line. */
#ifndef CLAIRON_DATUM_EQUAL_H
#define CLAIRON_DATUM_EQUAL_H

#include "postgres.h"

/*
 * True when two varlena values have the same bytes. At least one value is compressed, or is an
 * indirect pointer from the reorder buffer; neither value is an on-disk TOAST pointer.
 */
extern bool datum_equal_packed(Datum a, Datum b);

#endif
