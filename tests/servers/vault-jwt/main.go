// vault-jwt is the JWT auth method of Vault without the Vault around it: the plugin's own code behind the paths and
// statuses of Vault's HTTP API, mounted at auth/jwt, with its storage in memory. There are no policies: whoever has
// the one token may do everything.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	jwtauth "github.com/hashicorp/vault-plugin-auth-jwt"
	"github.com/hashicorp/vault/sdk/logical"
)

const mount = "/v1/auth/jwt/"

type server struct {
	backend logical.Backend
	storage logical.Storage
	token   string
}

func main() {
	listen := flag.String("listen", "", "HOST:PORT to serve plain HTTP on")
	token := flag.String("token", "", "the token that may configure the method")
	flag.Parse()
	if err := run(*listen, *token); err != nil {
		fmt.Fprintln(os.Stderr, "vault-jwt:", err)
		os.Exit(1)
	}
}

func run(listen, token string) error {
	if listen == "" || token == "" {
		return errors.New("--listen and --token are required")
	}
	ctx := context.Background()
	storage := &logical.InmemStorage{}
	backend, err := jwtauth.Factory(ctx, &logical.BackendConfig{
		Logger:      hclog.NewNullLogger(),
		System:      &logical.StaticSystemView{DefaultLeaseTTLVal: time.Hour, MaxLeaseTTLVal: 24 * time.Hour},
		StorageView: storage,
	})
	if err != nil {
		return fmt.Errorf("make the auth method: %w", err)
	}
	if err := backend.Initialize(ctx, &logical.InitializationRequest{Storage: storage}); err != nil {
		return fmt.Errorf("initialize the auth method: %w", err)
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	return http.Serve(listener, &server{backend, storage, token})
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, ok := strings.CutPrefix(r.URL.Path, mount)
	if !ok {
		refuse(w, http.StatusNotFound, fmt.Sprintf("no handler for route %q. route entry not found.", r.URL.Path))
		return
	}
	if path != "login" && r.Header.Get("X-Vault-Token") != s.token {
		refuse(w, http.StatusForbidden, "permission denied")
		return
	}
	request := &logical.Request{
		Path:       path,
		Storage:    s.storage,
		Data:       map[string]any{},
		Connection: &logical.Connection{RemoteAddr: "127.0.0.1"},
	}
	switch r.Method {
	case http.MethodGet:
		request.Operation = logical.ReadOperation
	case http.MethodPost, http.MethodPut:
		request.Operation = logical.UpdateOperation
		decoder := json.NewDecoder(r.Body)
		decoder.UseNumber()
		if err := decoder.Decode(&request.Data); err != nil && !errors.Is(err, io.EOF) {
			refuse(w, http.StatusBadRequest, "failed to parse JSON input: "+err.Error())
			return
		}
	default:
		refuse(w, http.StatusMethodNotAllowed, "unsupported operation")
		return
	}
	// Vault asks first whether the object is there: what is not is created. The configuration answers no such question.
	if request.Operation == logical.UpdateOperation {
		checked, exists, err := s.backend.HandleExistenceCheck(r.Context(), request)
		if err == nil && checked && !exists {
			request.Operation = logical.CreateOperation
		}
	}
	response, err := s.backend.HandleRequest(r.Context(), request)
	s.answer(w, request, response, err)
}

func (s *server) answer(w http.ResponseWriter, request *logical.Request, response *logical.Response, err error) {
	if status, err := logical.RespondErrorCommon(request, response, err); status != 0 {
		if err == nil {
			writeJSON(w, status, map[string]any{"errors": []string{}})
			return
		}
		refuse(w, status, err.Error())
		return
	}
	if response == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	writeJSON(w, http.StatusOK, logical.LogicalResponseToHTTPResponse(response))
}

func refuse(w http.ResponseWriter, status int, text string) {
	writeJSON(w, status, map[string]any{"errors": []string{text}})
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
