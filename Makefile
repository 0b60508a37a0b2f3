# make demo    shows the main job working: an application document in, running taskgroups out (under a minute)
# make test    sets up ZooKeeper and a real Mesos for the tests (Debian packages, needs root once) and runs the tests
#              in five processes (on two cores: most of them wait); PYTEST_ARGS="-n 0" runs them one by one. Of the tests
#              that take long and rarely fail, the commit chooses a twelfth; SHARE=0 to SHARE=11 chooses another one
# make test-full   all tests with all random cases, and others in every run: before a release
# make check   lint, the fast tests and a short simulation: two minutes, for every change
# make coverage   the share of lines and branches that unit tests, component tests and the simulation run
# make deb, make image   build a Debian package into dist/, and a container image with the engine that `docker` reaches
# make release-check   builds the packages of a release, installs and starts them; RELEASE_ARGS=--draft before the release
# make soak MINUTES=30   faults on a real Mesos and a real ensemble for that long; one rule is checked after every round;
#              SOAK_ARGS="--placeholders reserve" adds queues, gangs and reservations in a full cluster
# Others: venv lint bench executor proto mesos clean. Needs Debian or Ubuntu with Python 3.11+ and make.

PYTHON ?= python3
PYTEST_ARGS ?= -n 5
BENCH_ARGS ?=
MINUTES ?= 30
RELEASE_ARGS ?=
SOAK_ARGS ?=
SHARE ?=
export SHARE

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEV_READY := $(VENV)/.dev-ready
COMPILED := $(VENV)/.tests-compiled
ARCHIVE := build/zookeeper.jsa
MESOS := tests/integration/mesos
# Without its dependencies: one of them does not compile (docs/decisions/0036-foreign-frameworks.md).
PYMESOS := pymesos>=0.3.15
SPECTRAL := 6.16.3
ROOMS := store offers transactions bcs_scheduler tests benchmarks
# Tools that take long to build lie outside of the clone: the next clone on this machine has them at once.
export TOOLS_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/bcs-scheduler

export DEBIAN_FRONTEND := noninteractive
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help venv ready tools debian demo test test-full check coverage release-check deb image soak haproxy chromium engine mmdebstrap spectral newest lint format bench executor proto mesos clean
.DELETE_ON_ERROR:

help:
	@sed -n '1,/^$$/s/^# //p' Makefile

venv: $(READY)

define make_environment
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Python 3.11 or newer is needed; $(PYTHON) is $$($(PYTHON) -V 2>&1). Set PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "Python's venv module is missing. Install it: apt-get install python3-venv" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
endef

$(READY): setup.cfg pyproject.toml
	$(make_environment)
	@echo "Installing the Python packages into $(VENV): once, in about a minute."
	$(BIN)/python -m pip install --quiet -e '.[test]'
	$(BIN)/python -m pip install --quiet --no-deps --use-pep517 '$(PYMESOS)'
	@touch $@

# Installs the packages of $(READY) too: one run of pip for both.
$(DEV_READY): setup.cfg pyproject.toml
	$(make_environment)
	@echo "Installing the Python packages into $(VENV): once, in about a minute."
	$(BIN)/python -m pip install --quiet -e '.[test,dev]'
	$(BIN)/python -m pip install --quiet --no-deps --use-pep517 '$(PYMESOS)'
	@touch $(READY) $@

# All that lint and tests need. `make -j2 ready` installs packages of Python and compiles the tests, and installs
# packages of Debian and of npm, at the same time.
ready: $(COMPILED) tools newest $(ARCHIVE)

tools: debian
	@$(MAKE) --no-print-directory mesos haproxy chromium engine mmdebstrap spectral

# In a clean clone each process of `make test` would compile all tests, because the processes start together.
$(COMPILED): $(DEV_READY)
	@mkdir -p build
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --collect-only -qq >build/collected.log 2>&1 || \
		{ tail -40 build/collected.log; exit 1; }
	@touch $@

# The classes of ZooKeeper in one file: its servers start with less processor time. They start without the file, too.
$(ARCHIVE): tests/integration/zookeeperarchive.py $(wildcard /usr/share/java/zookeeper.jar) | $(DEV_READY) debian
	@key=$$({ cat $<; java -version 2>&1; ls -lL --time-style=full-iso /usr/share/java/zookeeper.jar; } | sha256sum | cut -c1-16); \
	kept=$(TOOLS_CACHE)/zookeeper-$$key; mkdir -p build; \
	test -d $$kept || { $(BIN)/python -m tests.integration.zookeeperarchive && mkdir -p $$kept.new && \
		cp build/zookeeper*.jsa $$kept.new && mv $$kept.new $$kept; }; \
	cp $$kept/*.jsa build || echo "no archive of ZooKeeper's classes: its servers start more slowly"

# Missing packages of Debian, all at once. Its targets below install what they need by themselves.
debian:
	@need=; for name in $$($(MESOS)/setup.sh packages) haproxy chromium chromium-driver docker.io busybox-static mmdebstrap; do \
		dpkg -s $$name >/dev/null 2>&1 || need="$$need $$name"; done; \
	test -z "$$need" || { mkdir -p build; \
		{ apt-get update -qq && apt-get install -y -qq --no-install-recommends $$need; } >build/debian.log 2>&1 || \
		{ cat build/debian.log; echo "Debian packages are missing and can be installed by root only:$$need" >&2; exit 1; }; }

demo: $(READY)
	@$(BIN)/python -m bcs_scheduler.demo

# The last line printed is pytest's own summary. Hundreds of processes are started: none compiles again what another has.
test test-full: export PYTHONDONTWRITEBYTECODE :=
test: export EFFORT := rotate
test-full: export EFFORT := full
test test-full: $(READY) mesos haproxy chromium engine mmdebstrap spectral
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

# Fast tests need neither ZooKeeper nor Mesos, and start no thread, process or server (tests/unit/conftest.py). Schemathesis
# serves integration tests only, and each process would import it for two seconds.
check: export PYTHONDONTWRITEBYTECODE :=
check: lint
	@EFFORT=check $(BIN)/python -m pytest -q -n 2 -p no:schemathesis -m "not slow" tests/unit
	@$(BIN)/python -m tests.simulation --seeds 20 --steps 300 --jobs 2

# Mutants of the simulation and tests of costs are left out: the former are not the program, the latter would measure
# the measurement.
coverage: $(DEV_READY)
	@$(BIN)/python -m pytest -q -n 2 --timeout 1500 -m "not slow and not costs" -k "not mutants" --cov --cov-report=json:build/coverage.json \
		tests/unit tests/component tests/simulation
	@$(BIN)/python -m tests.coverage_table build/coverage.json

release-check: $(DEV_READY)
	@$(BIN)/python -m tests.release_check $(RELEASE_ARGS)

# docs/installation.md
deb: $(READY)
	@packaging/build.sh deb

image: $(READY) mmdebstrap
	@packaging/build.sh image

soak: $(READY) mesos
	@$(BIN)/python -m tests.integration.soak --minutes $(MINUTES) $(SOAK_ARGS)

# Files of the project only: what a user writes beside them in the clone is no concern of the checks.
lint: $(DEV_READY)
	$(BIN)/ruff check $(ROOMS) conf
	$(BIN)/ruff format --check $(ROOMS) conf
	$(BIN)/mypy --cache-dir $(TOOLS_CACHE)/mypy $(ROOMS)
	$(BIN)/lint-imports --no-cache

format: $(DEV_READY)
	$(BIN)/ruff check --fix $(ROOMS) conf
	$(BIN)/ruff format $(ROOMS) conf

bench: $(READY) mesos
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

# The executor as one file, for agents that shall not fetch it from the scheduler.
executor: $(READY)
	@$(BIN)/python -m bcs_scheduler.executor_file dist/bcs-executor.pyz

# Makes the Python modules of the Mesos messages from the .proto files again.
proto: $(DEV_READY)
	$(BIN)/python -m bcs_scheduler.mesos.proto.generate

# A real Mesos and ZooKeeper for the integration tests.
mesos:
	@mkdir -p build
	@$(MESOS)/setup.sh >build/mesos.log 2>&1 || { cat build/mesos.log; \
		test "$$(id -u)" = 0 || echo "Missing Debian packages can be installed by root only. As root, once: make mesos" >&2; \
		exit 1; }

# A real load balancer for the integration tests, which run it themselves.
haproxy:
	@test -x /usr/sbin/haproxy || { apt-get update -qq && apt-get install -y -qq --no-install-recommends haproxy >/dev/null; } || { \
		echo "HAProxy is missing and can be installed by root only. As root, once: make haproxy" >&2; exit 1; }

# A real browser for the tests of the console, headless.
chromium:
	@test -x /usr/bin/chromedriver || { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium chromium-driver >/dev/null; } || { \
		echo "Chromium is missing and can be installed by root only. As root, once: make chromium" >&2; exit 1; }

# A real container engine for the integration tests, which run it themselves, and the program of its only image.
engine:
	@test -x /usr/sbin/dockerd -a -x /bin/busybox || { apt-get update -qq && \
		apt-get install -y -qq --no-install-recommends docker.io busybox-static >/dev/null; } || { \
		echo "docker.io is missing and can be installed by root only. As root, once: make engine" >&2; exit 1; }

# Builds the base system of the container image.
mmdebstrap:
	@test -x /usr/bin/mmdebstrap || { apt-get update -qq && apt-get install -y -qq --no-install-recommends mmdebstrap >/dev/null; } || { \
		echo "mmdebstrap is missing and can be installed by root only. As root, once: make mmdebstrap" >&2; exit 1; }

# The newest versions of the dependencies, for tests of what users see in terminals. The tests do it too.
newest: $(DEV_READY)
	@$(BIN)/python -m tests.integration.newest

# Spectral, which checks OpenAPI documents, for the integration tests. It needs Node; its scripts of installation report
# to its makers only, and are not run.
spectral: build/spectral-$(SPECTRAL)

build/spectral-$(SPECTRAL): | $(TOOLS_CACHE)/spectral-$(SPECTRAL)
	@rm -rf build/spectral-*
	@mkdir -p build
	@ln -s $(TOOLS_CACHE)/spectral-$(SPECTRAL) $@

$(TOOLS_CACHE)/spectral-$(SPECTRAL):
	@command -v npm >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends nodejs npm >/dev/null; } || { \
		echo "npm is missing and can be installed by root only. As root, once: make spectral" >&2; exit 1; }
	@rm -rf $@.new
	@mkdir -p $@.new
	@npm install --prefix $@.new --ignore-scripts --no-audit --no-fund --no-save --loglevel=error \
		@stoplight/spectral-cli@$(SPECTRAL) >$@.new/npm.log 2>&1 || { cat $@.new/npm.log; rm -rf $@.new; exit 1; }
	@mv $@.new $@

clean:
	rm -rf $(VENV) build dist *.egg-info .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
