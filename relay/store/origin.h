/* origin.h: the database that a store belongs to. */
#ifndef CLAIRON_STORE_ORIGIN_H
#define CLAIRON_STORE_ORIGIN_H

#define ORIGIN_NUMBER_MAX 32
#define ORIGIN_NAME_MAX 256

/*
 * A database is identified by the system identifier and its oid: a rename keeps them, a drop and
 * restore does not. The name is only for messages.
 */
struct origin {
    char system[ORIGIN_NUMBER_MAX];
    char database[ORIGIN_NUMBER_MAX]; /* the database's oid */
    char name[ORIGIN_NAME_MAX];
};

#endif
