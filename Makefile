# Short names for the scripts, which do the work and say what they need: scripts/NAME --help.
.PHONY: build quickstart test test-fast test-full results setup

build:
	scripts/build

quickstart:
	scripts/quickstart

setup:
	scripts/setup test

test:
	scripts/test

test-fast:
	scripts/test --fast

test-full:
	scripts/test --full

results:
	scripts/results
