/*
 * objects.h: the catalog objects that plans and conditions were prepared from.
 *
 * Anybody changes the catalogs, if only with temporary tables. To prepare everything again for each
 * catalog state would take the time of owners whose objects are as before. So the rows of all
 * objects outside PostgreSQL itself are remembered: a row with the same xmin and ctid is the same.
 * They are compared in each catalog state with those in PostgreSQL's catalog caches, from which
 * everything would be prepared again. So a lost invalidation, possible in releases before May 2025,
 * outdates a plan as late as the caches themselves.
 */
#ifndef CLAIRON_OBJECTS_H
#define CLAIRON_OBJECTS_H

#include "postgres.h"

#include "nodes/nodes.h"

struct encoders;
struct objects;

/* Allocated in *ret_context, a child of the current memory context. */
extern struct objects *objects_new(MemoryContext *ret_context);

extern long objects_count(const struct objects *objects);

/* Adds the type with its functions, and the types within. */
extern void objects_add_type(struct objects *objects, Oid type);

/* Adds the types of all encoders. */
extern void objects_add_encoders(struct objects *objects, const struct encoders *encoders);

/*
 * Adds those of an expression, and the current role. Returns false when changes of other objects
 * may also change it. `objects` may be NULL: returns true if none would be added.
 */
extern bool objects_add_expression(struct objects *objects, Node *expression);

/* The next call of objects_changed returns true. */
extern void objects_outdate(struct objects *objects);

/* True when an object differs in the current catalog snapshot. */
extern bool objects_changed(const struct objects *objects);

#endif
