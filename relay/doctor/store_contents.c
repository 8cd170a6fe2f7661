/* store_contents.c: checks that the stored data belongs to the relay's settings and database. */
#include "doctor/store_contents.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/store_probe.h"
#include "store/command.h"
#include "store/connection/reply.h"
#include "store/servers/topology.h"

#define DATABASE_HINT                                                                              \
    "Choose another [store] prefix; or, if this database replaces the other one (pg_upgrade, a "   \
    "restored dump), DEL that key in every shard: clients receive a gap"

#define SLOT_HINT                                                                                  \
    "Set [feed] slot to the stored slot, or choose another [store] prefix; to replace the "        \
    "stored slot, stop its relay and DEL its key in every shard: clients receive a gap"

/* `command` is NULL if the store is unavailable because of `error`. */
struct contents {
    const struct config *config;
    struct findings *findings;
    char error[COMMAND_ERROR_MAX];
    struct command *command;
};

static void
check_shards(struct contents *contents)
{
    const bool is_known = contents->command != NULL && command_check_shards(contents->command);

    if (!is_known || contents->config->store.shards > 1)
        findings_add(contents->findings, STORE, "store.shards", is_known,
                     "Restore the old number; or, once all notifications are acknowledged, choose "
                     "another [store] prefix and drop the slot",
                     "%d%s%s", contents->config->store.shards, is_known ? "" : ": ",
                     is_known                    ? ""
                     : contents->command != NULL ? command_error(contents->command)
                                                 : contents->error);
}

static void
read_text(const struct redisReply *reply, size_t nth, char ret_text[VALUE_MAX])
{
    const struct bytes text = reply_is_array(reply, nth + 1) ? reply_bytes(reply_at(reply, nth))
                                                             : (struct bytes){NULL, 0};

    snprintf(ret_text, VALUE_MAX, "%.*s", (int)text.len,
             text.at != NULL ? (const char *)text.at : "");
}

/* Reads the progress key of the slot that was acquired last: acquire.lua stores it. */
static bool
read_progress_key(struct contents *contents, char ret_key[VALUE_MAX])
{
    const struct config *config = contents->config;
    const struct topology topology = topology_of(config);
    char prefix[STORE_PREFIX_MAX], meta[STORE_KEY_MAX];
    const char *argv[] = {"HMGET", meta, "progress"};
    struct redisReply *reply;

    topology_shard_prefix(&topology, config->store.prefix, 0, prefix);
    key_write(meta, prefix, KEY_META);
    reply = command_request(contents->command, 0, 3, argv);
    read_text(reply, 0, ret_key);
    free(reply);
    return ret_key[0] != '\0';
}

/* A store serves one slot: acquire.lua rejects all other slots. */
static void
check_stored_slot(struct contents *contents, const char *key)
{
    const struct config *config = contents->config;
    const struct topology topology = topology_of(config);
    char prefix[STORE_PREFIX_MAX], own[STORE_KEY_MAX];
    const char *argv[] = {"EXISTS", key};
    struct redisReply *reply;

    topology_shard_prefix(&topology, config->store.prefix, 0, prefix);
    key_write_of(own, sizeof(own), prefix, KEY_PROGRESS, config->feed.slot);
    reply = command_request(contents->command, 0, 2, argv);
    if (strcmp(key, own) != 0 && reply != NULL && reply_integer(reply) == 1)
        findings_add(contents->findings, STORE, "slot", false, SLOT_HINT,
                     "store belongs to another slot: %s, not %s", key, own);
    else
        findings_add(contents->findings, STORE, "slot", true, NULL, "%s", config->feed.slot);
    free(reply);
}

/* A store serves one database: acquire.lua rejects all other databases. */
static void
check_database(struct contents *contents, const struct origin *origin)
{
    char key[VALUE_MAX], system[VALUE_MAX], database[VALUE_MAX], name[VALUE_MAX];
    const char *argv[] = {"HMGET", key, "system", "database", "database_name"};
    struct redisReply *reply;
    bool is_same;

    if (origin->system[0] == '\0' || !read_progress_key(contents, key))
        return;
    reply = command_request(contents->command, 0, 5, argv);
    read_text(reply, 0, system);
    read_text(reply, 1, database);
    read_text(reply, 2, name);
    free(reply);
    if (system[0] == '\0')
        return;
    is_same = strcmp(system, origin->system) == 0 &&
              (database[0] == '\0' || strcmp(database, origin->database) == 0);
    if (is_same) {
        findings_add(contents->findings, STORE, "database", true, NULL,
                     "database \"%s\" (oid %s) of cluster %s", name, database, system);
        check_stored_slot(contents, key);
    } else {
        findings_add(contents->findings, STORE, "database", false, DATABASE_HINT,
                     "%s belongs to database \"%s\" (oid %s) of cluster %s; [feed] conninfo names "
                     "database \"%s\" (oid %s) of cluster %s",
                     key, name, database, system, origin->name, origin->database, origin->system);
    }
}

void
store_contents_check(const struct config *config, const struct origin *origin,
                     struct findings *findings)
{
    struct contents contents = {.config = config, .findings = findings};

    contents.command = command_open(config, contents.error);
    check_shards(&contents);
    if (contents.command != NULL)
        check_database(&contents, origin);
    command_close(contents.command);
}
