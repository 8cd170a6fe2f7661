# fuzz.mk: fuzz targets. `make fuzz` runs each with libFuzzer (clang) for FUZZ_SECONDS; `make check` runs each on its committed
# inputs (tests/fuzz/corpus), built as the unit tests are.

FUZZ_SECONDS ?= 20

fuzz_sources := $(wildcard tests/fuzz/fuzz_*.c)
fuzz_programs := $(fuzz_sources:tests/fuzz/%.c=$(BUILD)/fuzz/%)
replay_programs := $(fuzz_sources:%.c=$(BUILD)/asan/%)
replay_parts := $(BUILD)/asan/tests/fuzz/replay.o $(BUILD)/asan/tests/fuzz/strict_json.o
# The fuzzed code does no I/O and depends on no higher module.
fuzzed_sources := $(wildcard $(foreach module,wire base,relay/$(module)/*.c relay/$(module)/*/*.c) decoder/protocol/*.c) \
    $(pure_sources) tests/fuzz/strict_json.c relay/hub/client_pos.c \
    $(addprefix relay/store/,connection/reply.c entry.c servers/topology.c)
fuzz_flags = -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined \
    -fno-omit-frame-pointer $(common_flags)

.PHONY: fuzz

$(BUILD)/asan/tests/fuzz/%: $(BUILD)/asan/tests/fuzz/%.o $(replay_parts) $(asan_library)
	$(call step,LD   $@,$(CC) $(asan_flags) -o $@ $^ $(pkg_libs))

$(BUILD)/fuzz/obj/%.o: %.c | check-libraries
	@mkdir -p $(@D)
	$(call step,FUZZ $<,clang $(fuzz_flags) -c -o $@ $<)

$(BUILD)/fuzz/%: $(BUILD)/fuzz/obj/tests/fuzz/%.o $(fuzzed_sources:%.c=$(BUILD)/fuzz/obj/%.o)
	$(call step,LD   $@,clang $(fuzz_flags) -o $@ $^ $(pkg_libs))

# New inputs go to build/fuzz/corpus; a crash leaves its input in build/fuzz.
fuzz:
	@relay/tools/install-packages.sh run build fuzz
	@$(MAKE) --no-print-directory $(fuzz_programs)
	@tests/fuzz/run.sh $(FUZZ_SECONDS) $(fuzz_programs)

# Reads notifications, checks them strictly, and reports invalid notifications.
$(BUILD)/strict_lines: $(BUILD)/obj/tests/fuzz/strict_lines.o $(BUILD)/obj/tests/fuzz/strict_json.o
	$(call step,LD   $@,$(CC) $(release_flags) $(release_link) -o $@ $^)

.SECONDARY: $(replay_programs:%=%.o) $(replay_parts) $(fuzzed_sources:%.c=$(BUILD)/fuzz/obj/%.o) \
    $(fuzz_sources:%.c=$(BUILD)/fuzz/obj/%.o)

-include $(wildcard $(BUILD)/fuzz/obj/*/*.d $(BUILD)/fuzz/obj/*/*/*.d $(BUILD)/fuzz/obj/*/*/*/*.d $(BUILD)/asan/tests/fuzz/*.d $(BUILD)/obj/tests/fuzz/*.d)
