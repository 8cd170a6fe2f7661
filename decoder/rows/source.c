/* source.c: find a live rule by the source in its notifications. */
#include "rows/source.h"

#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

#include "rules/rules.h"

static bool
has_source(Oid relid, const char *source)
{
    char *table = get_rel_name(relid);
    char *schema = table == NULL ? NULL : get_namespace_name(get_rel_namespace(relid));

    return schema != NULL && strcmp(rule_source(schema, table), source) == 0;
}

/*
 * Searches the rules instead of resolving the names in the source: clients choose these names, and
 * the server would cache each unknown name.
 */
struct rule *
source_find_rule(const char *source, const char *name)
{
    struct rule *found = NULL;
    ListCell *cell;

    foreach (cell, rules_find(InvalidOid, name, GetActiveSnapshot())) {
        struct rule *rule = lfirst(cell);

        if (!rule->live || !has_source(rule->relid, source))
            continue;
        if (found != NULL)
            return NULL;
        found = rule;
    }
    return found;
}
