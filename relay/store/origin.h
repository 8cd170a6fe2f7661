/* origin.h: the database whose notifications a store holds. */
#ifndef CLAIRON_STORE_ORIGIN_H
#define CLAIRON_STORE_ORIGIN_H

#define ORIGIN_NUMBER_MAX 32
#define ORIGIN_NAME_MAX 256

/*
 * System identifier and oid identify a database: a rename keeps them, a drop and restore does not.
 * The name is only for messages.
 */
struct origin {
    char system[ORIGIN_NUMBER_MAX];
    char database[ORIGIN_NUMBER_MAX]; /* its oid */
    char name[ORIGIN_NAME_MAX];
};

#endif
