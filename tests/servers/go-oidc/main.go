// go-oidc is a relying party for the tests: it knows an issuer URL, an audience and a CA, and says of each
// token on its standard input whether it accepts it. The provider and the verifier live as long as the process,
// so keys are fetched and cached as in any Go program that uses the library.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

// One ServiceAccount token is about 1 KiB; a line above this is not a token.
const maxLine = 1 << 20

// verdict is the line printed for one token.
type verdict struct {
	Accepted bool   `json:"accepted"`
	Subject  string `json:"subject,omitempty"`
	Error    string `json:"error,omitempty"`
}

func main() {
	issuer := flag.String("issuer", "", "issuer URL, the only thing known about the issuer")
	audience := flag.String("audience", "", "audience that a token must name")
	ca := flag.String("ca", "", "PEM file of the CAs trusted for the issuer's host; empty means the system's")
	flag.Parse()
	if err := run(*issuer, *audience, *ca); err != nil {
		fmt.Fprintln(os.Stderr, "go-oidc:", err)
		os.Exit(1)
	}
}

func run(issuer, audience, ca string) error {
	if issuer == "" || audience == "" {
		return errors.New("--issuer and --audience are required")
	}
	client, err := httpClient(ca)
	if err != nil {
		return err
	}
	ctx := oidc.ClientContext(context.Background(), client)
	provider, err := oidc.NewProvider(ctx, issuer)
	if err != nil {
		return fmt.Errorf("read discovery of %s: %w", issuer, err)
	}
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(map[string]bool{"ready": true}); err != nil {
		return err
	}
	// Verifier of a provider takes the algorithms that the discovery document advertises.
	verifier := provider.Verifier(&oidc.Config{ClientID: audience})
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		token := strings.TrimSpace(lines.Text())
		if token == "" {
			continue
		}
		if err := out.Encode(judge(ctx, verifier, token)); err != nil {
			return err
		}
	}
	return lines.Err()
}

func judge(ctx context.Context, verifier *oidc.IDTokenVerifier, token string) verdict {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	verified, err := verifier.Verify(ctx, token)
	if err != nil {
		return verdict{Error: err.Error()}
	}
	return verdict{Accepted: true, Subject: verified.Subject}
}

func httpClient(ca string) (*http.Client, error) {
	client := &http.Client{Timeout: 10 * time.Second}
	if ca == "" {
		return client, nil
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("no certificate in %s", ca)
	}
	client.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	return client, nil
}
