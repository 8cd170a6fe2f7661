/* fragment.h: bytes that another structure owns. */
#ifndef CLAIRON_FRAGMENT_H
#define CLAIRON_FRAGMENT_H

/* JSON or another string that is rendered once and copied often. */
struct fragment {
    const char *bytes;
    int len;
};

#endif
