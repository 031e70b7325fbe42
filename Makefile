# Spolia. `make` builds the program and the static library in build/; `make help` lists the rest.

BUILD   ?= build
JOBS    ?= $(shell nproc 2>/dev/null || echo 1)
Q       ?= @
CC      ?= cc
CXX     ?= c++
CSTD    := -std=c11
WARN    := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wno-unused-parameter \
           -Wno-missing-field-initializers
# Contraction is off so that a scalar product has one meaning on every path; kernels use FMA by name.
OPT     ?= -O2 -g -fno-omit-frame-pointer
SAN     :=
# io_uring is Linux's; `make URING=` builds without: the disk tier then reads and writes on threads.
URING   ?= $(shell pkg-config --exists liburing 2>/dev/null && echo liburing)
PKGS    := libpcre2-8 sqlite3 jansson libcrypto libssl libxml-2.0 libcurl libzip libutf8proc uchardet \
           $(URING) libxxhash raptor2 zlib libzstd hiredis
CFLAGS  += $(CSTD) $(WARN) $(OPT) $(SAN) -ffp-contract=off -fvisibility=hidden -D_GNU_SOURCE \
           -Iinclude -Isrc $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
LDLIBS  += $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lm -lpthread -lstdc++
# Of the program alone: line editing, HTTP, the config file.
PROGRAM_PKGS := libedit libmicrohttpd inih
PROGRAM_LIBS := $(shell pkg-config --libs $(PROGRAM_PKGS) 2>/dev/null)
LDFLAGS += $(SAN)

# Kernels (src/compute/simd, and what differs in x86 and arm64): one source gives an object for each set of instructions
# that speeds it up, attend_avx2.o, attend_vnni.o and so on. `make SIMD=` builds the plain C kernels only.
MACHINE  := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine)))
SIMD     ?= $(filter x86_64 aarch64 arm64,$(MACHINE))
X86      := $(filter x86_64,$(SIMD))
KERNELS_FLOAT    := $(addprefix simd/,act_mul attend_f16 attend_f32 kv_store layernorm matmul rmsnorm)
KERNELS_INTEGER  := $(addprefix simd/,attend matmul_blocks matmul_packed matmul_packed_k quantize)
# of one architecture
KERNELS_FLOAT_arm64    := arm64/summary
KERNELS_INTEGER_arm64  := arm64/roofline
KERNELS_INTEGER_x86_64 := x86/roofline x86/summary
FLOAT_x86_64     := avx2 avx512
INTEGER_x86_64   := avx2 avxvnni avx512 vnni
SPECIAL_x86_64   := x86/tiles_amx x86/attend_tiles_amx simd/attend_amx x86/roofline_bf16_amx
FLOAT_arm64      := neon
INTEGER_arm64    := neon i8mm
ARCH        := $(patsubst aarch64,arm64,$(SIMD))
VARIANTS    := $(INTEGER_$(ARCH))
SIMD_NAMES  := $(foreach v,$(FLOAT_$(ARCH)),$(addsuffix _$v,$(KERNELS_FLOAT) $(KERNELS_FLOAT_$(ARCH)))) \
               $(foreach v,$(VARIANTS),$(addsuffix _$v,$(KERNELS_INTEGER) $(KERNELS_INTEGER_$(ARCH)))) $(SPECIAL_$(ARCH))
SIMD_OBJ    := $(SIMD_NAMES:%=$(BUILD)/obj/src/compute/%.o)
CFLAGS  += $(if $(SIMD),,-DSP_PORTABLE=1) $(if $(URING),,-DSP_NO_URING=1)

# The program is cli, cmd, doctor, lab and server; all other folders are the library.
LIB_SRC := $(filter-out src/cli/% src/cmd/% src/doctor/% src/lab/% src/server/% src/compute/x86/% src/compute/arm64/% src/compute/simd/%,$(sort \
	$(wildcard src/*/*.c src/*/*/*.c src/*/*/*/*.c)))
LIB_SRC := $(if $(URING),$(LIB_SRC),$(filter-out %/uring.c,$(LIB_SRC)))
CMD_SRC := $(sort $(foreach d,cli cmd doctor lab server,$(wildcard src/$d/*.c src/$d/*/*.c)))
LIB_CXX := $(sort $(wildcard src/*/*.cc src/*/*/*.cc))
LIB_OBJ := $(LIB_SRC:%.c=$(BUILD)/obj/%.o) $(LIB_CXX:%.cc=$(BUILD)/obj/%.o)
LIB_OBJ += $(SIMD_OBJ)
CMD_OBJ := $(CMD_SRC:%.c=$(BUILD)/obj/%.o)
# The static and the shared library have the same objects. Hidden symbols are called directly, so this costs nothing.
CFLAGS  += -fPIC
UNIT_SRC := $(sort $(wildcard tests/unit/*/*.c tests/kernel/*.c tests/property/*.c))
UNIT_BIN := $(UNIT_SRC:%.c=$(BUILD)/%)
FUZZ_SRC := $(sort $(wildcard tests/fuzz/*.c))

VERSION := $(shell sed -n 's/^.define SPOLIA_VERSION *"\(.*\)"/\1/p' include/spolia.h)
SONAME  := libspolia.so.$(firstword $(subst ., ,$(VERSION)))

# The shared library is built where it is needed: by examples, python and install.
all: $(BUILD)/spolia $(BUILD)/libspolia.a

# -- the two commands of the README ---------------------------------------------------------------

demo:
	@scripts/setup --demo
	@$(MAKE) --no-print-directory -j$(JOBS) $(BUILD)/spolia
	@.venv/bin/python scripts/demo

# The Python packages are unpacked while the compiler runs.
test:
	@scripts/setup --clients --debian
	@$(MAKE) --no-print-directory -j$$(($(JOBS) + 1)) python-packages all unit-bins examples python
	@.venv/bin/python tests/run.py --build $(BUILD)
python-packages:
	@scripts/setup --clients

# setup -- installs what is missing: Debian packages, and the Python packages of the tests in .venv.
setup:
	@scripts/setup

# real-models -- fetches published models (SmolLM2, Gemma 3 270M, MiniLM) into the user's cache; tests and benches that
# need them are skipped without.
real-models: setup
	@.venv/bin/python scripts/real-models

# -- build ----------------------------------------------------------------------------------------

# KERNEL_FLAGS=-fno-sanitize=thread leaves the inner loops out of ThreadSanitizer, which spends nine tenths of its time
# in them.
KERNEL_FLAGS ?=
$(foreach d,ref simd x86 arm64,$(BUILD)/obj/src/compute/$d/%.o): CFLAGS += $(KERNEL_FLAGS)

# Line numbers, but no variables: where to find each in a kernel took the compiler half of its time (same instructions).
$(BUILD)/obj/src/compute/%.o: OPT := $(patsubst -g,-g1,$(subst -O2,-O3,$(OPT)))

# Attention over floats unrolls its loops by name: with -O2 it is as fast, and takes the compiler less.
$(BUILD)/obj/src/compute/simd/attend_f%.o: OPT := $(patsubst -g,-g1,$(OPT))

# What a variant compiles (DEFINE_: simd/vec.h reads it), and the instructions that the compiler may use.
DEFINE_avx2    := -DSP_CPU=avx2 -DSP_VL=8 -DSP_DOT=0
DEFINE_avxvnni := -DSP_CPU=avxvnni -DSP_VL=8 -DSP_DOT=1
DEFINE_avx512  := -DSP_CPU=avx512 -DSP_VL=16 -DSP_DOT=0
DEFINE_vnni    := -DSP_CPU=vnni -DSP_VL=16 -DSP_DOT=1
DEFINE_amx     := -DSP_CPU=amx -DSP_VL=16 -DSP_DOT=1 -DSP_AMX=1
DEFINE_neon    := -DSP_CPU=neon -DSP_VL=8 -DSP_DOT=1 -DSP_ARM64=1
DEFINE_i8mm    := -DSP_CPU=i8mm -DSP_VL=8 -DSP_DOT=1 -DSP_ARM64=1 -DSP_MMLA=1
ALLOW_avx2     := -mavx2 -mfma -mf16c
ALLOW_avxvnni  := $(ALLOW_avx2) -mavxvnni
ALLOW_avx512   := $(ALLOW_avx2) -mavx512f -mavx512bw -mavx512dq -mavx512vl
ALLOW_vnni     := $(ALLOW_avx512) -mavx512vnni
ALLOW_amx      := $(ALLOW_vnni) -mavx512bf16 -mamx-tile -mamx-bf16
# GCC moves loads of later steps before the products of earlier ones, and runs out of registers.
IN_ORDER       := $(if $(findstring clang,$(shell $(CC) --version)),,-fno-schedule-insns)
ALLOW_neon     := -march=armv8.2-a+dotprod $(IN_ORDER)
ALLOW_i8mm     := -march=armv8.2-a+dotprod+i8mm $(IN_ORDER)

# kernel_rule -- $1: the variant; $2: the folder of the objects; $3: flags.
define kernel_rule
$2/src/compute/%_$1.o: src/compute/%.c
	@mkdir -p $$(@D)
	@echo "  CC    $$< ($(notdir $2): $1)"
	$$(Q)$$(CC) $$(CFLAGS) $$(DEFINE_$1) $3 -MMD -MP -c $$< -o $$@
endef
$(foreach v,$(VARIANTS) $(if $(X86),amx),$(eval $(call kernel_rule,$v,$(BUILD)/obj,$$(ALLOW_$v))))

# Only hnswlib, headers of C++ (src/retrieve/vectors/hnsw.cc), and what uchardet throws
# (src/retrieve/documents/guess.cc) need it.
# hnswlib prefetches at addresses that may be none.
$(BUILD)/obj/%.o: %.cc
	@mkdir -p $(@D)
	@echo "  CXX   $<"
	$(Q)$(CXX) -std=c++17 -Wall -Wextra -Wno-unused-parameter $(patsubst -O2,-O3,$(OPT)) $(SAN) $(if $(SAN),-fno-sanitize=pointer-overflow) -ffp-contract=off \
		-fvisibility=hidden -fPIC -D_GNU_SOURCE -Iinclude -Isrc -MMD -MP -c $< -o $@

$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC    $<"
	$(Q)$(CC) $(CFLAGS) -MMD -MP -c $< -o $@

# The files of the web page are in the program, compressed.
PAGE_FILES := $(patsubst src/server/page/files/%,$(BUILD)/page/%.gz,$(wildcard src/server/page/files/*))
$(BUILD)/page/%.gz: src/server/page/files/%
	@mkdir -p $(@D)
	$(Q)gzip -9nc $< >$@.new && mv $@.new $@
$(BUILD)/obj/src/server/page/page.o: CFLAGS += -DSRV_PAGE_FILES='"$(BUILD)/page"'
$(BUILD)/obj/src/server/page/page.o: $(PAGE_FILES)

$(BUILD)/libspolia.a: $(LIB_OBJ)
	@rm -f $@
	@echo "  AR    $@"
	$(Q)$(AR) rcs $@ $^

$(BUILD)/spolia: $(CMD_OBJ) $(BUILD)/libspolia.a
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS) $^ $(PROGRAM_LIBS) $(LDLIBS) -o $@

$(BUILD)/libspolia.so: $(LIB_OBJ)
	@echo "  LD    $@"
	$(Q)$(CC) -shared -Wl,-soname,$(SONAME) $(LDFLAGS) $^ $(LDLIBS) -o $(BUILD)/libspolia.so.$(VERSION)
	$(Q)ln -sf libspolia.so.$(VERSION) $(BUILD)/$(SONAME)
	$(Q)ln -sf $(SONAME) $@

# examples -- programs over the public header and the shared library alone.
EXAMPLES := $(patsubst %.c,$(BUILD)/%,$(wildcard examples/*.c))
examples: $(EXAMPLES)
$(BUILD)/examples/%: examples/%.c $(wildcard include/*.h) $(BUILD)/libspolia.so
	@mkdir -p $(@D)
	@echo "  CC    $<"
	$(Q)$(CC) $(CSTD) $(WARN) $(OPT) $(SAN) -Iinclude $< -L$(BUILD) -lspolia -Wl,-rpath,'$$ORIGIN/..' $(LDFLAGS) -o $@

# python -- the Python package in BUILD/python: its files, the library, and the declarations of the public header.
PYTHON_FILES := $(patsubst python/%,$(BUILD)/python/%,$(wildcard python/spolia/*.py) python/spolia/py.typed) \
	$(BUILD)/python/spolia/spolia.cdef $(BUILD)/python/spolia/libspolia.so
python: $(PYTHON_FILES)
# In the order in which they include each other.
PUBLIC_HEADERS := $(foreach h,_base _context _prompt _request _tokens _index _store _graph _quality _embed _search \
		_documents _collections _copies,include/spolia$h.h) \
	include/spolia.h
$(BUILD)/python/spolia/spolia.cdef: $(PUBLIC_HEADERS)
	@mkdir -p $(@D)
	@echo "  CDEF  $@"
	$(Q)sed -e '/^#include/d' -e 's/__attribute__((visibility("default")))//' $^ | $(CC) -E -P -x c - >$@.new && mv $@.new $@
$(BUILD)/python/spolia/libspolia.so: $(BUILD)/libspolia.so
	@mkdir -p $(@D)
	$(Q)strip --strip-unneeded -o $@ $<
$(BUILD)/python/%: python/%
	@mkdir -p $(@D)
	$(Q)cp $< $@

# wheel -- dist/spolia-VERSION-*.whl, which `pip install` takes; no compiler is needed there.
wheel: setup python
	.venv/bin/python -m pip wheel -q --no-deps --wheel-dir dist .

# The programs of the tests are many and small: -O1, and gold where the compiler has it, take half as long to make them.
# (gold does not find the libraries of another root.)
TEST_CFLAGS = $(patsubst -O2,-O1,$(CFLAGS)) -Itests -MMD -MP
TEST_LINK  := $(if $(SAN)$(findstring --sysroot,$(CC)),,$(shell $(CC) -fuse-ld=gold -Wl,--version >/dev/null 2>&1 && echo -fuse-ld=gold)) -lcmocka

$(BUILD)/tests/%: tests/%.c $(BUILD)/libspolia.a
	@mkdir -p $(@D)
	@echo "  CC    $<"
	$(Q)$(CC) $(TEST_CFLAGS) $< $(BUILD)/libspolia.a $(LDFLAGS) $(TEST_LINK) $(LDLIBS) -o $@

# Unit tests of the program's parts link an archive of them, so that the linker takes only what they use.
$(BUILD)/libprogram.a: $(filter-out %/main.o,$(CMD_OBJ))
	@rm -f $@
	@echo "  AR    $@"
	$(Q)$(AR) rcs $@ $^

PROGRAM_TEST = $(CC) $(TEST_CFLAGS) $< $(BUILD)/libprogram.a $(BUILD)/libspolia.a $(LDFLAGS) $(TEST_LINK) \
	$(PROGRAM_LIBS) $(LDLIBS) -o $@
$(BUILD)/tests/unit/lab/%: tests/unit/lab/%.c $(BUILD)/libprogram.a $(BUILD)/libspolia.a
	@mkdir -p $(@D)
	@echo "  CC    $<"
	$(Q)$(PROGRAM_TEST)
$(BUILD)/tests/unit/cmd/%: tests/unit/cmd/%.c $(BUILD)/libprogram.a $(BUILD)/libspolia.a
	@mkdir -p $(@D)
	@echo "  CC    $<"
	$(Q)$(PROGRAM_TEST)
$(BUILD)/tests/unit/cli/%: tests/unit/cli/%.c $(BUILD)/libprogram.a $(BUILD)/libspolia.a
	@mkdir -p $(@D)
	@echo "  CC    $<"
	$(Q)$(PROGRAM_TEST)

$(BUILD)/tests/unit/server/%: tests/unit/server/%.c $(BUILD)/libprogram.a $(BUILD)/libspolia.a
	@mkdir -p $(@D)
	@echo "  CC    $<"
	$(Q)$(PROGRAM_TEST)

# Fuzz targets without libFuzzer: the kept corpus, and changed copies of it. A target may replace parts of the library.
REPLAY_BIN := $(FUZZ_SRC:tests/%.c=$(BUILD)/tests/%)
$(BUILD)/tests/fuzz/%: tests/fuzz/%.c tests/support/replay.c $(BUILD)/libprogram.a $(BUILD)/libspolia.a
	@mkdir -p $(@D)
	@echo "  CC    $<"
	$(Q)$(CC) $(patsubst -O2,-O1,$(patsubst -g,-g1,$(CFLAGS))) -Itests -DTARGET='"$*"' $(filter %.c %.a,$^) $(LDFLAGS) $(TEST_LINK) $(PROGRAM_LIBS) $(LDLIBS) \
		-o $@

unit-bins: $(UNIT_BIN) $(REPLAY_BIN) $(BUILD)/tests/support/schema_texts $(BUILD)/bench/kernels $(BUILD)/bench/sparse \
	$(BUILD)/bench/http_cost emulated-bins

# -- the same kernels on CPUs without their instructions -------------------------------------------

# SIMDe computes AVX-512 and VNNI in C (src/compute/x86/emulate.h); AVX2 is the CPU's own. These
# objects and a dispatch that always selects them are linked before the library's. `make test` runs
# the kernel tests this way, `make test-cpus` every test that the choice of kernels can change.
EMULATED := $(filter-out %_avx2 x86/roofline_%,$(SIMD_NAMES))
EMULATED_OBJ := $(EMULATED:%=$(BUILD)/emulate/src/compute/%.o) $(BUILD)/emulate/src/compute/dispatch.o
EMULATED_BIN := $(patsubst %,$(BUILD)/emulate/tests/kernel/test_%,attend join matmul packed small_ops summary tiles)
EMULATED_ALL := $(BUILD)/emulate/spolia $(EMULATED_BIN) $(patsubst %.c,$(BUILD)/emulate/%,$(sort $(wildcard \
	$(foreach d,unit/compute unit/engine unit/serve property,tests/$d/*.c))))
EMULATE := -DSP_EMULATE $(ALLOW_avx2) -Wno-maybe-uninitialized -Wno-psabi

# -O2 takes the compiler two to four times as long here, and more than the tests, which are a fifth faster with it, save.
$(BUILD)/emulate/src/%.o: OPT := $(patsubst -g,-g1,$(patsubst -O2,-O1,$(OPT)))

$(foreach v,avxvnni avx512 vnni amx,$(eval $(call kernel_rule,$v,$(BUILD)/emulate,$$(EMULATE))))
$(BUILD)/emulate/src/%.o: src/%.c
	@mkdir -p $(@D)
	@echo "  CC    $< (emulated)"
	$(Q)$(CC) $(CFLAGS) $(EMULATE) -MMD -MP -c $< -o $@

$(BUILD)/emulate/tests/%: tests/%.c $(EMULATED_OBJ) $(BUILD)/libspolia.a
	@mkdir -p $(@D)
	@echo "  CC    $< (emulated)"
	$(Q)$(CC) $(TEST_CFLAGS) -DSP_EMULATE $< $(EMULATED_OBJ) $(BUILD)/libspolia.a $(LDFLAGS) $(TEST_LINK) $(LDLIBS) -o $@

$(BUILD)/emulate/spolia: $(CMD_OBJ) $(EMULATED_OBJ) $(BUILD)/libspolia.a
	@mkdir -p $(@D)
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS) $^ $(PROGRAM_LIBS) $(LDLIBS) -o $@

emulated-bins: $(if $(X86),$(EMULATED_BIN))

# test-cpus -- the suite under each SPOLIA_CPU; variants that this CPU lacks are emulated.
CPUS ?= ref,avx2,avxvnni,avx512,vnni,amx
test-cpus: setup
	@$(MAKE) --no-print-directory -j$(JOBS) all unit-bins emulated-all
	@.venv/bin/python tests/run.py --build $(BUILD) --cpus $(CPUS)
emulated-all: $(if $(X86),$(EMULATED_ALL))

# -- 64-bit ARM, on an x86 machine -----------------------------------------------------------------

# test-arm64 -- the C programs of the suite, compiled for 64-bit ARM, under qemu-user: on a CPU that has every extension,
# and the kernels on one without dot products (ARM64_CPUS). scripts/setup-arm64 installs what is missing. No time that
# this prints says anything about an ARM machine.
ARM64_CC   ?= aarch64-linux-gnu-gcc
ARM64_CXX  ?= aarch64-linux-gnu-g++
ARM64_ONLY ?=
# Of the cases of attention each 60th: all of them take many hours.
ARM64_EVERY ?= 60
test-arm64: setup
	@root=$$(scripts/setup-arm64) && export PKG_CONFIG_SYSROOT_DIR=$$root \
	  PKG_CONFIG_LIBDIR=$$root/usr/lib/aarch64-linux-gnu/pkgconfig:$$root/usr/lib/pkgconfig:$$root/usr/share/pkgconfig && \
	  $(MAKE) --no-print-directory -j$(JOBS) BUILD=build/arm64 AR=aarch64-linux-gnu-ar CC="$(ARM64_CC) --sysroot=$$root" \
	  CXX="$(ARM64_CXX) --sysroot=$$root" all unit-bins && export SPOLIA_EVERY=$(ARM64_EVERY) && \
	  .venv/bin/python tests/run.py --build build/arm64 --under "qemu-aarch64 -cpu max -L $$root" --only "$(ARM64_ONLY)" && \
	  .venv/bin/python tests/run.py --build build/arm64 --under "qemu-aarch64 -cpu cortex-a72 -L $$root" \
	    --folders tests/unit/compute,tests/kernel --only "$(ARM64_ONLY)"

# -- the same suite under sanitizers, each in a build folder of its own ----------------------------

SAN_OPT := -O1 -g -fno-omit-frame-pointer
asan: setup
	@$(MAKE) --no-print-directory -j$(JOBS) BUILD=build/asan OPT="$(SAN_OPT)" SAN="-fsanitize=address" sanitized
ubsan: setup
	@$(MAKE) --no-print-directory -j$(JOBS) BUILD=build/ubsan OPT="$(SAN_OPT)" \
		SAN="-fsanitize=undefined -fno-sanitize-recover=all" sanitized
tsan: setup
	@$(MAKE) --no-print-directory -j$(JOBS) BUILD=build/tsan OPT="$(SAN_OPT)" SAN="-fsanitize=thread" sanitized
sanitized: all unit-bins examples
	@.venv/bin/python tests/run.py --build $(BUILD)

# crash -- kills a process that writes to a store CRASHES times, with noise and then with requests, and checks what is
# there afterwards. fault -- makes system calls and allocations of the store fail, its answers late, and the device lose
# its memory. Both run in `make test` too, crash with fewer kills.
CRASHES ?= 1000
crash: $(BUILD)/tests/unit/store/test_crash $(BUILD)/tests/unit/serve/test_path_store
	SPOLIA_CRASHES=$(CRASHES) $<
	SPOLIA_CRASHES=$(CRASHES) $(BUILD)/tests/unit/serve/test_path_store
fault: $(BUILD)/tests/unit/store/test_disk_faults $(BUILD)/tests/unit/serve/test_tier_faults
	$<
	$(BUILD)/tests/unit/serve/test_tier_faults

# mutants -- applies each bug of tests/mutants/list.txt in a copy of the tree, and says which the tests notice.
ONLY ?=
mutants: $(if $(N),sampled,$(BUILD)/libspolia.a)
	$(if $(N),,python3 tests/mutants/run.py --cc "$(CURDIR)/tests/mutants/cc" $(if $(ONLY),--only $(ONLY)))

# With N: random bugs instead (tests/mutants/sample.py), in a build that counts lines, by the plain C kernels. It can be
# stopped. QUICK=1: C programs only. Threads that count at once lose counts, but never all.
COVERAGE := BUILD=build/cov SIMD= OPT="-O1 --coverage" LDFLAGS=--coverage
sampled: setup
	@CC= $(MAKE) --no-print-directory -j$(JOBS) CC=tests/mutants/cc $(COVERAGE) $(if $(QUICK),,build/cov/spolia) \
		$(UNIT_SRC:%.c=build/cov/%)
	@.venv/bin/python tests/mutants/sample.py --n $(N) --seed $(or $(SEED),1) --jobs $(JOBS) $(if $(QUICK),--no-python)

# chaos -- N seeds of random faults over a whole server: memory, files, the clock, kills (KINDS=allocation,... for some).
chaos: setup
	@$(MAKE) --no-print-directory -j$(JOBS) $(BUILD)/spolia
	@.venv/bin/python tests/chaos.py --build $(BUILD) --seed $(or $(SEED),1) --n $(or $(N),100) \
		$(if $(KINDS),--kinds $(KINDS)) $(if $(VARIANT),--variant $(VARIANT))

# power-loss -- N seeds: a server works, power is lost at random moments, and what the disk then has is opened.
power-loss: setup
	@$(MAKE) --no-print-directory -j$(JOBS) $(BUILD)/spolia
	@.venv/bin/python tests/power_loss.py --build $(BUILD) --seed $(or $(SEED),1) --n $(or $(N),20)

# remote-faults -- N requests to a server with --remote, while its Redis, cluster or object store dies, hangs, is slow ...
remote-faults: setup
	@scripts/setup --clients
	@$(MAKE) --no-print-directory -j$(JOBS) $(BUILD)/spolia
	@.venv/bin/python tests/remote_faults.py --build $(BUILD) --seed $(or $(SEED),1) --n $(or $(N),10000) \
		$(if $(KINDS),--kinds $(KINDS))

# damaged-models -- N model files with changed bits, bytes, numbers and lengths are read and run.
damaged-models: setup
	@$(MAKE) --no-print-directory -j$(JOBS) $(BUILD)/spolia
	@.venv/bin/python tests/damaged_models.py --build $(BUILD) --seed $(or $(SEED),1) --n $(or $(N),500)

# soak -- SOAK requests of mixed documents to a server built with AddressSanitizer; 1 % of the clients die.
SOAK ?= 24000
soak: setup
	@$(MAKE) --no-print-directory -j$(JOBS) BUILD=build/asan OPT="$(SAN_OPT)" SAN="-fsanitize=address" build/asan/spolia
	@.venv/bin/python bench/soak.py --build build/asan --requests $(SOAK)

# bench -- paired timings of the kernels; CSV and more in bench/.
bench: $(BUILD)/bench/kernels
	$<
# tables -- the quality tables of docs/benchmarks.md, in hours; what was interrupted continues. TABLES has options of
# bench/tables.py, such as --limit 20, --only stream, --data FOLDER.
TABLES ?=
tables: $(BUILD)/spolia
	.venv/bin/python bench/tables.py --program $(BUILD)/spolia --out $(BUILD)/tables $(TABLES)

# sparse -- sparse decoding of contexts too large to compute here: random keys and values.
$(BUILD)/bench/sparse: $(wildcard bench/sparse/*.[ch]) $(BUILD)/libprogram.a $(BUILD)/libspolia.a
	@mkdir -p $(@D)
	@echo "  CC    $@"
	$(Q)$(CC) $(CFLAGS) $(filter %.c %.a,$^) $(LDFLAGS) $(PROGRAM_LIBS) $(LDLIBS) -o $@
# The library that it is compared with takes what the compiler's CPU has.
$(BUILD)/bench/vectors: bench/vectors.cc $(BUILD)/libspolia.a
	@mkdir -p $(@D)
	@echo "  CXX   $<"
	$(Q)$(CXX) -std=c++17 -O3 -g -march=native -Iinclude -Isrc $< $(BUILD)/libspolia.a $(LDFLAGS) $(LDLIBS) -o $@

$(BUILD)/bench/%: bench/%.c $(BUILD)/libspolia.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -Itests $< $(BUILD)/libspolia.a $(LDFLAGS) $(LDLIBS) -o $@

# fuzz -- libFuzzer on every parser, FUZZ_SECONDS each; the corpus in tests/fuzz/corpus is kept.
# Parsers need no vector kernels, which take clang with sanitizers most of its time.
FUZZ_SECONDS ?= 60
FUZZ_BIN := $(FUZZ_SRC:tests/fuzz/%.c=build/fuzz/%)
fuzz: $(FUZZ_BIN)
	@for f in $(FUZZ_BIN); do n=$$(basename $$f); echo "== $$n"; mkdir -p build/fuzz/new/$$n; \
		$$f -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=2048 -timeout=10 -print_final_stats=1 \
		-artifact_prefix=build/fuzz/$$n- build/fuzz/new/$$n tests/fuzz/corpus/$$n || exit 1; done
# fuzz-short -- the same for seconds, under a minute in all: for CI. fuzz-keep -- what new inputs have found goes to the
# corpus: a smallest set that reaches as many edges, however often each is taken.
fuzz-short:
	@$(MAKE) --no-print-directory FUZZ_SECONDS=3 fuzz
fuzz-keep: $(FUZZ_BIN)
	@for f in $(FUZZ_BIN); do n=$$(basename $$f); mkdir -p build/fuzz/new/$$n tests/fuzz/corpus/$$n; \
		$$f -set_cover_merge=1 -use_counters=0 -rss_limit_mb=2048 tests/fuzz/corpus/$$n build/fuzz/new/$$n \
		2>&1 | tail -1; done
# fuzz-log -- for FUZZ_MINUTES, runs of the target that has had the fewest executions; counts are kept.
FUZZ_MINUTES ?= 60
fuzz-log: $(FUZZ_BIN)
	@python3 tests/fuzz/log.py --seconds $(FUZZ_SECONDS) --minutes $(FUZZ_MINUTES)
# hnswlib is in C++.
FUZZ_LINK := -fsanitize=address,undefined,fuzzer -fno-sanitize-recover=all -fsanitize-link-c++-runtime
build/fuzz/%: tests/fuzz/%.c $(LIB_SRC)
	@mkdir -p $(@D)
	@$(MAKE) --no-print-directory BUILD=build/fuzzlib CC=clang CXX=clang++ SIMD= \
		OPT="-O1 -g -fno-omit-frame-pointer" SAN="-fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=all" build/fuzzlib/libspolia.a
	clang $(CFLAGS) $(FUZZ_LINK) $< build/fuzzlib/libspolia.a $(LDLIBS) -o $@
# Parsers of the program: bodies of requests, and files.
PROGRAM_FUZZ_BIN := build/fuzz/fuzz_body build/fuzz/fuzz_files
$(PROGRAM_FUZZ_BIN): build/fuzz/%: tests/fuzz/%.c $(LIB_SRC) $(CMD_SRC)
	@mkdir -p $(@D)
	@$(MAKE) --no-print-directory BUILD=build/fuzzlib CC=clang CXX=clang++ SIMD= OPT="-O1 -g -fno-omit-frame-pointer" \
		SAN="-fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=all" \
		build/fuzzlib/libspolia.a build/fuzzlib/libprogram.a
	clang $(CFLAGS) $(FUZZ_LINK) $< build/fuzzlib/libprogram.a \
		build/fuzzlib/libspolia.a $(PROGRAM_LIBS) $(LDLIBS) -o $@

# -- installation -------------------------------------------------------------------------------

# install -- below PREFIX, staged in DESTDIR: the program, the library (static and shared), the header, pkg-config's
# file, man pages and completions.
PREFIX     ?= /usr/local
BINDIR     ?= $(PREFIX)/bin
LIBDIR     ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
DATADIR    ?= $(PREFIX)/share
MAN1 := $(DATADIR)/man/man1
BASH_COMPLETIONS := $(DATADIR)/bash-completion/completions
ZSH_COMPLETIONS  := $(DATADIR)/zsh/site-functions
FISH_COMPLETIONS := $(DATADIR)/fish/vendor_completions.d

$(BUILD)/help/spolia.bash: $(BUILD)/spolia scripts/help-pages
	@echo "  HELP  $(@D)"
	$(Q)python3 scripts/help-pages --program $< $(@D)

$(BUILD)/spolia.pc: Makefile include/spolia.h
	$(Q)printf '%s\n' 'prefix=$(PREFIX)' 'libdir=$(LIBDIR)' 'includedir=$(INCLUDEDIR)' '' 'Name: spolia' \
		'Description: LLM inference for retrieval-augmented generation with reuse of KV caches' 'Version: $(VERSION)' \
		'Requires.private: $(PKGS)' 'Libs: -L$${libdir} -lspolia' 'Libs.private: -lm -lpthread -lstdc++' \
		'Cflags: -I$${includedir}' >$@.new && mv $@.new $@

install: all $(BUILD)/libspolia.so $(BUILD)/help/spolia.bash
	@rm -f $(BUILD)/spolia.pc; $(MAKE) --no-print-directory $(BUILD)/spolia.pc
	install -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(INCLUDEDIR) $(DESTDIR)$(MAN1) \
		$(DESTDIR)$(BASH_COMPLETIONS) $(DESTDIR)$(ZSH_COMPLETIONS) $(DESTDIR)$(FISH_COMPLETIONS)
	install -m 755 $(BUILD)/spolia $(DESTDIR)$(BINDIR)
	install -m 644 $(PUBLIC_HEADERS) $(DESTDIR)$(INCLUDEDIR)
	install -m 644 $(BUILD)/libspolia.a $(DESTDIR)$(LIBDIR)
	install -m 755 $(BUILD)/libspolia.so.$(VERSION) $(DESTDIR)$(LIBDIR)
	ln -sf libspolia.so.$(VERSION) $(DESTDIR)$(LIBDIR)/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(LIBDIR)/libspolia.so
	install -m 644 $(BUILD)/spolia.pc $(DESTDIR)$(LIBDIR)/pkgconfig
	install -m 644 $(BUILD)/help/man1/*.1 $(DESTDIR)$(MAN1)
	install -m 644 $(BUILD)/help/spolia.bash $(DESTDIR)$(BASH_COMPLETIONS)/spolia
	install -m 644 $(BUILD)/help/_spolia $(DESTDIR)$(ZSH_COMPLETIONS)
	install -m 644 $(BUILD)/help/spolia.fish $(DESTDIR)$(FISH_COMPLETIONS)

uninstall:
	rm -f $(DESTDIR)$(BINDIR)/spolia $(PUBLIC_HEADERS:include/%=$(DESTDIR)$(INCLUDEDIR)/%) \
	  $(DESTDIR)$(LIBDIR)/libspolia.* \
		$(DESTDIR)$(LIBDIR)/pkgconfig/spolia.pc $(DESTDIR)$(MAN1)/spolia.1 $(DESTDIR)$(MAN1)/spolia-*.1 \
		$(DESTDIR)$(BASH_COMPLETIONS)/spolia $(DESTDIR)$(ZSH_COMPLETIONS)/_spolia $(DESTDIR)$(FISH_COMPLETIONS)/spolia.fish

# -- house-keeping --------------------------------------------------------------------------------

# layers -- a file includes headers of its own folder and of lower floors only; functions keep to the limits of size, and
# each has a caller that is no test (STRICT=1: fails if one does not).
STRICT ?=
layers:
	@awk -f scripts/layers.awk $$(find src -name '*.[ch]')
	@scripts/check-functions $(if $(STRICT),--strict) $$(find src -name '*.[ch]')
	@scripts/check-calls $(if $(STRICT),--strict)
	@scripts/check-format

# format -- corrects what scripts/check-format can: blanks and ends of lines. Layout is the author's; `make layers` checks it.
format:
	@scripts/check-format --fix

compile_commands.json:
	bear -- $(MAKE) --no-print-directory -B all unit-bins

clean:
	rm -rf build

help:
	@echo "make            build the program and the static library (Q= shows the commands)"
	@echo "make install    install below PREFIX (/usr/local), staged in DESTDIR; make uninstall"
	@echo "make examples   build examples/ over the shared library"
	@echo "make python     the Python package, in build/python; make wheel: as a wheel in dist/"
	@echo "make setup      install what is missing: Debian packages, and the Python packages of the tests in .venv"
	@echo "make demo       set up, build, answer questions over the bundled documents"
	@echo "make real-models  fetch published models, which some tests and the demo use"
	@echo "make test       set up, build, run every test"
	@echo "make test-cpus  the tests that kernels can change, under each SPOLIA_CPU (CPUS=ref,avx2)"
	@echo "make test-arm64 the C programs of the suite for 64-bit ARM, under qemu-user (ARM64_ONLY=substring of a name)"
	@echo "make asan|ubsan|tsan   the test suite under a sanitizer"
	@echo "make fuzz       fuzz every parser (FUZZ_SECONDS=60); make fuzz-short: seconds; make fuzz-keep: keep what was found"
	@echo "make fuzz-log   fuzz for FUZZ_MINUTES, fewest executions first; counts are in tests/fuzz/executions.csv"
	@echo "make crash|fault   kill a process that writes to a store (CRASHES=1000); make its system calls fail"
	@echo "make mutants    apply known bugs in a copy of the tree: which do the tests notice (ONLY=substring of a name)"
	@echo "make mutants N=200 SEED=1   random bugs, in lines that tests reach (QUICK=1: C programs only); continued when run again"
	@echo "make chaos      random faults over a server: N seeds from SEED on (KINDS=allocation,read,...,clock,kill)"
	@echo "make damaged-models  damaged model files are computed or refused (N=500 SEED=1)"
	@echo "make power-loss  power is lost while a server works (N=20 SEED=1)"
	@echo "make remote-faults  requests while a Redis server fails (N=10000 SEED=1 KINDS=killed,stopped,...)"
	@echo "make soak       load with dying clients on a server built with AddressSanitizer (SOAK=24000)"
	@echo "make bench      paired timings (bench/)"
	@echo "make tables     the quality tables of docs/benchmarks.md, resumable (TABLES=\"--limit 20\")"
	@echo "make layers     check the floors, function sizes and layout (STRICT=1: fail on sizes); make format; make compile_commands.json; make clean"

.PHONY: python-packages real-models damaged-models fuzz-short fuzz-log fuzz-keep power-loss remote-faults crash fault mutants sampled chaos examples python wheel install uninstall all demo test test-cpus test-arm64 setup unit-bins emulated-bins emulated-all asan ubsan tsan sanitized fuzz layers format clean help bench tables soak
.SECONDARY:
-include $(LIB_OBJ:.o=.d) $(CMD_OBJ:.o=.d) $(UNIT_BIN:=.d) $(EMULATED_OBJ:.o=.d) $(EMULATED_ALL:=.d)
