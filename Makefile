# SPDX-License-Identifier: Apache-2.0
# The only door: whatever a person or CI runs is a target. `make help` lists them.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
SEED ?=
SIM ?= verilator,icarus
comma := ,
SIM_UNKNOWN := $(filter-out verilator icarus,$(subst $(comma), ,$(SIM)))
ifneq ($(SIM_UNKNOWN)$(if $(SIM),,empty),)
$(error SIM=$(SIM): $(or $(SIM_UNKNOWN),nothing) is no simulator; expected verilator or icarus, or both with a comma)
endif
JOBS ?= 2
PYTEST := $(BIN)/pytest -q -rs --sim $(SIM) $(if $(SEED),--seed $(SEED))
QUICK := $(BIN)/pytest -q --sim verilator $(if $(SEED),--seed $(SEED))
LINUX = $(if $(BACKEND),--backend $(BACKEND)) $(if $(PROFILE),--profile $(PROFILE)) $(if $(FABRIC),--fabric '$(FABRIC)') $(if $(NODES),--nodes $(NODES)) $(if $(GUESTS),--guests $(GUESTS)) $(if $(SHARE),--share '$(SHARE)') $(if $(RECORD),--record '$(RECORD)') $(if $(CHECKED),--checked) $(if $(MAP_LLQ),--map-llq)
CHOICES := PYTHONPATH=model:tools $(BIN)/python -m tb.choices

.DEFAULT_GOAL := help
# A failure prints the line that repeats it.
.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*/\1/p' Makefile)

# `make help` prints the lines `##@` as headings and the text behind `##` of each target. [quick]: up to two minutes on
# two cores; [long]: more, the rough time where known.

##@ First use

help: ## [quick] this list
	@awk -F ':.*## ' '/^##@ / { print "\n" substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  [quick] up to two minutes on two cores, [long] more"
	@echo "  options: SIM=verilator|icarus  SEED=7  JOBS=2  WAVES=1  UNIT=cq  TEST=send  BLOCK=fifo  FILE=session.jsonl.gz"

setup: $(STAMP) ## [long] .venv with everything the project uses, Verilator included

$(STAMP): requirements.lock pyproject.toml
	@case "$$PWD" in *[[:space:]]*) echo "setup: the path '$$PWD' contains a space, which Verilator's makefiles and" \
		"the programs of .venv cannot use: move the tree to a path without spaces, then make setup"; exit 2;; esac
	@missing=; for program in g++ perl; do command -v $$program >/dev/null || missing="$$missing $$program"; done; \
		test -z "$$missing" || { echo "setup: not installed:$$missing (Debian: apt install$$missing)"; exit 2; }
	@echo "setting up .venv"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@# pip compiles the modules on one core; compileall does on all. Some files are no Python of this version.
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-compile -r requirements.lock
	@$(BIN)/python -m compileall -q -j 0 .venv/lib >/dev/null || true
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $@

simulators: $(STAMP)
	@$(BIN)/python tools/simulators.py

run: $(STAMP) ## [long] the main job: sessions and sweeps on RTL and model; reports/run/index.html
	$(BIN)/efa-cosim run

play: $(STAMP) ## [long] play a recorded session: FILE=... [BACKEND=verilator]
	$(BIN)/efa-cosim play $(FILE) --backend $(or $(BACKEND),verilator)

report: $(STAMP) ## [quick] render reports/run again from its data
	$(BIN)/efa-cosim report reports/run

linux: $(STAMP) ## [long, two to six minutes] Linux and its RDMA programs on the device: BACKEND=verilator PROFILE=recorded FABRIC=file.yaml CHECKED=1 MAP_LLQ=1 NODES=2 GUESTS=2 STEP=name CMD='ibv_devinfo' SHARE=folder RECORD=run.jsonl.gz; reports/linux
	$(BIN)/python tools/linux.py $(LINUX) $(if $(STEP),--step $(STEP)) $(if $(CMD),--cmd '$(CMD)')

linux-shell: $(STAMP) ## [long] a prompt in a Linux guest with the device: BACKEND=verilator NODES=2 SHARE=folder RECORD=run.jsonl.gz
	$(BIN)/python tools/linux.py $(LINUX) --shell

fabric-report: $(STAMP) ## [quick] the reliable transport of the model under loss, path failure and incast, beside go-back-N; reports/fabric
	$(BIN)/efa-cosim fabric-report $(if $(SEED),--seed $(SEED))

##@ Before a commit

quick: $(STAMP) simulators ## [quick] before each commit: lint without Yosys, fast model tests, unit benches of changed blocks
	$(BIN)/python tools/lint.py --quick
	$(QUICK) -n $(JOBS) -m 'not slow' model/tests $$($(BIN)/python -m tb.changed)

test: lint ## [long] everything that must hold before a commit lands; reports/test: the plan's verdicts
	$(PYTEST) -n $(JOBS) --plan --short model/tests tb

lint: $(STAMP) simulators ## [quick] generated files fresh, RTL through four tools, Python through three
	$(BIN)/python tools/lint.py

fmt: $(STAMP) ## [quick] format Verilog and Python
	$(BIN)/python tools/lint.py --fix

gen: $(STAMP) ## [quick] write headers, codecs and reference pages from spec/ and docstrings
	$(BIN)/python tools/gen.py

##@ Tests

model: $(STAMP) ## [long] tests of the model, the host's software and the generator, with all grids and rounds that make test shortens
	$(BIN)/pytest -q -n $(JOBS) model/tests tb/tests

unit: $(STAMP) simulators ## [long] unit benches, all or UNIT=name
	$(if $(UNIT),@$(CHOICES) unit '$(UNIT)')
	$(PYTEST) -n $(JOBS) tb/unit $(if $(UNIT),-k '$(UNIT)')

system: $(STAMP) simulators ## [long] the whole device, all areas and the cycle model, or TEST=area
	$(if $(TEST),@$(CHOICES) system '$(TEST)')
	$(PYTEST) -n $(JOBS) tb/system $(if $(TEST),-k '$(TEST)',tb/cycle)

icarus: $(STAMP) simulators ## [long] unit benches, the whole device and golden cycles on Icarus, long tests included
	$(BIN)/pytest -q --sim icarus --long -n $(JOBS) tb/unit tb/system tb/perf/test_golden.py

peer-fuzz: $(STAMP) ## [long] an untrusted node beside two devices: PACKETS=1000000 SIM=verilator|icarus; reports/peer_fuzz
	$(BIN)/python -m tb.peer_fuzz --packets $(or $(PACKETS),1000000) --sim $(or $(SIM),verilator) --seed $(or $(SEED),1)

faulty-fabrics: $(STAMP) simulators ## [long, six minutes] sends, writes and reads over each fabric file of sim/fabrics/faulty: SEED=1
	$(QUICK) -n $(JOBS) tb/system/test_faulty_fabrics.py

isolation-fuzz: $(STAMP) ## [long] an untrusted tenant beside a victim: STORES=1000000 BACKEND=model|verilator; reports/isolation_fuzz
	$(BIN)/python -m tb.isolation_fuzz --stores $(or $(STORES),1000000) --backend $(or $(BACKEND),model) --seed $(or $(SEED),1)

reset-soak: $(STAMP) ## [long, three to four minutes] a thousand device sessions on Verilator, each ended by a reset at a random moment
	$(BIN)/python -m tb.runner system reset_soak_long --sim verilator --seed $(or $(SEED),1)

##@ Proofs

formal: $(STAMP) ## [long] proofs of formal/, all or BLOCK=name; BUGS=1 plants a bug for each; reports/formal
	$(BIN)/python tools/formal.py --jobs $(JOBS) $(foreach block,$(BLOCK),--block $(block)) $(if $(BUGS),--bugs)

formal-fresh: $(STAMP) ## [long] nightly: every proof and every planted bug from nothing, compared with formal/proven.json
	$(BIN)/python tools/formal.py --jobs $(JOBS) --fresh
	$(BIN)/python tools/formal.py --jobs $(JOBS) --bugs

formal-quick: $(STAMP) ## [long, two to four minutes] the proofs of small sizes
	$(BIN)/python tools/formal.py --jobs $(JOBS) --quick

##@ Strength of the tests

cover: cover-system cover-code ## [long] functional coverage of the system tests, code coverage of the RTL

cover-system: $(STAMP) ## [long] what scenarios the system tests reached on Verilator, holes listed
	@rm -rf sim/out/coverage && mkdir -p sim/out/coverage
	EFA_COVERAGE=$(CURDIR)/sim/out/coverage $(BIN)/pytest -q --sim verilator $(if $(SEED),--seed $(SEED)) -n $(JOBS) tb/system/test_system.py
	$(BIN)/python tools/scenario_coverage.py sim/out/coverage

cover-control: $(STAMP) ## [long] random admin commands on Verilator until every command x status x ring place x version was hit
	@rm -rf sim/out/coverage_control && mkdir -p sim/out/coverage_control
	EFA_COVERAGE=$(CURDIR)/sim/out/coverage_control $(BIN)/python -m tb.runner system control_long --sim verilator --seed $(or $(SEED),1)
	$(BIN)/python tools/scenario_coverage.py sim/out/coverage_control nic.control nic.command.corrupted

cover-code: $(STAMP) ## [long] lines, branches, expressions, bits of the RTL that unit benches reach, of the wiring system tests, too; UNIT=name
	$(if $(UNIT),@$(CHOICES) unit '$(UNIT)')
	@rm -rf sim/out/code_coverage && mkdir -p sim/out/code_coverage
	EFA_CODE_COVERAGE=$(CURDIR)/sim/out/code_coverage $(BIN)/pytest -q --sim verilator \
		--seed $(or $(SEED),3) -n $(JOBS) tb/unit $(if $(UNIT),-k '$(UNIT)',tb/system/test_system.py)
	$(BIN)/python tools/code_coverage.py sim/out/code_coverage $(if $(UNIT),--some)

mutate: $(STAMP) ## [long] planted faults: blocks under unit benches, the wiring under system tests; BLOCK='efa_llq efa_nic.wiring' N=200 SEED=1, CLUSTER=tcp://host:8786; reports/mutate
	$(BIN)/python tools/mutate.py $(if $(BLOCK),--block $(BLOCK)) $(if $(N),--count $(N)) --seed $(or $(SEED),1) --jobs $(JOBS) $(if $(CLUSTER),--cluster $(CLUSTER))

check-mutation: $(STAMP) ## [long, three to ten minutes] each protection check of tb/check_mutations.yaml taken out by itself: its test must fail; CHECK='doorbell.*', CLUSTER=tcp://host:8786; reports/check_mutation
	$(BIN)/python tools/check_mutation.py $(if $(CHECK),--check $(CHECK)) $(if $(SEED),--seed $(SEED)) --jobs $(JOBS) $(if $(CLUSTER),--cluster $(CLUSTER))

flips: $(STAMP) ## [long] change each value of spec/ by itself: the golden values must notice; reports/flips/summary.json
	$(BIN)/python model/tests/flips.py

##@ Measurements

perf: $(STAMP) ## [long, a few minutes] rates and latencies against their targets, all rows or ROW='inline*'; reports/perf/index.html
	$(BIN)/python -m tb.perf.run $(if $(ROW),--row '$(ROW)')

waterfall: $(STAMP) ## [long] where the cycles of every message went, by service and named waits; reports/waterfall/index.html
	$(BIN)/efa-cosim waterfall $(if $(BACKEND),--backend $(BACKEND)) $(if $(SEED),--seed $(SEED))

sweep: $(STAMP) ## [long] sweep sizes and queues on the RTL, or a grid: FILE=sim/sweeps/host.yaml
	$(BIN)/efa-cosim sweep $(if $(FILE),$(FILE) --jobs $(JOBS) $(if $(CLUSTER),--cluster $(CLUSTER)))

regress: $(STAMP) ## [long] tests x seeds x simulators of a list: LIST=sim/regress/nightly.yaml, CLUSTER=tcp://host:8786; reports/regress-NAME
	$(BIN)/efa-cosim regress $(or $(LIST),sim/regress/quick.yaml) --jobs $(JOBS) $(if $(SEED),--seed $(SEED)) $(if $(CLUSTER),--cluster $(CLUSTER))

wc-lab: $(STAMP) ## [long] planted provider bugs under every store buffer, reports/wc_lab [CORRECT=1000 CLUSTER=tcp://host:8786]
	$(BIN)/efa-cosim lab --jobs $(JOBS) $(if $(SEED),--seed $(SEED)) $(if $(CORRECT),--correct $(CORRECT)) $(if $(CLUSTER),--cluster $(CLUSTER))

cluster-proof: $(STAMP) ## [long, ten to twenty minutes] a sweep and a regression on LocalCluster, on scheduler and workers, on Slurm, with kill -9 of each part: the tables of local processes, byte for byte; ON=slurm KILLS=6; reports/cluster_proof
	$(BIN)/python tools/cluster_proof.py $(if $(ON),--on $(ON)) $(if $(KILLS),--kills $(KILLS)) $(if $(SEED),--seed $(SEED))

cycle-grid: $(STAMP) ## [long] cycle model against RTL over a grid, or DRAWN=50 points of SEED; reports/cycle/summary.json
	$(BIN)/python -m tb.cycle.grid $(if $(DRAWN),--drawn $(DRAWN)) $(if $(SEED),--seed $(SEED)) --jobs $(JOBS) $(if $(CLUSTER),--cluster $(CLUSTER))

golden: $(STAMP) ## [long] write the golden cycle counts anew (tb/perf/golden.yaml) and print the differences
	$(BIN)/python -m tb.perf.golden

bench-sim: $(STAMP) ## [long] cycles per second of the whole device with everything checked
	$(BIN)/python -m tb.bench_sim

synth: $(STAMP) ## [long] cells, RAM bits and logic depth of each block, reports/synth/summary.json
	$(BIN)/python tools/synth.py --jobs $(JOBS)

fmax: $(STAMP) ## [long] MHz of each block, placed and routed between registers, all or BLOCK='efa_cq efa_eq'; RECORD=1 writes starts; reports/fmax
	$(BIN)/python tools/fmax.py --jobs $(JOBS) $(if $(BLOCK),--block $(BLOCK)) $(if $(RECORD),--record)

##@ Upkeep

lock: ## [quick] pin what is installed in .venv
	$(BIN)/python -m pip freeze --exclude-editable > requirements.lock

clean: ## [quick] forget builds and runs; .venv stays
	rm -rf sim/out reports
