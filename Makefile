# The only entry. `make demo` and `make test` are what a fresh machine needs; CI runs `make check` and `make test`.

CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/chancery
DENY_VERSION := 0.20.2
DENY := $(CACHE)/tools/cargo-deny-$(DENY_VERSION)/bin/cargo-deny
# What must never be linked into the offline tool.
OFFLINE := -p chancery --no-default-features --features keygen
# What the demo needs, so that it is built soon.
DEMO := -p chancery --no-default-features --features demo

# What the cluster runs: every target and source, and nothing that reads a private signing key.
SERVICE := -p chancery --no-default-features --features service
# What signs, beside a kube-apiserver: private keys, and no target, source or cloud.
SIGNER := -p chancery --no-default-features --features signer
# The workload's end: no SDK of a cloud.
EXCHANGE := -p chancery --no-default-features --features exchange
TARGET = $(shell cargo metadata --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')

.PHONY: demo prerequisites test servers soak check bench dist image

demo: ## the whole loop on this machine, until Ctrl-C
	@echo 'building; from empty caches this takes about four minutes on two cores' >&2
	@cargo run $(DEMO) -- demo

servers: ## fetch and build the real servers of the tests
	@tests/servers/install

prerequisites: ## says what of the programs that the tests need is missing
	@tests/prerequisites

# The program is built with the tests of its own package, `cli`, which are among them.
test: prerequisites servers ## every test, on real servers
	tests/suites $$(tests/servers/install --features)

soak: ## what takes longer: each rule taken away, an older Kubernetes, 20 rotations, readers of what others write, 300 objects, rights, the status page, Terraform
	tests/soak

check: $(DENY) ## format, lints, floors, dependency policy, docs
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo clippy $(OFFLINE) -- -D warnings
	cargo clippy $(DEMO) -- -D warnings
	cargo clippy $(SERVICE) -- -D warnings
	cargo clippy $(SIGNER) -- -D warnings
	cargo clippy $(EXCHANGE) -- -D warnings
	cargo test --workspace $$(tests/servers/install --features) --test floors
	core/tests/histories/removed_rules --check
	$(DENY) check bans licenses sources
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" cargo doc --workspace --no-deps --document-private-items --quiet

bench: dist ## ratios against nginx and openssl, memory, latencies; one run, printed
	bench/run

image: ## container images of the service and the signer, in dist/image: layouts, archives, parts, provenance
	image/build

# The whole tool comes last: it is what lies in cargo's folder afterwards.
dist: ## what ships, in dist/: the tool, the service for the cluster, the signer, man pages, completions
	cargo build --profile dist $(SERVICE)
	install -D $(TARGET)/dist/chancery dist/service/chancery
	cargo build --profile dist $(SIGNER)
	install -D $(TARGET)/dist/chancery dist/signer/chancery
	cargo build --profile dist -p chancery
	install -D $(TARGET)/dist/chancery dist/chancery
	mkdir -p dist/man dist/completions
	dist/chancery man --out-dir dist/man
	for shell in bash zsh fish; do dist/chancery completions $$shell >dist/completions/chancery.$$shell; done

$(DENY):
	cargo install cargo-deny --version $(DENY_VERSION) --locked --quiet --root $(CACHE)/tools/cargo-deny-$(DENY_VERSION)
