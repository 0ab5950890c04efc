# Muster: what can be done here. `make` alone lists it.

ENGINE_PLATFORM ?=
# Inputs a target: by time, Go fails a target that is busy when the time is over.
FUZZTIME ?= 20000x
PROMPT ?= Once upon a time

# Products hold no cgo; only the race detector needs a C compiler.
export CGO_ENABLED := 0

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
SKIPPED := $(CURDIR)/out/skipped.txt
GO_TEST = MUSTER_WORKER_BIN=$(CURDIR)/bin/muster-worker go test -count=1 -timeout=20m

# The tests of whole pools come after all others, alone: pools of several
# processes watch one another within tenths of a second.
POOLS = ./cmd/muster
OTHERS = $(filter-out muster/cmd/muster,$(shell go list ./...))

GOFUMPT := bin/tools/gofumpt@v0.12.0
STATICCHECK := bin/tools/staticcheck@v0.8.2
GOLANGCI_LINT := bin/tools/golangci-lint@v2.15.0

PROTO := internal/wire/controlpb

.DEFAULT_GOAL := help
.PHONY: help demo test check build engine generate probe fmt bench bench-loss bench-quiet clean \
	lint generated cross race fuzz bench-once

help: ## show this list
	@awk -F ': .*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: engine build ## form a pool of three nodes and tell a tale through them
	@bin/muster up --nodes 3 --model tale --prompt "$(PROMPT)"

test: engine build ## run all tests; needs neither root nor a C compiler, names what it skipped
	@rm -f $(SKIPPED); mkdir -p $(dir $(SKIPPED))
	@status=0; export MUSTER_SKIPPED=$(SKIPPED); $(GO_TEST) $(OTHERS) || status=$$?; $(GO_TEST) $(POOLS) || status=$$?; $(name_skipped); exit $$status

check: lint generated cross race fuzz bench-once ## all that CI asks; needs root and gcc, and skips nothing

build: ## build bin/muster and bin/muster-worker
	@mkdir -p bin
	go build -trimpath -ldflags "-X main.version=$(VERSION)" -o bin/ ./cmd/muster ./cmd/muster-worker

engine: ## install the pinned llama.cpp of this machine (another: ENGINE_PLATFORM=linux-x64-cuda)
	@engine/install.sh $(ENGINE_PLATFORM)

generate: ## write generated files anew
	go run ./tools/faultdoc >docs/faults.md.new && mv docs/faults.md.new docs/faults.md
	go run ./tools/machinedoc >docs/machines.md.new && mv docs/machines.md.new docs/machines.md
	go run ./tools/protogen $(PROTO) control.proto >$(PROTO)/control.pb.go.new && mv $(PROTO)/control.pb.go.new $(PROTO)/control.pb.go

probe: engine build ## compute the built-in model's reference anew (its last bits are this machine's)
	go run ./tools/probe

fmt: $(GOFUMPT) ## format the source
	$(GOFUMPT) -w .

bench: engine build ## measure tokens a second, edges and starts, into bench/records
	go run ./tools/bench -revision $(VERSION)

bench-loss: engine build ## measure losses to the typed error and the next token; cut links need root
	go run ./tools/lossbench -revision $(VERSION)

bench-quiet: engine build ## count false faults of pools that lose nothing, 40 minutes in all
	go run ./tools/lossbench -revision $(VERSION) -quiet 10m -burn

clean: ## remove what was built; the engine and the tools stay
	rm -rf bin/muster bin/muster-worker bin/*.exe out

# The parts of `make check`.

lint: $(GOFUMPT) $(STATICCHECK) $(GOLANGCI_LINT)
	@ill=$$($(GOFUMPT) -l .); [ -z "$$ill" ] || { echo "not formatted, run make fmt: $$ill"; exit 1; }
	go vet ./...
	$(STATICCHECK) ./...
	$(GOLANGCI_LINT) run

generated:
	@go run ./tools/faultdoc | diff -u docs/faults.md - || { echo "docs/faults.md is out of date: run make generate"; exit 1; }
	@go run ./tools/machinedoc | diff -u docs/machines.md - || { echo "docs/machines.md is out of date: run make generate"; exit 1; }
	@go run ./tools/protogen $(PROTO) control.proto | diff -u $(PROTO)/control.pb.go - || { echo "$(PROTO) is out of date: run make generate"; exit 1; }

# Tests of the other platforms are compiled too (vet reads them), never run.
cross:
	GOOS=linux GOARCH=arm64 go build ./... && GOOS=linux GOARCH=arm64 go vet ./...
	GOOS=darwin GOARCH=arm64 go build ./... && GOOS=darwin GOARCH=arm64 go vet ./...
	GOOS=windows GOARCH=amd64 go build ./... && GOOS=windows GOARCH=amd64 go vet ./...

race: engine build
	CGO_ENABLED=1 MUSTER_REQUIRE=all $(GO_TEST) -race $(OTHERS)
	CGO_ENABLED=1 MUSTER_REQUIRE=all $(GO_TEST) -race $(POOLS)

fuzz:
	@git grep -hE --untracked -o '^func Fuzz[A-Za-z0-9_]+' -- '*_test.go' >/dev/null || { echo "no fuzz target found"; exit 1; }
	@git grep -E --untracked -o '^func Fuzz[A-Za-z0-9_]+' -- '*_test.go' | \
		sed -E 's|^(.*)/[^/]*:func (.*)$$|\1 \2|' | \
		while read -r folder target; do \
			echo "fuzz $$folder $$target"; \
			go test -run='^$$' -fuzz="^$$target\$$" -fuzztime=$(FUZZTIME) -fuzzminimizetime=100x "./$$folder" || exit 1; \
		done

bench-once: engine build
	MUSTER_REQUIRE=all $(GO_TEST) -run='^$$' -bench=. -benchtime=1x ./...

# A tool is named with its version, so a new pin is a new file.
bin/tools/gofumpt@%:
	$(call install_tool,mvdan.cc/gofumpt)
bin/tools/staticcheck@%:
	$(call install_tool,honnef.co/go/tools/cmd/staticcheck)
bin/tools/golangci-lint@%:
	$(call install_tool,github.com/golangci/golangci-lint/v2/cmd/golangci-lint)

define install_tool
GOBIN=$(CURDIR)/bin/tools go install $(1)@$*
@mv bin/tools/$(notdir $(1)) $@
endef

define name_skipped
if [ -s $(SKIPPED) ]; then \
	echo "Skipped here; make check runs them (as root, with gcc):"; sort -u $(SKIPPED) | sed 's/^/  /'; \
else echo "Nothing was skipped."; fi
endef
