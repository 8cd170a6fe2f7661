/* public_key.h: whether a PEM holds a public key that tokens can be checked with. */
#ifndef CLAIRON_BASE_PUBLIC_KEY_H
#define CLAIRON_BASE_PUBLIC_KEY_H

#include <stddef.h>

#define PUBLIC_KEY_FAULT_MAX 160

/* Answers NULL when it does, else what is wrong: "must .." or "names ..". */
const char *public_key_fault(const char *pem, size_t len, char fault[PUBLIC_KEY_FAULT_MAX]);

#endif
