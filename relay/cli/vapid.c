/* vapid.c: creates a private key with which the relay identifies itself to push services. */
#include "cli/cli.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "wire/push_encryption.h"

#define VAPID "vapid"
#define PEM_MAX 4096

static const char vapid_usage[] =
    "Usage: clairon vapid >FILE\n"
    "Prints a new private key (P-256, PKCS#8 in PEM) for [webpush] vapid_key_file.\n"
    "\n"
    "Create the file with umask 077. Subscriptions of browsers work only with the key that they\n"
    "were made with: keep it. To replace it, name the new file first and the old one second.\n";

int
cli_vapid(int argc, char **argv)
{
    bool help = false;
    const struct cli_option options[] = {{"--help", NULL, &help}, {"-h", NULL, &help}};
    int code = cli_options_parse(VAPID, argc, argv, options, sizeof(options) / sizeof(options[0]),
                                 NULL, 0);
    struct web_push_key *key;
    struct buffer pem;

    if (code != 0)
        return code;
    if (help)
        return cli_print(vapid_usage);
    key = web_push_key_generate();
    buffer_init(&pem, PEM_MAX);
    code = key != NULL && web_push_key_write(key, &pem) == RC_OK ? cli_print(pem.bytes) : 1;
    if (code != 0)
        fprintf(stderr, "clairon " VAPID ": could not create or print a key\n");
    if (pem.bytes != NULL)
        explicit_bzero(pem.bytes, pem.len);
    buffer_free(&pem);
    web_push_key_free(key);
    return code;
}
