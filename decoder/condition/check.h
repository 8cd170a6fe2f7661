/* check.h: checks that an expression is allowed in only_when. */
#ifndef CLAIRON_CONDITION_CHECK_H
#define CLAIRON_CONDITION_CHECK_H

#include "postgres.h"

#include "nodes/nodes.h"

/*
 * Checks the types in a raw parse tree before parse analysis calls the input functions of
 * constants. In the stored form each constant has a type name, so the check is complete.
 */
extern void condition_check_raw(Node *raw);

/*
 * Checks an analyzed expression before any part of it runs: immutable C functions only, no value
 * that may contain a domain value, no unbounded time or memory.
 */
extern void condition_check(Node *expression);

/* True when the expression calls functions that are not written in C. */
extern bool condition_calls_foreign_language(Node *expression);

/* Raises an error unless all functions of the expression are immutable. */
extern void condition_reject_mutable(Node *expression);

#endif
