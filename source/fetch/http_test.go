package fetch

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHTTPRefusals(t *testing.T) {
	root := t.TempDir()
	withCommit(t, root, "tenants.git")
	closed := serveHTTP(t, root, withAuth("ada", "s3cret"))
	identity, _ := newIdentity(t, "")
	secret := func(pairs ...string) map[string][]byte {
		data := map[string][]byte{}
		for i := 0; i < len(pairs); i += 2 {
			data[pairs[i]] = []byte(pairs[i+1])
		}
		return data
	}
	for name, c := range map[string]struct {
		url         string
		secret      map[string][]byte
		want        Reason
		wantMessage string
	}{
		"no password":                 {want: AuthenticationFailed, wantMessage: "asks for credentials"},
		"wrong password":              {secret: secret("username", "ada", "password", "hunter2"), want: AuthenticationFailed, wantMessage: "refuses the credentials"},
		"wrong token":                 {secret: secret("bearerToken", "hunter2"), want: AuthenticationFailed, wantMessage: "refuses the credentials"},
		"username without password":   {secret: secret("username", "ada"), want: InvalidCredentials, wantMessage: "no password"},
		"password without username":   {secret: secret("password", "hunter2"), want: InvalidCredentials, wantMessage: "no username"},
		"token and username":          {secret: secret("username", "ada", "password", "x", "bearerToken", "hunter2"), want: InvalidCredentials, wantMessage: "both"},
		"an empty Secret":             {secret: secret(), want: InvalidCredentials, wantMessage: "it has nothing"},
		"a Secret for ssh":            {secret: map[string][]byte{keyIdentity: identity, keyKnownHosts: []byte("x")}, want: InvalidCredentials, wantMessage: "identity, known_hosts"},
		"a Secret for a GitHub App":   {secret: secret("githubAppID", "1"), want: InvalidCredentials, wantMessage: "not supported yet"},
		"control characters":          {secret: secret("username", "ada", "password", "hunter2\nX-Evil: 1"), want: InvalidCredentials, wantMessage: "control"},
		"certificates for plain http": {secret: secret("ca.crt", "x"), want: InvalidCredentials, wantMessage: "https://"},
		"ca.crt is no certificate":    {url: "https://127.0.0.1:1/x", secret: secret("ca.crt", "x"), want: InvalidCredentials, wantMessage: "ca.crt"},
		"caFile is no certificate":    {url: "https://127.0.0.1:1/x", secret: secret("caFile", "x"), want: InvalidCredentials, wantMessage: "caFile"},
		"tls.crt without tls.key":     {url: "https://127.0.0.1:1/x", secret: secret("tls.crt", "x"), want: InvalidCredentials, wantMessage: "no tls.key"},
		"tls.key without tls.crt":     {url: "https://127.0.0.1:1/x", secret: secret("tls.key", "hunter2"), want: InvalidCredentials, wantMessage: "no tls.crt"},
		"tls.crt is no certificate":   {url: "https://127.0.0.1:1/x", secret: secret("tls.crt", "x", "tls.key", "hunter2"), want: InvalidCredentials, wantMessage: "not a key pair"},
		"a Secret for a folder":       {url: root + "/tenants.git", secret: secret("username", "ada"), want: InvalidCredentials, wantMessage: "needs no Secret"},
	} {
		t.Run(name, func(t *testing.T) {
			r := Remote{URL: closed + "/tenants.git", Secret: c.secret}
			if c.url != "" {
				r.URL = c.url
			}
			_, err := Look(testContext(t), r)
			e := requireError(t, err, c.want)
			require.True(t, e.Stalled)
			require.Contains(t, e.Message, c.wantMessage)
			require.NotContains(t, e.Message, "hunter2")
			_, err = Fetch(testContext(t), r, Head{Branch: "main"}, Limits{})
			requireError(t, err, c.want)
		})
	}
}

func TestHTTPAnswers(t *testing.T) {
	secret := map[string][]byte{keyUsername: []byte("ada"), keyPassword: []byte("hunter2")}
	for name, c := range map[string]struct {
		code        int
		kind, body  string
		anonymous   bool
		want        Reason
		wantStalled bool
		wantMessage string
	}{
		"401": {code: 401, want: AuthenticationFailed, wantStalled: true},
		"403": {code: 403, want: AuthenticationFailed, wantStalled: true, wantMessage: "refuses the credentials (HTTP 403)"},
		"403 to nobody in particular": {code: 403, anonymous: true, want: AuthenticationFailed, wantStalled: true,
			wantMessage: "forbids reading it without credentials (HTTP 403): check the URL"},
		"why, in plain text":        {code: 503, kind: "text/plain; charset=utf-8", body: "back at\nnoon", want: RepositoryUnreachable, wantMessage: "(HTTP 503: back at noon)"},
		"a page":                    {code: 503, kind: "text/html", body: "back at noon", want: RepositoryUnreachable, wantMessage: "(HTTP 503)"},
		"a dump":                    {code: 500, kind: "application/json", body: "{}", want: RepositoryUnreachable, wantMessage: "(HTTP 500)"},
		"404":                       {code: 404, want: RepositoryNotFound, wantStalled: true},
		"429":                       {code: 429, want: RepositoryUnreachable},
		"503":                       {code: 503, want: RepositoryUnreachable},
		"418":                       {code: 418, want: FetchFailed},
		"echoes the credentials":    {code: 403, kind: "text/plain", body: "ada:hunter2 YWRhOmh1bnRlcjI= hunter2\nis not allowed", want: AuthenticationFailed, wantStalled: true},
		"an endless page":           {code: 500, kind: "text/plain", body: strings.Repeat("hunter2 ", 1<<20), want: RepositoryUnreachable},
		"refs that are no pkt-line": {code: 200, body: "zzzz", want: FetchFailed},
		"refs that end early":       {code: 200, body: "001e# service=git-upload-pack\n00000155", want: FetchFailed},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", cmp.Or(c.kind, "application/x-git-upload-pack-advertisement"))
				w.WriteHeader(c.code)
				_, _ = w.Write([]byte(c.body))
			}))
			t.Cleanup(server.Close)
			remote := Remote{URL: server.URL + "/x.git", Secret: secret}
			if c.anonymous {
				remote.Secret = nil
			}
			_, err := Look(testContext(t), remote)
			e := requireError(t, err, c.want)
			require.Equal(t, c.wantStalled, e.Stalled)
			require.Contains(t, e.Message, c.wantMessage)
			require.NotContains(t, e.Message, "hunter2")
			require.NotContains(t, e.Message, "YWRhOmh1bnRlcjI=")
		})
	}
}

// gate is a proxy in front of a Git server that notes the Authorization of what
// passes, and may send it elsewhere first.
type gate struct {
	*httptest.Server
	sawPassword atomic.Bool
	sawRequest  atomic.Bool
}

func newGate(t *testing.T, handler http.Handler) *gate {
	t.Helper()
	g := &gate{}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.sawRequest.Store(true)
		if r.Header.Get("Authorization") != "" {
			g.sawPassword.Store(true)
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(g.Close)
	return g
}

func redirectTo(base string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, base+r.URL.RequestURI(), http.StatusMovedPermanently)
	})
}

func proxyTo(t *testing.T, base string) http.Handler {
	t.Helper()
	u, err := url.Parse(base)
	require.NoError(t, err)
	return httputil.NewSingleHostReverseProxy(u)
}

func TestRedirects(t *testing.T) {
	root := t.TempDir()
	_, hash := withCommit(t, root, "tenants.git")
	open := serveHTTP(t, root)
	secret := map[string][]byte{keyUsername: []byte("ada"), keyPassword: []byte("hunter2")}

	t.Run("to another host, without the credentials", func(t *testing.T) {
		elsewhere := newGate(t, proxyTo(t, open))
		first := newGate(t, redirectTo(elsewhere.URL))
		commit := fetchHead(t, Remote{URL: first.URL + "/tenants.git", Secret: secret})
		require.Equal(t, hash, commit.Hash)
		require.True(t, first.sawPassword.Load())
		require.True(t, elsewhere.sawRequest.Load())
		require.False(t, elsewhere.sawPassword.Load())
	})
	t.Run("to another host and back, still without", func(t *testing.T) {
		var first *gate
		visits := 0
		second := newGate(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, first.URL+"/moved"+r.URL.RequestURI(), http.StatusFound)
		}))
		var late atomic.Bool
		first = newGate(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if visits++; visits > 1 {
				late.Store(r.Header.Get("Authorization") != "")
				w.WriteHeader(http.StatusNotFound)
				return
			}
			redirectTo(second.URL).ServeHTTP(w, r)
		}))
		_, err := Look(testContext(t), Remote{URL: first.URL + "/tenants.git", Secret: secret})
		requireError(t, err, RepositoryNotFound)
		require.Equal(t, 2, visits)
		require.False(t, late.Load())
	})
	t.Run("to another host that wants them", func(t *testing.T) {
		closed := newGate(t, proxyTo(t, serveHTTP(t, root, withAuth("ada", "hunter2"))))
		first := newGate(t, redirectTo(closed.URL))
		_, err := Look(testContext(t), Remote{URL: first.URL + "/tenants.git", Secret: secret})
		require.Contains(t, requireError(t, err, AuthenticationFailed).Message, "credentials are not sent")
		require.False(t, closed.sawPassword.Load())
	})
	t.Run("on the same host, with the credentials", func(t *testing.T) {
		closed := serveHTTP(t, root, withAuth("ada", "hunter2"))
		behind := proxyTo(t, closed)
		first := newGate(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/old/") {
				http.Redirect(w, r, strings.TrimPrefix(r.URL.RequestURI(), "/old"), http.StatusMovedPermanently)
				return
			}
			behind.ServeHTTP(w, r)
		}))
		require.Equal(t, hash, fetchHead(t, Remote{URL: first.URL + "/old/tenants.git", Secret: secret}).Hash)
	})
	t.Run("without end", func(t *testing.T) {
		var loop *gate
		loop = newGate(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			redirectTo(loop.URL).ServeHTTP(w, r)
		}))
		_, err := Look(testContext(t), Remote{URL: loop.URL + "/tenants.git"})
		require.Contains(t, requireError(t, err, FetchFailed).Message, "too often")
	})
	t.Run("to a login page", func(t *testing.T) {
		first := newGate(t, http.RedirectHandler("https://login.example.com/?from=x", http.StatusFound))
		_, err := Look(testContext(t), Remote{URL: first.URL + "/tenants.git"})
		require.Contains(t, requireError(t, err, FetchFailed).Message, "login page")
	})
}

func TestMayFollow(t *testing.T) {
	for pair, want := range map[string]bool{
		"https://a/x https://a/y":           true,
		"https://a/x https://A:443/y":       true,
		"http://a/x https://a/x":            true,
		"http://a:80/x https://a:443/x":     true,
		"https://a/x http://a/x":            false,
		"http://a:8080/x https://a:8443/x":  false,
		"https://a/x https://a:444/x":       false,
		"https://a/x https://b.a/x":         false,
		"https://b.a/x https://a/x":         false,
		"http://a/x https://a.evil.com/x":   false,
		"https://a/x https://a.evil.com/x":  false,
		"https://a:443/x https://a:4430/x":  false,
		"http://a:443/x https://a:443/x":    false,
		"https://[::1]/x https://[::1]:443": true,
	} {
		from, to, _ := strings.Cut(pair, " ")
		a, err := url.Parse(from)
		require.NoError(t, err)
		b, err := url.Parse(to)
		require.NoError(t, err)
		require.Equal(t, want, mayFollow(a, b), pair)
	}
}

// certificate makes one that is its own authority, for 127.0.0.1 and clients.
func certificate(t *testing.T) (certPEM, keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
}

func TestTLS(t *testing.T) {
	root := t.TempDir()
	_, hash := withCommit(t, root, "tenants.git")
	cert, key := certificate(t)
	clients := x509.NewCertPool()
	require.True(t, clients.AppendCertsFromPEM(cert))

	serve := func(config *tls.Config) (string, []byte) {
		server := httptest.NewUnstartedServer(proxyTo(t, serveHTTP(t, root)))
		server.TLS = config
		server.StartTLS()
		t.Cleanup(server.Close)
		return server.URL + "/tenants.git", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	}
	open, ca := serve(&tls.Config{})
	closed, _ := serve(&tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients})

	require.Equal(t, hash, fetchHead(t, Remote{URL: open, Secret: map[string][]byte{keyCA: ca}}).Hash)
	require.Equal(t, hash, fetchHead(t, Remote{URL: open, Secret: map[string][]byte{keyCAOld: ca}}).Hash)
	require.Equal(t, hash, fetchHead(t, Remote{URL: closed, Secret: map[string][]byte{keyCA: ca, keyCert: cert, keyKey: key}}).Hash)

	_, err := Look(testContext(t), Remote{URL: open})
	require.Contains(t, requireError(t, err, RepositoryUnreachable).Message, "ca.crt")
	_, err = Look(testContext(t), Remote{URL: open, Secret: map[string][]byte{keyCA: cert}})
	require.Contains(t, requireError(t, err, RepositoryUnreachable).Message, "not trusted")
	_, err = Look(testContext(t), Remote{URL: closed, Secret: map[string][]byte{keyCA: ca}})
	require.Contains(t, requireError(t, err, AuthenticationFailed).Message, "client certificate")
}

// Every way to fail with a Secret at hand keeps all of it to itself.
func TestNoCredentialsInErrors(t *testing.T) {
	identity, _ := newIdentity(t, "")
	_, tlsKey := certificate(t)
	secret := map[string][]byte{
		keyUsername: []byte("a-token-in-place-of-a-name"), keyPassword: []byte("hunter2"), keyBearer: []byte("bearer-of-news"),
		keyIdentity: identity, keyKey: tlsKey,
	}
	said := fmt.Sprintf("a-token-in-place-of-a-name:hunter2 bearer-of-news %s %s", identity, tlsKey)
	err := finish(t.Context(), fail(FetchFailed, "%s", said), "x", secretValues(secret))
	for _, word := range strings.Fields(said) {
		if strings.Contains(word, "--") || word == "PRIVATE" || word == "KEY" || len(word) < longUsername {
			continue
		}
		require.NotContains(t, err.Error(), word)
	}
	require.NotContains(t, err.Error(), "hunter2")
	require.NotContains(t, err.Error(), "bearer-of-news")
}
