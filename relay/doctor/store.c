/* store.c: the checks of the store: its servers, and its contents. */
#include "doctor/store.h"

#include <string.h>

#include "doctor/store_cluster.h"
#include "doctor/store_contents.h"
#include "doctor/store_probe.h"
#include "doctor/store_sentinels.h"

/* Returns false if the server does not reply. */
static bool
check_single_server(const struct config *config, struct findings *findings)
{
    struct store_probe probe = {.config = config, .findings = findings};
    struct url address;
    bool is_up = store_named_address(config, 0, &address) && store_probe_open(&probe, &address);

    if (is_up) {
        store_probe_check(&probe);
        store_probe_check_replicas(&probe);
    }
    store_probe_close(&probe);
    explicit_bzero(&address, sizeof(address));
    return is_up;
}

void
doctor_check_store(const struct config *config, const struct origin *origin,
                   struct findings *findings)
{
    bool is_up;

    switch (urls_kind(config->store.url)) {
    case URLS_CLUSTER:
        is_up = store_cluster_check(config, findings);
        break;
    case URLS_SENTINEL:
        is_up = store_sentinels_check(config, findings);
        break;
    default:
        is_up = check_single_server(config, findings);
    }
    if (is_up)
        store_contents_check(config, origin, findings);
}
