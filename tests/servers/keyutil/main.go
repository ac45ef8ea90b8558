// keyutil says what kube-apiserver makes of key files, with the code that kube-apiserver reads them with: client-go's
// util/keyutil. For each path on its standard input it prints one line of JSON.
package main

import (
	"bufio"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/client-go/util/keyutil"
)

// verdict is the line printed for one file.
type verdict struct {
	// The key ids that --service-account-key-file gives, in its order.
	KeyFile []string `json:"keyFile"`
	// The key id that --service-account-signing-key-file gives, empty when it gives none.
	SigningFile string `json:"signingFile"`
	// The Go type of the signing key; kube-apiserver takes *rsa.PrivateKey and *ecdsa.PrivateKey.
	SigningType string `json:"signingType"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "keyutil:", err)
		os.Exit(1)
	}
}

func run() error {
	paths := bufio.NewScanner(os.Stdin)
	answers := json.NewEncoder(os.Stdout)
	for paths.Scan() {
		answer, err := judge(paths.Text())
		if err != nil {
			return err
		}
		if err := answers.Encode(answer); err != nil {
			return err
		}
	}
	return paths.Err()
}

func judge(path string) (verdict, error) {
	if _, err := os.Stat(path); err != nil {
		return verdict{}, err
	}
	answer := verdict{KeyFile: []string{}}
	// An error of either reader means that the file holds nothing for it.
	if keys, err := keyutil.PublicKeysFromFile(path); err == nil {
		for _, key := range keys {
			id, err := keyID(key)
			if err != nil {
				return verdict{}, err
			}
			answer.KeyFile = append(answer.KeyFile, id)
		}
	}
	if key, err := keyutil.PrivateKeyFromFile(path); err == nil {
		answer.SigningType = fmt.Sprintf("%T", key)
		switch key := key.(type) {
		case *rsa.PrivateKey:
			answer.SigningFile, err = keyID(key.Public())
		case *ecdsa.PrivateKey:
			answer.SigningFile, err = keyID(key.Public())
		}
		if err != nil {
			return verdict{}, err
		}
	}
	return answer, nil
}

// keyID is the key id of kube-apiserver: a digest of the PKIX encoding.
func keyID(key crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", err
	}
	digest := sha256.Sum256(der)
	return base64.RawURLEncoding.EncodeToString(digest[:]), nil
}
