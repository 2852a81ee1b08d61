# The two commands are `make demo` and `make test`; each does all its own set-up. `make help` lists the rest.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

CARGO ?= cargo
CC ?= cc
PREFIX ?= /usr/local
# Kernel style, and no warning left standing.
WORKLOAD_CFLAGS := -std=gnu11 -O2 -Wall -Wextra -Werror -pthread

workload_sources := $(wildcard workloads/*.c workloads/subsystems/*.c)
workload_binaries := $(patsubst %.c,target/workloads/%,$(notdir $(workload_sources)))

.PHONY: help setup build workloads pages install uninstall deb dist image test-image gallery site demo demo-program demo-known page test-page test test-sweep test-python test-spark test-killed test-slurm test-regression fresh lint figures bench cases check-findings sweep \
	hardware survey sweep-report mutants fuzz clean clean-cache

help: ## this list
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

setup: ## get what demo and test need from this machine's apt sources (idempotent)
	@scripts/setup.sh test

workloads: $(workload_binaries) ## compile the workloads into target/workloads

target/workloads/%: workloads/%.c $(wildcard workloads/*.h)
	@mkdir -p $(@D)
	$(CC) $(WORKLOAD_CFLAGS) -o $@ $<

target/workloads/%: workloads/subsystems/%.c $(wildcard workloads/*.h)
	@mkdir -p $(@D)
	$(CC) $(WORKLOAD_CFLAGS) -o $@ $<

build: workloads ## compile everything, optimised
	$(CARGO) build --release -p linemate -p linemate-recorder

pages: build ## the same, with the program that writes manual pages and shell completions
	$(CARGO) build --release -p linemate --example pages

# Under sudo, cargo is mostly out of sight: what is built is taken as it is then.
install: ## into PREFIX (/usr/local), below DESTDIR: after `make pages`, or where cargo is found
	@if command -v $(CARGO) >/dev/null; then $(MAKE) --no-print-directory pages; fi
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' scripts/install.sh install

deb: ## a Debian package for the release that this runs on, in target/deb
	@scripts/setup.sh deb
	@$(MAKE) --no-print-directory pages
	@scripts/sbom.py >target/linemate.cdx.json
	@debian/rules clean binary

dist: ## the source archive, what it depends on and checksums, in target/dist; the same commit gives the same bytes
	@scripts/dist.sh

image: ## a container image with QEMU, linemate and one kernel, for podman (IMAGE, linemate)
	@scripts/setup-beside.sh image $(MAKE) --no-print-directory pages
	@scripts/image.sh $(or $(IMAGE),linemate)

test-image: image ## the image records without root, privileges and /dev/kvm, and is small
	@scripts/test-image.sh $(or $(IMAGE),linemate)

uninstall: ## remove what `make install` put there
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' scripts/install.sh uninstall

gallery: ## the pages of the site's gallery, of the five works and the findings, recorded (half an hour; PICTURES=yes: the pictures of docs/guide, too)
	@scripts/setup-beside.sh test $(MAKE) --no-print-directory build
	@scripts/gallery.py pages target/gallery
	@[ -e known.html ] || scripts/demo-known.sh
	@[ -z '$(PICTURES)' ] || scripts/gallery.py pictures target/gallery

site: $(if $(filter no,$(GALLERY)),,gallery) ## the documents as a site in target/site/html, with a search and the gallery; reads without a network (GALLERY=no: the pages that are there)
	@scripts/setup.sh site
	@scripts/site.py stage target/site/source $$(ls target/gallery/*.html known.html linemate.html 2>/dev/null || true)
	@target/site-venv/bin/sphinx-build -q -W --keep-going -j auto -b html -d target/site/doctrees target/site/source target/site/html
	@scripts/site.py check target/site/html

demo: ## record Debian's 6.12 kernel under a scheduling workload, show which fields of struct rq are hot
	@scripts/setup-beside.sh demo $(MAKE) --no-print-directory build
	@scripts/demo.sh

demo-program: ## the same for a program: record a small server, find which of its fields should not share a line, mend it
	@scripts/setup-beside.sh demo $(MAKE) --no-print-directory build
	@scripts/demo-program.sh

demo-known: ## find a fix that Linux has made since: threads that read one file on Debian's 6.12 (CPUS, 16)
	@scripts/setup-beside.sh demo $(MAKE) --no-print-directory build
	@scripts/demo-known.sh

page: ## build the asset of --html from web/ again (Node; the built one is committed, so that nothing else needs it)
	@scripts/setup.sh page
	@npm --prefix web ci --no-audit --no-fund --loglevel error
	@npm --prefix web run --silent check
	@npm --prefix web run --silent build

test-page: ## the page of --html in headless Chromium, and that the committed asset is what web/ gives
	@scripts/setup.sh page
	@scripts/test-page.sh

test: ## all tests; those that boot a kernel run one at a time
	@scripts/setup-beside.sh test scripts/test.sh build
	@scripts/test.sh

test-sweep: ## the tables of `linemate export` in DuckDB, pandas and Polars, the queries of sweep/, and the module in python/
	@scripts/setup-beside.sh sweep $(MAKE) --no-print-directory build
	@scripts/test-sweep.sh readers

test-python: ## the module in python/, alone: types, tests, and its notebook (test-sweep has it, too)
	@scripts/setup-beside.sh sweep $(MAKE) --no-print-directory build
	@scripts/test-sweep.sh python

test-spark: ## the tables in Spark; says so where there is no Java
	@scripts/setup-beside.sh sweep $(MAKE) --no-print-directory build
	@scripts/test-sweep.sh spark

test-killed: ## a small sweep that is killed twice and resumed gives the same bytes (ten minutes)
	@scripts/setup-beside.sh sweep $(MAKE) --no-print-directory build
	@scripts/test-sweep.sh killed

test-slurm: ## a small sweep on a Slurm of two nodes on this machine gives the same bytes; says so where there is no Slurm
	@scripts/setup-beside.sh sweep $(MAKE) --no-print-directory build
	@scripts/test-sweep.sh slurm

test-regression: ## a regression that is put into a kernel is what the sweep's query finds, alone (an hour; two kernels are built)
	@scripts/setup.sh cases
	@scripts/setup-beside.sh sweep $(MAKE) --no-print-directory build
	@scripts/test-sweep.sh regression

fresh: ## `make demo` and `make test` in a fresh clone on a minimal Debian 12, in a chroot (SUITE=trixie: 13); needs root
	@scripts/fresh.sh $(or $(SUITE),bookworm) demo test

lint: ## format, clippy, documentation, shell scripts and this project's own rules; warnings are errors
	@scripts/setup.sh lint
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --document-private-items
	shellcheck -x $$(git ls-files 'scripts/*.sh' 'workloads/*.sh' 'cases/*.sh' .ci/run)
	scripts/style.sh

figures: ## evidence/README.md of the evidence, and the measures of docs/internals/house.md of the code
	@scripts/evidence.py
	@cd scripts && python3 -m house --write

bench: ## the figures of evidence/benchmarks.md on this machine, as markdown
	@scripts/setup.sh test
	@$(MAKE) --no-print-directory build
	@scripts/bench.sh

cases: ## the five published works in full: kernels are built, booted and recorded (hours; resumes after an interruption; SWEEP_PROFILE)
	@scripts/setup.sh cases
	@$(MAKE) --no-print-directory build
	@failed=0; profile=$${SWEEP_PROFILE:-local}; [ "$$profile" != kubernetes ] || profile=sweep/profiles/kubernetes; \
	for case in $$(find cases -name case.toml | sort); do \
		target/release/linemate case run --profile "$$profile" "$${case%/case.toml}" || failed=1; \
	done; exit $$failed

sweep: ## the matrix of sweep/sweep.yaml, recorded, replayed, exported (48 recordings; resumes after an interruption; SWEEP_OUT, SWEEP_PROFILE)
	@scripts/setup-beside.sh sweep $(MAKE) --no-print-directory build
	@scripts/sweep.sh run

survey: ## the workloads of workloads/subsystems on Linux 7.3, and what could be changed in it, ranked (hours; resumes after an interruption; SURVEY_OUT)
	@scripts/setup-beside.sh sweep $(MAKE) --no-print-directory build
	@scripts/survey.sh

hardware: ## changes that others measured on hardware: recorded and predicted (cases/hardware; hours); recordings that exist are used again
	@scripts/setup-beside.sh demo $(MAKE) --no-print-directory build
	@scripts/hardware.py predict
	@echo 'hardware: commit cases/hardware/predictions.json, then compare: scripts/hardware.py table'

check-findings: ## Linux 7.3 with the patches of cases/next, lockdep and KASAN, under the workloads that they are for (half an hour)
	@scripts/setup.sh cases
	@$(MAKE) --no-print-directory build
	@scripts/check-findings.sh

sweep-report: ## what a sweep found, as markdown and as a page
	@scripts/setup.sh sweep
	@scripts/sweep.sh report

mutants: ## one mutant in fifteen of six crates, each with the crate's own tests (half an hour; MUTANTS_SHARD=0)
	@scripts/setup.sh test
	@scripts/mutants.sh

fuzz: ## every fuzz target, a minute each (FUZZ_SECONDS=60)
	@scripts/setup.sh fuzz
	@scripts/fuzz.sh

clean: ## remove what was built; downloaded kernels and boot snapshots stay in the cache
	$(CARGO) clean
	rm -rf fuzz/target

clean-cache: ## remove boot snapshots (some 100 MB per kernel and shape of machine): the next recording boots again
	rm -rf "$${LINEMATE_CACHE:-$${XDG_CACHE_HOME:-$$HOME/.cache}/linemate}/snapshots"
