/* output_settings.h: the server settings that output functions depend on. */
#ifndef CLAIRON_OUTPUT_SETTINGS_H
#define CLAIRON_OUTPUT_SETTINGS_H

#include "postgres.h"

#include "utils/guc.h"

/*
 * Sets these settings to constants: the output must not depend on the session or the database. With
 * GUC_ACTION_SAVE the caller has called NewGUCNestLevel(), and AtEOXact_GUC() restores them.
 */
extern void output_settings_fix(GucAction action);

#endif
