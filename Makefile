# `make demo` and `make test` are all a fresh machine needs: they build .venv on first use.
# Another interpreter: make demo PYTHON=python3.12     From scratch: make clean

PYTHON  ?= python3
WORKERS ?= 2
CORPUS  ?= ../shared/corpus
REPORT  ?= demo-report

VENV := .venv
RUN  := $(VENV)/bin/python
INSTALL := -m pip install -qq --disable-pip-version-check --constraint constraints.txt
PYTEST := $(RUN) -m pytest -n $(WORKERS)
FAST := not slow and not hf and not gpu and not multi_gpu

.DELETE_ON_ERROR:
.PHONY: help demo test check lint format catalog compat clean

help:
	@echo "make demo     analyse the demo model and a catalog entry, run and validate the demo"
	@echo "make test     ruff, pyright and all tests that this machine can run"
	@echo "make check    ruff and the fast tests, under a minute"
	@echo "make lint     ruff and pyright"
	@echo "make format   let ruff rewrite what it can"
	@echo "make catalog  write day0/catalog again from $(CORPUS)"
	@echo "make compat   the torch-free tests on another Python: make compat PYTHON=python3.13"
	@echo "make clean    remove the environments and caches"

demo: $(VENV)/.ready
	@$(RUN) -m day0 analyze demo
	@$(RUN) -m day0 analyze catalog:zai-org--glm-5.3-flash
	@$(RUN) -m day0 run demo --max-new-tokens 16
	@$(RUN) -m day0 validate demo --device cpu --max-context 80 --repeats 2 \
	  --grid "batch=1,4;input=16,32;output=8" --out $(REPORT)

test: lint
	$(PYTEST)

check: $(VENV)/.ready-dev
	$(RUN) -m ruff check --quiet .
	$(PYTEST) -q -m "$(FAST)"

lint: $(VENV)/.ready-dev
	$(RUN) -m ruff check --quiet .
	$(RUN) -m ruff format --quiet --check .
	$(RUN) -m pyright --pythonpath $(RUN)

format: $(VENV)/.ready-dev
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

catalog: $(VENV)/.ready
	$(RUN) -m day0.catalog $(CORPUS)

# A stamp newer than what it depends on says that there is nothing to install.
$(VENV)/.ready: pyproject.toml constraints.txt $(VENV)/pyvenv.cfg
	@echo "installing day0 into $(VENV) (the first time takes a minute or two)" >&2
	@$(RUN) $(INSTALL) --editable .
	@touch $@

$(VENV)/.ready-dev: $(VENV)/.ready
	@echo "installing the tools for tests into $(VENV)" >&2
	@$(RUN) $(INSTALL) --editable '.[dev]'
	@touch $@

$(VENV)/pyvenv.cfg:
	@$(call need-python)
	@$(PYTHON) -m venv --clear $(VENV)

# Everything but torch and what stands on it, so that a further interpreter costs seconds.
COMPAT = .venv-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')

compat:
	@$(MAKE) --no-print-directory $(COMPAT)/.ready
	$(COMPAT)/bin/python -m pytest -n $(WORKERS) -q -m "$(FAST)"

.venv-%/.ready: pyproject.toml constraints.txt
	@$(call need-python)
	@echo "installing the torch-free part into $(@D)" >&2
	@$(PYTHON) -m venv --clear $(@D)
	@$(@D)/bin/python -c 'import tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	  print(*(need for need in project["dependencies"] + project["optional-dependencies"]["dev"] \
	  if not need.startswith(("torch", "triton", "transformers", "pyright", "ruff"))), sep="\n")' \
	  > $(@D)/requirements.txt
	@$(@D)/bin/python $(INSTALL) --requirement $(@D)/requirements.txt
	@touch $@

define need-python
$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
  echo "error: $(PYTHON) is not Python 3.11 or newer, which day0 needs" >&2; \
  echo "hint: name one, for example: make PYTHON=python3.12 demo" >&2; exit 1; }
endef

clean:
	rm -rf .venv .venv-* .hypothesis .pytest_cache .ruff_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
