/* output_settings.c: set the server settings that output functions depend on. */
#include "base/output_settings.h"

static const struct {
    const char *name;
    const char *value;
} settings[] = {
    {"TimeZone", "UTC"},
    {"DateStyle", "ISO, MDY"},
    {"IntervalStyle", "iso_8601"},
    {"extra_float_digits", "1"},
    {"lc_monetary", "C"},
    {"search_path", "pg_catalog"},
    {"bytea_output", "hex"},
    {"xmlbinary", "base64"},
    {"quote_all_identifiers", "off"},
    {"standard_conforming_strings", "on"},
    {"transform_null_equals", "off"},
    {"xmloption", "content"},
};

void
output_settings_fix(GucAction action)
{
    for (size_t i = 0; i < lengthof(settings); i++)
        (void)set_config_option(settings[i].name, settings[i].value, PGC_SUSET, PGC_S_SESSION,
                                action, true, 0, false);
}
