/* store.c: the checks of the store: its servers, and its contents. */
#include "doctor/store.h"

#include <string.h>

#include "doctor/store_contents.h"
#include "doctor/store_probe.h"
#include "store/direct/locate.h"

/* False: it does not reply. */
static bool
check_single_server(const struct config *config, struct findings *findings)
{
    struct store_probe probe = {.config = config, .findings = findings};
    struct url address;
    bool is_up = locate_named(config, 0, &address) && store_probe_open(&probe, &address);

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
    if (check_single_server(config, findings))
        store_contents_check(config, origin, findings);
}
