// jwx is a relying party for the tests, built on the cached key set of github.com/lestrrat-go/jwx: it knows an issuer
// URL, an audience and a CA, and says of each token on its standard input whether it accepts it.
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

	"github.com/lestrrat-go/httprc/v3"
	"github.com/lestrrat-go/jwx/v3/jwk"
	"github.com/lestrrat-go/jwx/v3/jwt"
)

// verdict is the line printed for one token.
type verdict struct {
	Accepted bool   `json:"accepted"`
	Subject  string `json:"subject,omitempty"`
	Error    string `json:"error,omitempty"`
}

func main() {
	issuer := flag.String("issuer", "", "issuer URL, the only thing known about the issuer")
	audience := flag.String("audience", "", "audience that a token must name")
	ca := flag.String("ca", "", "PEM file of the CAs trusted for the issuer's host")
	flag.Parse()
	if err := run(*issuer, *audience, *ca); err != nil {
		fmt.Fprintln(os.Stderr, "jwx:", err)
		os.Exit(1)
	}
}

func run(issuer, audience, ca string) error {
	ctx := context.Background()
	client, err := httpClient(ca)
	if err != nil {
		return err
	}
	uri, err := jwksURI(client, issuer)
	if err != nil {
		return fmt.Errorf("read discovery of %s: %w", issuer, err)
	}
	cache, err := jwk.NewCache(ctx, httprc.NewClient(httprc.WithHTTPClient(client)))
	if err != nil {
		return err
	}
	if err := cache.Register(ctx, uri, jwk.WithHTTPClient(client)); err != nil {
		return err
	}
	keys, err := cache.CachedSet(uri)
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(map[string]bool{"ready": true}); err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		token, err := jwt.ParseString(strings.TrimSpace(lines.Text()),
			jwt.WithKeySet(keys), jwt.WithIssuer(issuer), jwt.WithAudience(audience))
		answer := verdict{Accepted: err == nil}
		if err != nil {
			answer.Error = err.Error()
		} else {
			answer.Subject, _ = token.Subject()
		}
		if err := out.Encode(answer); err != nil {
			return err
		}
	}
	return lines.Err()
}

func jwksURI(client *http.Client, issuer string) (string, error) {
	response, err := client.Get(issuer + "/.well-known/openid-configuration")
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var document struct {
		Issuer  string `json:"issuer"`
		JWKSURI string `json:"jwks_uri"`
	}
	if err := json.NewDecoder(response.Body).Decode(&document); err != nil {
		return "", err
	}
	if document.Issuer != issuer {
		return "", fmt.Errorf("it names the issuer %s", document.Issuer)
	}
	return document.JWKSURI, nil
}

func httpClient(ca string) (*http.Client, error) {
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, errors.New("no certificate in " + ca)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	return &http.Client{Timeout: 10 * time.Second, Transport: transport}, nil
}
