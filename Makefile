# Builds, tests and installs clairon: the output plugin, the relay and their tools.
#
#   make                 build plugin and relay            make check        run all tests
#   make demo            run everything, with a web page   make demo-traffic write changes to the demo
#   make install         DESTDIR, prefix; plugin: as pg_config prints; make uninstall
#   make deb             Debian packages for this Debian release
#   make release         all files of a release, in dist/
#   make fuzz            run each fuzz target for some seconds
#   make soak            soak test, ten minutes (SECONDS=..)
#   make mutants         mutation tests: one-line faults that a test must detect
#   make check-conformance   scenarios of the protocol against a running relay (RELAY=URL)
#   make check-images    test the images, the compose file and the chart in a container engine
#   make check-long      all tests in their long form, and the relay under ASan (hours)
#   make check TIMES=1   also print the durations of layers and of the twenty slowest files
#   make fmt lint lint-fast bench asan clean deps help check-unit check-regress check-isolation check-tap ..

SHELL := /bin/bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

BUILD ?= build
prefix ?= /usr/local
bindir ?= $(prefix)/bin
completiondir ?= $(prefix)/share/bash-completion/completions
docdir ?= $(prefix)/share/doc/clairon
mandir ?= $(prefix)/share/man
unitdir ?= $(prefix)/lib/systemd/system
PG_CONFIG ?= $(shell . relay/tools/lib.sh; pg_config_path)

# Uses all cores, unless arguments or environment set the number of jobs. Several goals run sequentially.
ifeq ($(MAKELEVEL)$(filter -j% --jobs% --jobserver%,$(MAKEFLAGS) $(shell printenv MAKEFLAGS))$(word 2,$(MAKECMDGOALS)),0)
MAKEFLAGS += -j$(shell nproc)
endif

# Uses ccache if it is installed and its directory is writable; CCACHE= disables it.
ifeq ($(origin CCACHE),undefined)
CCACHE := $(shell command -v ccache >/dev/null && [ -w "$${CCACHE_DIR:-$$HOME}" ] && echo ccache)
endif

# ---- sources
# A module of relay/ may have one level of folders; the include lint checks their order.
# decoder/protocol/ is shared: compiled into plugin and relay.
folder_sources := $(wildcard relay/*/*.c relay/*/*/*.c decoder/protocol/*.c)
scripts := $(sort $(wildcard relay/store/scripts/*.lua))
script_parts := $(wildcard relay/store/scripts/parts/*.lua)
script_constants := $(BUILD)/gen/script_constants
expanded_scripts := $(scripts:relay/store/scripts/%=$(BUILD)/gen/scripts/%)
script_source := $(BUILD)/gen/store_scripts.c
page_parts := $(sort $(wildcard relay/gate/console/*))
page_source := $(BUILD)/gen/gate_console_page_parts.c
api_source := $(BUILD)/gen/gate_api_documents.c
# the tables in C that describe-api.pl reads
api_tables := relay/gate/routes.c $(wildcard relay/gate/api/*.json relay/wire/c*.[ch] decoder/protocol/*.[ch])
generated := $(script_source) $(page_source) $(api_source)
unit_sources := $(wildcard tests/unit/*/test_*.c)
# The part of the decoder that needs no server, linked into unit tests.
pure_sources := decoder/encode/json.c
c_files := $(wildcard relay/*.[ch] relay/*/*.[ch] relay/*/*/*.[ch] decoder/*.[ch] decoder/*/*.[ch] tests/unit/*.[ch] tests/unit/*/*.[ch] tests/fuzz/*.[ch] \
    tests/bench/*/*.c)

relay_objects := $(BUILD)/obj/relay/main.o $(folder_sources:%.c=$(BUILD)/obj/%.o) $(generated:$(BUILD)/%.c=$(BUILD)/obj/%.o)
asan_main := $(BUILD)/asan/relay/main.o
asan_library := $(BUILD)/asan/relay.a
asan_objects := $(folder_sources:%.c=$(BUILD)/asan/%.o) $(generated:$(BUILD)/%.c=$(BUILD)/asan/%.o) $(pure_sources:%.c=$(BUILD)/asan/%.o)
unit_programs := $(unit_sources:%.c=$(BUILD)/asan/%)
# TESTS selects unit tests.
unit_wanted = $(if $(TESTS),$(filter $(TESTS:%.c=$(BUILD)/asan/%),$(unit_programs) $(replay_programs)),$(unit_programs) $(replay_programs))

# Documents that README links to, installed in the same folders so that the links work.
documents := README.md LICENSE CHANGELOG.md SECURITY.md $(wildcard docs/*) $(wildcard client/*.md client/LICENSE client/package.json \
    client/src/* client/dist/* client/examples/* client/conformance/*) decoder/FRAMES.md sql/README.md $(filter-out %/__pycache__,$(wildcard sql/examples/*)) \
    $(wildcard docker/*.md docker/*.yml docker/*.yaml docker/*.json docker/*.conf docker/*.cfg docker/*.example) docker/Caddyfile \
    tests/bench/README.md

# ---- flags
packages := libpq hiredis libwebsockets jansson openssl libcurl
ifeq ($(filter clean fmt deps help release,$(MAKECMDGOALS)),)
# TLS to the store needs hiredis 1.0.
ifneq ($(shell pkg-config --exists hiredis_ssl 2>/dev/null && echo found),)
packages += hiredis_ssl
store_tls := -DCLAIRON_STORE_TLS
endif
pkg_cflags := $(store_tls) $(shell pkg-config --cflags $(packages) 2>/dev/null)
pkg_libs := $(shell pkg-config --libs $(packages) 2>/dev/null) -lev -lm
endif

warnings := -Wall -Wextra -Wshadow -Wvla -Wconversion -Wmissing-prototypes -Wstrict-prototypes \
    -Wundef -Wformat=2
ifneq ($(filter true,$(CI))$(filter 1,$(WERROR)),)
warnings += -Werror
export COPT = -Werror
endif
hardening := -fstack-protector-strong -fstack-clash-protection -D_FORTIFY_SOURCE=2 -fPIE
CFLAGS ?= -O2 -g
LDFLAGS ?=
common_flags := -std=gnu11 -D_GNU_SOURCE $(warnings) -Irelay -I. $(pkg_cflags) -MMD -MP
release_flags := $(CFLAGS) $(hardening) $(common_flags)
release_link := -pie -Wl,-z,relro,-z,now $(LDFLAGS)
sanitizers := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
# Local variables without a value have a pattern, so that tests notice their use.
asan_flags := -O1 -g1 $(sanitizers) -ftrivial-auto-var-init=pattern $(common_flags) -DCLAIRON_DEBUG

# PGXS uses the compiler that built PostgreSQL.
plugin_arguments = --no-print-directory -C decoder PG_CONFIG='$(PG_CONFIG)' \
    $(if $(CCACHE),CC='$(CCACHE) $(shell $(PG_CONFIG) --cc)')

# Prints one short line per step; V=1 prints the commands.
ifeq ($(V),1)
step = @echo '$(2)'; $(2)
else
step = @echo '  $(1)'; $(2)
endif

# ---- targets
.PHONY: all help deps plugin check check-build check-parts check-model check-unit check-regress check-isolation check-tap \
    check-client check-e2e check-root check-replica check-packages check-operations check-images check-release check-sanitized check-asan check-long check-long-build soak \
    asan demo demo-traffic bench bench-tools install uninstall deb release clean fmt lint lint-fast mutants private-root sanitized-root

all: plugin $(BUILD)/clairon

# Prints the first comment of this file.
help:
	@sed -n '1,/^$$/s/^# \?//p' $(firstword $(MAKEFILE_LIST))

deps:
	@relay/tools/install-packages.sh

plugin:
	@$(MAKE) -q $(plugin_arguments) all >/dev/null 2>&1 || { \
	    echo "  PGXS decoder/clairon.so"; \
	    $(MAKE) $(if $(V),,-s) $(plugin_arguments) all; }

$(BUILD)/clairon: $(relay_objects)
	$(call step,LD   $@,$(CC) $(release_flags) $(release_link) -o $@ $^ $(pkg_libs))

$(BUILD)/obj/%.o: %.c | check-libraries
	@mkdir -p $(@D)
	$(call step,CC   $<,$(CCACHE) $(CC) $(release_flags) -c -o $@ $<)

$(BUILD)/obj/gen/%.o: $(BUILD)/gen/%.c | check-libraries
	@mkdir -p $(@D)
	$(call step,CC   $*,$(CCACHE) $(CC) $(release_flags) -c -o $@ $<)

# Constants shared by C and the scripts: see relay/store/scripts/constants.h.
$(script_constants): relay/store/scripts/constants.h
	@mkdir -p $(@D)
	$(call step,GEN  $@,$(CC) -E -dM -Irelay -I. -MD -MP -MT $@ -MF $@.d $< >$@)

$(BUILD)/gen/scripts/%.lua: relay/store/scripts/%.lua $(script_parts) $(script_constants) relay/tools/expand-lua.sh
	@mkdir -p $(@D)
	$(call step,LUA  $@,relay/tools/expand-lua.sh $(script_constants) $< >$@)

$(script_source): $(expanded_scripts) relay/tools/embed-lua.sh
	$(call step,LUA  $@,relay/tools/embed-lua.sh $(expanded_scripts) >$@)

$(page_source): $(page_parts) relay/tools/embed-page.sh
	@mkdir -p $(@D)
	$(call step,PAGE $@,relay/tools/embed-page.sh $(page_parts) >$@)

# A route, frame or member without a description is an error here. The frames of the relay are anywhere in relay/.
$(api_source): $(api_tables) $(folder_sources) relay/tools/describe-api.pl
	@mkdir -p $(@D)
	$(call step,API  $@,relay/tools/describe-api.pl >$@)

# Prints one clear message instead of errors about a hundred missing headers.
.PHONY: check-libraries
check-libraries:
	@pkg-config --exists $(packages) || { \
	    echo "missing libraries; 'make deps' installs them (needs root):" >&2; \
	    pkg-config --print-errors --exists $(packages); exit 1; }

# ---- build with sanitizers, for unit tests
asan: $(BUILD)/asan/clairon $(unit_programs)

# Linked dynamically, gcc's ASan and UBSan ignore log_path, so link both statically.
own_sanitizers = $(shell $(CC) -static-libasan -static-libubsan -E -x c /dev/null >/dev/null 2>&1 && \
    echo -static-libasan -static-libubsan)

$(BUILD)/asan/clairon: $(asan_main) $(asan_objects)
	$(call step,LD   $@,$(CC) $(asan_flags) $(own_sanitizers) -o $@ $^ $(pkg_libs))

$(BUILD)/asan/gen/%.o: $(BUILD)/gen/%.c | check-libraries
	@mkdir -p $(@D)
	$(call step,ASAN $*,$(CCACHE) $(CC) $(asan_flags) -c -o $@ $<)

$(BUILD)/asan/%.o: %.c | check-libraries
	@mkdir -p $(@D)
	$(call step,ASAN $<,$(CCACHE) $(CC) $(asan_flags) -c -o $@ $<)

# A test is linked with only the objects that it uses.
$(asan_library): $(asan_objects)
	@rm -f $@
	$(call step,AR   $@,$(AR) rcs $@ $^)

$(BUILD)/asan/tests/unit/%: $(BUILD)/asan/tests/unit/%.o $(asan_library)
	$(call step,LD   $@,$(CC) $(asan_flags) -o $@ $^ $(pkg_libs) -lcmocka $(mocks:%=-Wl,--wrap=%))

$(BUILD)/asan/tests/unit/http_client/test_http_client: mocks = clock_monotonic_us
$(BUILD)/asan/tests/unit/hub/test_delivery_reports: mocks = store_replies store_report store_ack store_acks_wait store_is_read
$(BUILD)/asan/tests/unit/hub/test_session_gaps: mocks = store_translate_id store_is_serving store_is_read
$(BUILD)/asan/tests/unit/store/test_send_queue: mocks = redisAsyncFormattedCommand
$(BUILD)/asan/tests/unit/store/test_replicas: mocks = link_send

.SECONDARY: $(unit_programs:%=%.o) $(expanded_scripts) $(generated)

include tests/fuzz/fuzz.mk

# ---- private PostgreSQL with the plugin
private-root: plugin
	@tests/tools/private-root.sh $(BUILD)/root

# as private-root, with a plugin under UBSan
sanitized-root: plugin
	@tests/tools/sanitized-root.sh $(BUILD)/sanitized

# ---- checks: build as much as possible, then run every layer
check-build:
	@$(MAKE) --no-print-directory -k check-parts

# One goal, because make prints a line for each goal that is up to date.
check-parts: all private-root sanitized-root $(unit_programs) $(replay_programs) $(BUILD)/strict_lines
	@:

# In start order: the longest first.
layers := root replica packages operations tap e2e sanitized client regress isolation unit model

check:
	@relay/tools/install-packages.sh
	@tests/run.sh --make check-build $(layers)

# The long form of all tests, and a relay under ASan and UBSan.
check-long:
	@relay/tools/install-packages.sh
	@CLAIRON_LONG=1 tests/run.sh --make check-long-build $(layers) release asan

check-long-build:
	@$(MAKE) --no-print-directory -k check-parts $(BUILD)/asan/clairon

# Tests that need root, most of them in Debian roots. check-images and check-release are not part of check.
check-root check-packages check-operations check-images check-release: check-%:
	@tests/run.sh $*

# Tests on a standby. They use Debian 13's PostgreSQL if this machine's version cannot decode on a standby.
check-replica: $(BUILD)/clairon private-root
	@tests/run.sh replica

check-model:
	@tests/tools/unprivileged.sh tests/check.sh model

check-unit: $(unit_wanted)
	@tests/tools/unprivileged.sh tests/check.sh unit

check-regress check-tap check-e2e: check-%: $(BUILD)/clairon $(BUILD)/strict_lines private-root
	@tests/tools/unprivileged.sh tests/check.sh $*

check-sanitized: $(BUILD)/strict_lines sanitized-root
	@CLAIRON_SANITIZED=all tests/tools/unprivileged.sh tests/check.sh sanitized

# The scenarios of client/conformance against a running relay: RELAY=http://127.0.0.1:8080; CLAIRON_SECRET is its secret.
.PHONY: check-conformance
check-conformance:
	@/usr/bin/python3 client/conformance/play.py relay '$(or $(RELAY),$(error RELAY is not set, for example RELAY=http://127.0.0.1:8080))' $(SCENARIOS)

# Long: the TAP files with a relay under ASan and UBSan.
check-asan: $(BUILD)/clairon $(BUILD)/asan/clairon $(BUILD)/strict_lines private-root
	@tests/tools/unprivileged.sh tests/check.sh asan

check-client:
	@tests/tools/unprivileged.sh tests/check.sh client

check-isolation: private-root
	@tests/tools/unprivileged.sh tests/check.sh isolation

# Soak test of ten minutes, or SECONDS: no growth and no loss.
soak: $(BUILD)/clairon private-root
	@tests/tools/unprivileged.sh tests/soak/run.sh $(or $(SECONDS),600)

# Only the rules that neither compile nor run clang-tidy: at most two minutes.
lint-fast:
	@tests/lint/lint.sh fast

lint:
	@BUILD='$(BUILD)' CLANG_FLAGS='$(filter-out -MMD -MP,$(common_flags))' PG_CONFIG='$(PG_CONFIG)' tests/lint/lint.sh

# Applies each one-line fault to a copy of the checkout and expects a failing test. MUTANTS selects some.
mutants: check-build
	@MUTANTS='$(MUTANTS)' tests/mutants/run.pl

fmt:
	@clang-format -i $(c_files)

# ---- demo (SIGINT stops both, even in the background of a script, where SIGINT is ignored by default)
demo:
	@echo 'checking packages'
	@relay/tools/install-packages.sh run build
	@echo 'compiling the plugin and the relay'
	@$(MAKE) --no-print-directory all private-root
	@exec env --default-signal=INT tests/tools/unprivileged.sh docker/demo.sh

demo-traffic:
	@exec env --default-signal=INT tests/tools/unprivileged.sh docker/demo.sh traffic

bench:
	@relay/tools/install-packages.sh run build check bench
	@$(MAKE) --no-print-directory $(BUILD)/clairon private-root bench-tools
	@tests/bench/fanout/install-peers.sh
	@exec tests/tools/unprivileged.sh tests/bench/run.sh

# Other plugins for comparison, in a separate PostgreSQL.
bench-tools: plugin $(BUILD)/bench/receive
	@tests/tools/private-root.sh $(BUILD)/bench/root
	@$(MAKE) -s --no-print-directory -C tests/bench/decoder PG_CONFIG='$(PG_CONFIG)' \
	    DESTDIR=$(abspath $(BUILD))/bench/root install >/dev/null

$(BUILD)/bench/receive: $(BUILD)/obj/tests/bench/decoder/receive.o
	@mkdir -p $(@D)
	$(call step,LD   $@,$(CC) $(release_flags) $(release_link) -o $@ $^ $(shell pkg-config --libs libpq))

# ---- installation
install: all $(BUILD)/clairon.1 $(documents)
	@$(MAKE) -s $(plugin_arguments) DESTDIR='$(DESTDIR)' install
	@install -D -m 755 $(BUILD)/clairon '$(DESTDIR)$(bindir)/clairon'
	@install -D -m 644 $(BUILD)/clairon.1 '$(DESTDIR)$(mandir)/man1/clairon.1'
	@install -D -m 644 docker/clairon.completion.bash '$(DESTDIR)$(completiondir)/clairon'
	@for each in $(documents); do install -D -m 644 "$$each" '$(DESTDIR)$(docdir)'/"$$each" || exit; done
	@install -d '$(DESTDIR)$(unitdir)'
	@sed -e 's,/usr/bin/clairon,$(bindir)/clairon,' -e 's,/usr/share/doc/clairon/,$(docdir)/,' \
	    docker/clairon-relay.service >'$(DESTDIR)$(unitdir)/clairon-relay.service'
	@echo 'installed: $(bindir)/clairon, man page, bash completion, systemd unit, documents in $(docdir),'
	@echo "    plugin and extension clairon for $$($(PG_CONFIG) --version)"
	@echo 'next: set wal_level = logical, restart PostgreSQL, CREATE EXTENSION clairon: step 2 of the tour in $(docdir)/README.md'
	@echo '    or, after an upgrade, restart the relay: $(docdir)/docker/UPGRADE.md'

uninstall:
	@$(MAKE) -s $(plugin_arguments) DESTDIR='$(DESTDIR)' uninstall
	@rm -f '$(DESTDIR)$(bindir)/clairon' '$(DESTDIR)$(mandir)/man1/clairon.1' \
	    '$(DESTDIR)$(completiondir)/clairon' '$(DESTDIR)$(unitdir)/clairon-relay.service'
	@for each in $(documents); do rm -f '$(DESTDIR)$(docdir)'/"$$each" || exit; done
	@[ ! -d '$(DESTDIR)$(docdir)' ] || find '$(DESTDIR)$(docdir)' -depth -type d -empty -delete
	@echo 'uninstalled'

$(BUILD)/clairon.1: $(BUILD)/clairon relay/tools/man-page.sh
	$(call step,MAN  $@,relay/tools/man-page.sh $< >$@)

deb:
	@relay/tools/install-packages.sh build deb
	@relay/tools/debian-packages.sh $(BUILD)/deb

# The files of a release, from the last commit: relay/tools/release.sh. REPOSITORY is its URL.
release:
	@relay/tools/install-packages.sh release
	@relay/tools/release.sh dist

clean:
	rm -rf $(BUILD)
	@! command -v '$(PG_CONFIG)' >/dev/null || for each in decoder tests/bench/decoder; do \
	    $(MAKE) --no-print-directory -C $$each PG_CONFIG='$(PG_CONFIG)' clean || exit; done

-include $(script_constants).d $(relay_objects:.o=.d) $(asan_objects:.o=.d) $(asan_main:.o=.d) $(unit_programs:%=%.d)
