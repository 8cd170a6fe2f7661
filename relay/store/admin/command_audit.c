/* command_audit.c: stores the acts of a command. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/admin/admin_private.h"
#include "store/connection/reply.h"
#include "store/shards/shard.h"
#include "store/shards/shard_request.h"

/* Stores the oldest act. A repeat is harmless. */
static bool
store_first(struct command *command)
{
    struct audit_act *act = command->acts;
    struct arguments arguments = {.argc = 0};
    struct redisReply *reply;

    audit_begin_arguments(&command->store->shards[0], true, &arguments);
    audit_add_arguments(act, &arguments);
    reply = command_call(
        command, 0,
        &(struct command_call){STORE_SCRIPT_audit, (int)arguments.argc, arguments.argv, false});
    arguments_free(&arguments);
    if (reply == NULL)
        return false;
    free(reply);
    command->acts = act->next;
    audit_act_free(act);
    return true;
}

static void
close_audit(struct command *command)
{
    while (command->acts != NULL && store_first(command))
        ;
    if (command->acts != NULL)
        fprintf(stderr,
                "clairon: could not store the audit line, which is only in this output: %s\n",
                command->error);
    while (command->acts != NULL) {
        struct audit_act *act = command->acts;

        command->acts = act->next;
        audit_act_free(act);
    }
}

void
command_audit(struct command *command, const struct log_act *act, int64_t at_us)
{
    struct audit_act **end = &command->acts;
    char id[AUDIT_ID_MAX];

    command->close_audit = close_audit;
    snprintf(id, sizeof(id), "%s-%u", store_relay_id(command->store), command->act_count++);
    while (*end != NULL)
        end = &(*end)->next;
    *end = audit_act_new(act, at_us, id);
    /* The change must not wait for a shard that it does not need. */
    while (command->acts != NULL && command->store->shards[0].is_up && store_first(command))
        ;
}
