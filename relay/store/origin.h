/* origin.h: the database that a store's notifications come from. */
#ifndef CLAIRON_STORE_ORIGIN_H
#define CLAIRON_STORE_ORIGIN_H

#define ORIGIN_NUMBER_MAX 32
#define ORIGIN_NAME_MAX 256

/*
 * A renamed database is the same, one that was dropped and restored under its name is another: so
 * system identifier and oid decide, the name is for messages.
 */
struct origin {
    char system[ORIGIN_NUMBER_MAX];
    char database[ORIGIN_NUMBER_MAX]; /* its oid */
    char name[ORIGIN_NAME_MAX];
};

#endif
