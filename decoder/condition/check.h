/* check.h: what an expression of only_when may hold. */
#ifndef CLAIRON_CONDITION_CHECK_H
#define CLAIRON_CONDITION_CHECK_H

#include "postgres.h"

#include "nodes/nodes.h"

/*
 * Checks the types that a raw parse tree names, before its analysis reads constants by their input
 * functions. In the stored form each constant has its type, so no other types are read.
 */
extern void condition_check_raw(Node *raw);

/*
 * Checks an analyzed expression before any part of it runs: immutable functions in C alone, no
 * value that may hold a domain with constraints, nothing that time and memory do not bound.
 */
extern void condition_check(Node *expression);

/* True when it calls functions in other languages than C. */
extern bool condition_calls_foreign_language(Node *expression);

/* Raises an error unless all that it calls is marked immutable. */
extern void condition_reject_mutable(Node *expression);

#endif
