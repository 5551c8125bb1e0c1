# make            build ./biplane, one static binary
# make entry      build the small program that enters sandboxes, which ./biplane embeds on Linux
# make demo       the whole idea on this machine, offline, in under a minute
# make check      formatting, vet, staticcheck, the architecture and the short tests: the inner loop
# make test       everything that is checked, against real peers: the stories with the binary that users get, all else
#                 that starts goroutines with the race detector
# make race       what make test runs without the race detector: the stories, and tests that compute for long
# make tools      install the real peers (npm) that tests run against, into .tools
# make browser    the console in a real browser (Chromium), checked for accessibility, with pictures in .tools/screenshots
# make bench      the benchmarks
# make soak       N executions (100000) in sessions that are suspended, forked and lose their processes, with a model beside them
#                 and a tenth as many process sandboxes, of which nothing may be left; and a crash at each write of a journal
# make sizing     the figures of docs/operations.md, with N calls (1000000) in a data folder
# make servers    the calls of 14 popular MCP servers, with and without Biplane; installs the servers (npm) into .tools/servers
# make documents  the operations of seven large public OpenAPI documents, which it installs (npm, Go modules) into .tools/documents
# make crash      kill -9 at each step of executions with ten writes, of executions that wait for a person, of plans, and of recoveries,
#                 and N (2000) times at random, counted at a real upstream; and of prune, backup, restore and reload
# make fuzz       each fuzz target for FUZZTIME (30s)
# make profile    record where the engines spend their time, for the compiler of releases
# make release    archives, checksums, lists of components and a formula for Homebrew, in dist; VERSION names the release
# make generate   translate the engine and build the guest's prelude again

GO ?= go
FUZZTIME ?= 30s
N ?= 100000
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS = -s -w -X main.version=$(VERSION)
# All builds have the same flags, so that one cache serves them: the generated engines take a minute each time.
export GOFLAGS := -trimpath $(filter-out -trimpath,$(GOFLAGS))
# The tag with which biplane embeds the small program that enters sandboxes, which scripts/entry.sh builds first.
ENTRY = -tags entry
MODULE = github.com/biplane-dev/biplane
# The race detector is told nothing of what is translated from C or WebAssembly, of the translator, and of scrypt: they compute on
# memory of their own, on one goroutine or under a sync.Mutex, and would take most of the time. What synchronizes by sync/atomic
# or sync.Once can't be listed here: the detector would miss that, and report races that there are not.
UNWATCHED = $(MODULE)/internal/lab/w2x $(MODULE)/third_party/quickjs-wasi/... $(MODULE)/third_party/cpython/... modernc.org/sqlite/lib modernc.org/libc/... golang.org/x/crypto/scrypt
RACE = -race $(UNWATCHED:%=-gcflags=%=-race=false)

# Packages without goroutines have nothing that the race detector could find. A test checks that they have none.
SINGLE = . ./internal/exec/sandbox/wasm/pyguest ./internal/lab/release ./internal/lab/w2x ./internal/tool/typegen ./internal/upstream/scan

# Tests that run without the race detector, which would make them several times slower: they compute on one goroutine, or wait for other
# programs (Node.js, Python, compilers, clients). What runs at the same time in them is watched in other tests of their packages.
# Some of process don't fit beside the detector into a sandbox's memory. A test checks that the two lists match. make race runs them with it.
PLAIN_TESTS = TestARealClientIsAsked TestBombs TestCPUElsewhere TestCachedDecisions TestClientRoundTrip TestConformance TestConsoleSandbox \
	TestConsoleSandboxFiles TestDeterminism TestEntryProgram TestFind TestFolderDepth TestFolderExecutables TestFolderNetwork \
	TestFullSegment TestGoProgram TestHold TestHostedServer TestImageFolders TestImageFromSandbox TestImageFromSandboxRefused \
	TestImagesForPrograms TestIntl TestIntlOfNode TestKill TestLabelsOnlyGrow TestLargePatterns TestLargePrograms TestLargeUnions \
	TestLedgerExports TestManyValues TestMemoryLimit TestNode TestNodeForImports TestNodeSession TestNotebook TestOrdinaryUser \
	TestParts TestProcessAfterRestart TestReadResultBounds TestReadResultFlood TestRealConsoleNotes TestRealNodePackage \
	TestRealWork TestRealWorkWithPandas TestRecent TestRedactInsideStrings TestReplayGivesTheSameBytes \
	TestReplayOfAChangedProgram TestSearchDocuments TestSessionMoves TestSessionsAgainstModel TestShell TestShellSession \
	TestSignInOfARealClient TestSkillsConformance TestStolenCookie TestStormOfHints TestTamperedColumns TestTamperedHints \
	TestTamperedRows TestTasksConformance TestTheIndexChangesNothing TestValueOfManyItems TestWeakerHintWaits TestWithoutHalves
PLAIN_PACKAGES = ./internal/base/secret/mask ./internal/control/audit/segment ./internal/control/catalog ./internal/control/policy \
	./internal/control/privacy ./internal/daemon ./internal/exec/executor ./internal/exec/program ./internal/exec/sandbox/process \
	./internal/exec/sandbox/process/entry ./internal/exec/sandbox/wasm/guest ./internal/lab/bench ./internal/lab/soak \
	./internal/serve/mcpserver ./internal/store ./internal/upstream/mcp ./internal/upstream/oauth ./internal/upstream/openapi
space := $(subst ,, )
# Many tests wait: for processes, for pauses and for the disk. So twice as many run at once as there are processors.
PARALLEL = -parallel $$((2 * $$(getconf _NPROCESSORS_ONLN)))
PLAIN = ^($(subst $(space),|,$(strip $(PLAIN_TESTS))))$$

.PHONY: release profile build entry demo vet check test test-stories test-plain race tools browser bench soak sizing servers documents crash fuzz generate clean

build: entry
	CGO_ENABLED=0 $(GO) build $(ENTRY) -ldflags '$(LDFLAGS)' -o biplane ./cmd/biplane

entry:
	@test "$$($(GO) env GOOS)" != linux || scripts/entry.sh "$$($(GO) env GOARCH)"

demo: build
	./biplane demo

tools:
	@scripts/tools.sh

vet:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$unformatted" || { echo "gofmt would change:"; echo "$$unformatted"; exit 1; }
	CGO_ENABLED=0 $(GO) vet ./...

check: vet
	CGO_ENABLED=0 $(GO) tool -modfile=scripts/tools.mod staticcheck $$($(GO) list ./... | grep -v /third_party/)
	CGO_ENABLED=0 $(GO) test -vet=off -short ./...

test: tools vet entry
	CGO_ENABLED=0 $(GO) build $(ENTRY) -o /dev/null ./cmd/biplane
	$(MAKE) -j2 test-stories test-plain
	BIPLANE_TEST_STRICT=1 CGO_ENABLED=1 GORACE=atexit_sleep_ms=0 $(GO) test $(ENTRY) -vet=off $(RACE) -timeout 80m $(PARALLEL) -skip '$(PLAIN)' $$($(GO) list ./... | grep -vxF "$$($(GO) list ./cmd/biplane $(SINGLE))")

# Two parts of make test, which it runs at the same time: each waits for other processes.
test-stories:
	BIPLANE_TEST_STRICT=1 CGO_ENABLED=0 $(GO) test $(ENTRY) -vet=off -timeout 80m ./cmd/biplane ./internal/exec/hosted $(SINGLE)

test-plain:
	BIPLANE_TEST_STRICT=1 CGO_ENABLED=0 $(GO) test $(ENTRY) -vet=off -timeout 80m -run '$(PLAIN)' $(PLAIN_PACKAGES)

race: entry
	BIPLANE_TEST_STRICT=1 CGO_ENABLED=1 GORACE=atexit_sleep_ms=0 $(GO) test $(ENTRY) -vet=off $(RACE) -timeout 60m ./cmd/biplane
	BIPLANE_TEST_STRICT=1 CGO_ENABLED=1 GORACE=atexit_sleep_ms=0 $(GO) test $(ENTRY) -vet=off $(RACE) -timeout 60m -run '$(PLAIN)' $(PLAIN_PACKAGES)

browser:
	@command -v chromium >/dev/null 2>&1 || test -n "$$BIPLANE_TEST_BROWSER" || { echo "install Chromium (Debian: apt-get install chromium), or set BIPLANE_TEST_BROWSER to a browser" >&2; exit 1; }
	@mkdir -p .tools/axe .tools/screenshots
	@test -f .tools/axe/node_modules/axe-core/axe.min.js || npm install --prefix .tools/axe --no-audit --no-fund --ignore-scripts --loglevel=error axe-core@4.10.2
	BIPLANE_TEST_AXE=$(CURDIR)/.tools/axe/node_modules/axe-core/axe.min.js BIPLANE_TEST_SCREENSHOTS=$(CURDIR)/.tools/screenshots CGO_ENABLED=0 $(GO) test -run '^TestBrowser' -count 1 -v ./cmd/biplane

bench:
	CGO_ENABLED=0 $(GO) test -run '^$$' -bench . -benchmem ./...

soak: entry
	BIPLANE_SOAK=$(N) CGO_ENABLED=0 $(GO) test $(ENTRY) -run '^TestSoak$$' -timeout 12h -count 1 -v ./internal/lab/soak
	BIPLANE_SOAK=$$(($(N) / 10)) CGO_ENABLED=0 $(GO) test $(ENTRY) -run '^TestLeftovers$$' -timeout 12h -count 1 -v ./internal/exec/sandbox/process
	BIPLANE_SOAK=1 CGO_ENABLED=0 $(GO) test -run '^TestDeathAtEachWrite' -timeout 12h -count 1 -v ./internal/exec/executor

sizing: N = 1000000
sizing: build
	BIPLANE_BIN=$(CURDIR)/biplane BIPLANE_SIZING=$(N) CGO_ENABLED=0 $(GO) test -run '^TestSizing$$' -timeout 6h -count 1 -v ./internal/lab/soak

servers: tools
	@scripts/servers.sh
	BIPLANE_SERVERS=1 BIPLANE_TEST_STRICT=1 CGO_ENABLED=0 $(GO) test -run '^TestServers$$' -timeout 2h -count 1 -v ./cmd/biplane

documents:
	@scripts/documents.sh
	BIPLANE_DOCUMENTS=1 BIPLANE_TEST_STRICT=1 CGO_ENABLED=0 $(GO) test -run '^TestLargeDocuments$$' -count 1 -v ./internal/upstream/openapi

crash: N = 2000
crash:
	BIPLANE_CRASH=$(N) CGO_ENABLED=0 $(GO) test -run '^TestCrash' -timeout 12h -count 1 -v ./cmd/biplane

fuzz:
	@scripts/fuzz.sh $(FUZZTIME)

generate:
	$(GO) generate ./...

profile:
	@scripts/profile.sh

release:
	$(GO) run ./internal/lab/release -version '$(VERSION)'

clean:
	rm -rf biplane dist .tools
