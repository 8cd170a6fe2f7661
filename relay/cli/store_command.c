/* store_command.c: `clairon store accept`: uses a shard without the keys on a lost node. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/command.h"
#include "store/scripts/constants.h"

#define STORE "store"

static const char store_usage[] =
    "Usage: clairon store accept SHARD --without NODE [options]\n"
    "Uses a shard of a cluster without the keys on a node that was lost while the shard's slot\n"
    "moved. Relays wait for this node, and log the command, until it returns, or is accepted as\n"
    "lost. Its keys are abandoned: clients of the shard receive a gap, and notifications without\n"
    "an acknowledgement may be lost.\n"
    "\n"
    "  --without NODE  the lost node: its ID or HOST:PORT, as in CLUSTER NODES\n"
    "  -c FILE         configuration file of the relay; only [store] is used\n"
    "  --store.url=V   one setting\n";

static void
audit_accept(unsigned shard, const char *id)
{
    char object[COMMAND_NODE_MAX + 32];

    snprintf(object, sizeof(object), "shard %u without node %s", shard, id);
    cli_audit("accept", object);
}

struct acceptance {
    unsigned shard;
    const char *without; /* a node */
};

static int
accept_loss(struct command *command, void *ctx)
{
    const struct acceptance *acceptance = ctx;
    char id[COMMAND_NODE_MAX];

    if (command_accept(command, acceptance->shard, acceptance->without, audit_accept, id) != RC_OK)
        return cli_store_error(STORE, command);
    printf("shard %u is used without the keys on node %s\n", acceptance->shard, id);
    return fflush(stdout) == 0 ? 0 : 1;
}

static bool
read_shard(const char *text, unsigned *ret_shard)
{
    char *end;
    const unsigned long shard = strtoul(text, &end, 10);

    if (*text < '0' || *text > '9' || *end != '\0' || shard >= STORE_SHARDS_MAX)
        return false;
    *ret_shard = (unsigned)shard;
    return true;
}

int
cli_store(int argc, char **argv)
{
    const char *path = NULL, *operands[2] = {NULL, NULL};
    struct acceptance acceptance = {.without = NULL};
    bool help = false;
    const struct cli_option options[] = {
        {"--without", &acceptance.without, NULL},
        {"--help", NULL, &help},
        {"-h", NULL, &help},
        {"-c", &path, NULL},
        {"--config", &path, NULL},
    };
    int code = cli_options_parse(STORE, argc, argv, options, sizeof(options) / sizeof(options[0]),
                                 operands, 2);

    if (code != 0)
        return code;
    if (help)
        return cli_print(store_usage);
    if (operands[0] == NULL || strcmp(operands[0], "accept") != 0)
        return cli_usage_error(STORE, "expected accept", "");
    if (operands[1] == NULL || !read_shard(operands[1], &acceptance.shard))
        return cli_usage_error(STORE, "expected the number of a shard, from 0 to 15", "");
    if (acceptance.without == NULL || *acceptance.without == '\0')
        return cli_usage_error(STORE, "expected --without NODE, the lost node", "");
    return cli_with_store(STORE, path, argc, argv, accept_loss, &acceptance);
}
