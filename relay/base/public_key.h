/* public_key.h: checks that a PEM file contains a public key that can verify tokens. */
#ifndef CLAIRON_BASE_PUBLIC_KEY_H
#define CLAIRON_BASE_PUBLIC_KEY_H

#include <stddef.h>

#define PUBLIC_KEY_FAULT_MAX 160

/* Returns NULL for a valid key, otherwise the problem: "must ...", "has ..." or "is ...". */
const char *public_key_error(const char *pem, size_t len, char fault[PUBLIC_KEY_FAULT_MAX]);

#endif
