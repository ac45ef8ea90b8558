# The only entry. `make demo` and `make test` are what a fresh machine needs; CI runs `make check` and `make test`.

CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/chancery
DENY_VERSION := 0.20.2
DENY := $(CACHE)/tools/cargo-deny-$(DENY_VERSION)/bin/cargo-deny
# What must never be linked into the offline tool.
OFFLINE := -p chancery --no-default-features --features keygen
# What the demo needs, so that it is built soon.
DEMO := -p chancery --no-default-features --features demo

.PHONY: demo test servers check bench dist

demo: ## the whole loop on this machine, until Ctrl-C
	@cargo run --quiet $(DEMO) -- demo

servers: ## fetch and build the real servers of the tests
	@tests/servers/install

# The program is built first: cargo does not build it for the tests of another package.
test: servers ## every test, on real servers
	cargo build --workspace
	cargo test --workspace

check: $(DENY) ## format, lints, floors, dependency policy, docs
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo clippy $(OFFLINE) -- -D warnings
	cargo clippy $(DEMO) -- -D warnings
	cargo test --workspace --test floors
	$(DENY) check bans licenses sources
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" cargo doc --workspace --no-deps --document-private-items --quiet

bench: dist ## ratios against nginx and openssl, memory, latencies; one run, printed
	bench/run

dist:
	cargo build --profile dist -p chancery

$(DENY):
	cargo install cargo-deny --version $(DENY_VERSION) --locked --quiet --root $(CACHE)/tools/cargo-deny-$(DENY_VERSION)
