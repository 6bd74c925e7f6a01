# What can be done with this repository. A fresh machine needs only Go, Git and make; everything else is built from
# Go modules on first use.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# The kubectl that talks to your cluster; the control plane of the tests brings its own.
KUBECTL ?= kubectl
# Flags for go test, such as TESTFLAGS='-run Release -v'.
TESTFLAGS ?=
# How long make fuzz tries each function.
FUZZTIME ?= 10s

TOOL := go tool -modfile=test/tools/go.mod
# Semicolons, because controller-gen takes one list.
comma_list = $(subst $(eval) ,;,$(patsubst %,./%/...,$(wildcard $(1))))
# Build a command and become it, so that whoever ends make ends it too; go run would leave it behind.
built = mkdir -p bin && go build -o bin/$(notdir $(1)) $(1) && exec bin/$(notdir $(1))
# The race detector needs a C compiler. Only the timed tests do without it: their own process does no more than ask.
RACE = $(if $(shell command -v "$$(go env CC)"),-race)
# Packages whose tests start a control plane, and all others; but for two that are played each time: the simulation has
# a fresh seed, and the timed tests wait for the operator's own process, of whose source go test's cache knows nothing.
# Those measure times and have the machine to themselves.
PLANE = $(filter-out $(TIMED),$(shell go list -test -f '{{.ImportPath}} {{join .Deps " "}}' ./... | sed -n 's|^\([^ ]*\)\.test .*/test/controlplane\( .*\)\?$$|\1|p'))
UNIT = $(filter-out $(PLANE) $(SIM) $(TIMED),$(shell go list ./...))
SIM = $(shell go list ./test/sim)
TIMED = $(shell go list ./test/e2e)

##@ Start here

.PHONY: help
help: ## List the targets (the default).
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
	@echo

.PHONY: demo
demo: ## Play the story of a commit on a control plane of its own and stay up; ONCE=1 ends after it.
	@$(call built,./test/demo) $(if $(ONCE),--once)

.PHONY: test
test: controlplane-build vet lint ## Run every test: units, the simulation, those with a control plane, the timed ones last and alone.
	@failed=0; \
	go test $(RACE) $(TESTFLAGS) $(UNIT) || failed=1; \
	seed=$$((RANDOM * 32768 + RANDOM + 1)); echo "the simulation plays 100,000 steps of seed $$seed"; \
	go test $(RACE) -count=1 $(TESTFLAGS) $(SIM) -args -seed=$$seed || failed=1; \
	go test $(RACE) -p 3 -timeout 20m $(TESTFLAGS) $(PLANE) || failed=1; \
	go test -p 1 -count=1 -timeout 20m $(TESTFLAGS) $(TIMED) || failed=1; \
	exit $$failed

.PHONY: bench
bench: ## Measure locking, convergence, admission and memory on a control plane of its own.
	@$(call built,./test/bench)

.PHONY: simulate
simulate: ## Play random histories of nodes and check the laws: STEPS (1000000) from SEED (a fresh one), one HISTORY again, or WORLD=fleet for DAYS (3), recorded in FLEET or made.
	@$(call built,./test/sim/cmd/simulate) --steps $(or $(STEPS),1000000) --seed $(or $(SEED),0) --history "$(HISTORY)" \
		--world "$(or $(WORLD),small)" --fleet "$(FLEET)" --days $(or $(DAYS),3)

.PHONY: chaos
chaos: ## Play a life of 30 nodes on a real control plane while the operator, the API server, etcd and the lease go away, and check the laws; some minutes.
	@$(call built,./test/chaos)

##@ Development

.PHONY: generate
generate: ## Write the deep copies of api/v1alpha1.
	$(TOOL) controller-gen object paths=./api/...

.PHONY: manifests
manifests: ## Write the CRDs and the operator's roles.
	$(TOOL) controller-gen crd paths=./api/... output:crd:dir=config/crd
	$(TOOL) controller-gen rbac:roleName=reservation-operator paths='$(call comma_list,reconciler webhook cmd)' output:rbac:dir=config/rbac

.PHONY: verify
verify: generate manifests ## Write what is generated anew and fail if that changed anything.
	@changes=$$(git status --porcelain -- api config/crd config/rbac); \
	if [ -n "$$changes" ]; then git --no-pager diff -- api config/crd config/rbac; echo "$$changes"; \
	echo "generated files were out of date; commit what make generate manifests wrote" >&2; exit 1; fi

.PHONY: fmt
fmt: ## Format the Go files.
	gofmt -l -w $$(git ls-files --cached --others --exclude-standard '*.go')

.PHONY: vet
vet: ## Run go vet.
	go vet ./...

.PHONY: lint
lint: ## Run staticcheck, and fail on files that gofmt would change.
	$(TOOL) staticcheck ./...
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
	if [ -n "$$unformatted" ]; then echo "not formatted; run make fmt:" >&2; echo "$$unformatted" >&2; exit 1; fi

.PHONY: fuzz
fuzz: ## Run each fuzz test for FUZZTIME (10s).
	@grep -rHo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sort | while IFS=: read -r file function; do \
		go test -run '^$$' -fuzz "^$${function#func }\$$" -fuzztime $(FUZZTIME) "$$(dirname "$$file")"; done

.PHONY: controlplane
controlplane: ## Keep a control plane with 14 GPU nodes running and print how to talk to it.
	@$(call built,./test/controlplane/cmd/controlplane)

.PHONY: controlplane-build
controlplane-build: ## Build the control plane of the tests, once.
	@go run ./test/controlplane/cmd/controlplane --build-only

.PHONY: build
build: ## Build the operator into bin/, without C.
	CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/...

.PHONY: clean
clean: ## Remove bin/. The control plane stays in the user's cache folder.
	rm -rf bin

##@ Your cluster

.PHONY: run
run: ## Run the operator here against the cluster of your kubeconfig; ARGS are its flags.
	@$(call built,./cmd/reservation-operator) $(ARGS)

.PHONY: install
install: ## Install the CRDs.
	$(KUBECTL) apply -k config/crd

.PHONY: deploy
deploy: ## Install everything. The image is set in config/manager/kustomization.yaml.
	$(KUBECTL) apply -k config/default

# The operator goes first, or it would put back what is taken down. A policy whose binding is gone decides nothing, and
# without the index a policy that still has its binding would deny every pod: hence bindings, policies, index.
.PHONY: uninstall
uninstall: ## Remove everything; refuses while a Reservation exists, since only the operator releases its nodes.
	@known=$$($(KUBECTL) get crd reservations.scheduling.coreweave.cloud --ignore-not-found -o name); \
	if [ -n "$$known" ]; then left=$$($(KUBECTL) get reservations -o name); if [ -n "$$left" ]; then \
		echo "these Reservations still hold nodes; delete them and wait until they are gone:" >&2; echo "$$left" >&2; exit 1; fi; fi
	$(KUBECTL) -n reservation-operator delete deployment reservation-operator --ignore-not-found
	for kind in validatingadmissionpolicybindings mutatingadmissionpolicybindings validatingadmissionpolicies mutatingadmissionpolicies; do \
		if $(KUBECTL) api-resources --api-group=admissionregistration.k8s.io -o name | grep "^$$kind\." >/dev/null; then \
			$(KUBECTL) delete $$kind -l app.kubernetes.io/managed-by=reservation-operator; fi; done
	$(KUBECTL) delete mutatingwebhookconfiguration reservation-pod-injection --ignore-not-found
	$(KUBECTL) delete validatingwebhookconfiguration reservation-validation --ignore-not-found
	$(KUBECTL) -n reservation-operator delete configmap reservation-index --ignore-not-found
	$(KUBECTL) delete -k config/default --ignore-not-found
