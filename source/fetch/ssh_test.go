package fetch

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fluxcd/pkg/gittestserver"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// sshServer is a test server with its host keys.
type sshServer struct {
	addr string // host:port
	keys map[string]ssh.PublicKey
}

// serveSSH starts one with an RSA host key and those given.
func serveSSH(t *testing.T, root string, more ...ssh.Signer) sshServer {
	t.Helper()
	keyDir := t.TempDir()
	config := &ssh.ServerConfig{}
	s := gittestserver.NewGitServer(root).KeyDir(keyDir).Auth("unused", "unused").WithSSHConfig(config)
	server := sshServer{keys: map[string]ssh.PublicKey{}}
	for _, signer := range more {
		config.AddHostKey(signer)
		server.keys[signer.PublicKey().Type()] = signer.PublicKey()
	}
	require.NoError(t, s.ListenSSH())
	go s.StartSSH() //nolint:errcheck // returns when it is stopped
	t.Cleanup(func() { s.StopSSH() })

	address, err := url.Parse(s.SSHAddress())
	require.NoError(t, err)
	server.addr = address.Host
	published, err := filepath.Glob(keyDir + "/*.pub")
	require.NoError(t, err)
	require.Len(t, published, 1)
	text, err := os.ReadFile(published[0])
	require.NoError(t, err)
	key, _, _, _, err := ssh.ParseAuthorizedKey(text)
	require.NoError(t, err)
	server.keys[key.Type()] = key
	return server
}

func (s sshServer) url(repository string) string { return "ssh://git@" + s.addr + "/" + repository }

// line is a known_hosts entry for the server.
func (s sshServer) line(kind string) string {
	return knownhosts.Line([]string{knownhosts.Normalize(s.addr)}, s.keys[kind]) + "\n"
}

func newHostKey(t *testing.T, kind string) ssh.Signer {
	t.Helper()
	var key any
	var err error
	switch kind {
	case ssh.KeyAlgoED25519:
		_, key, err = ed25519.GenerateKey(rand.Reader)
	case ssh.KeyAlgoECDSA256:
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case ssh.KeyAlgoRSA:
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	require.NoError(t, err)
	signer, err := ssh.NewSignerFromKey(key)
	require.NoError(t, err)
	return signer
}

// newIdentity returns a private key in PEM form and its public key.
func newIdentity(t *testing.T, passphrase string) ([]byte, ssh.PublicKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	var block *pem.Block
	if passphrase == "" {
		block, err = ssh.MarshalPrivateKey(private, "")
	} else {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte(passphrase))
	}
	require.NoError(t, err)
	key, err := ssh.NewPublicKey(public)
	require.NoError(t, err)
	return pem.EncodeToMemory(block), key
}

func sshSecret(t *testing.T, knownHosts string) map[string][]byte {
	t.Helper()
	identity, _ := newIdentity(t, "")
	return map[string][]byte{keyIdentity: identity, keyKnownHosts: []byte(knownHosts)}
}

func TestFetchBySSH(t *testing.T) {
	root := t.TempDir()
	_, hash := withCommit(t, root, "org/tenants.git")
	server := serveSSH(t, root)
	locked, _ := newIdentity(t, "open sesame")

	for name, secret := range map[string]map[string][]byte{
		"identity":                 sshSecret(t, server.line(ssh.KeyAlgoRSA)),
		"identity with passphrase": {keyIdentity: locked, keyPassword: []byte("open sesame\n"), keyKnownHosts: []byte(server.line(ssh.KeyAlgoRSA))},
		"hashed known_hosts": sshSecret(t, fmt.Sprintf("%s %s",
			knownhosts.HashHostname(knownhosts.Normalize(server.addr)), ssh.MarshalAuthorizedKey(server.keys[ssh.KeyAlgoRSA]))),
	} {
		t.Run(name, func(t *testing.T) {
			commit := fetchHead(t, Remote{URL: server.url("org/tenants.git"), Secret: secret})
			require.Equal(t, hash, commit.Hash)
		})
	}
}

func TestSSHRefusals(t *testing.T) {
	root := t.TempDir()
	withCommit(t, root, "tenants.git")
	server := serveSSH(t, root)
	known := server.line(ssh.KeyAlgoRSA)
	locked, _ := newIdentity(t, "open sesame")
	refused, refusedPublic := newIdentity(t, "")
	refusedKeys.Store(strings.TrimSpace(string(ssh.MarshalAuthorizedKey(refusedPublic))), true)
	other := newHostKey(t, ssh.KeyAlgoED25519).PublicKey()
	here := knownhosts.Normalize(server.addr)

	for name, c := range map[string]struct {
		url         string
		secret      map[string][]byte
		want        Reason
		wantMessage string
	}{
		"no Secret":                   {secret: nil, want: InvalidCredentials, wantMessage: "identity"},
		"no identity":                 {secret: map[string][]byte{keyKnownHosts: []byte(known)}, want: InvalidCredentials, wantMessage: "identity"},
		"identity is no key":          {secret: map[string][]byte{keyIdentity: []byte("ssh-ed25519 AAAA"), keyKnownHosts: []byte(known)}, want: InvalidCredentials, wantMessage: "identity"},
		"passphrase missing":          {secret: map[string][]byte{keyIdentity: locked, keyKnownHosts: []byte(known)}, want: InvalidCredentials, wantMessage: "passphrase"},
		"passphrase wrong":            {secret: map[string][]byte{keyIdentity: locked, keyPassword: []byte("close"), keyKnownHosts: []byte(known)}, want: InvalidCredentials, wantMessage: "passphrase"},
		"known_hosts missing":         {secret: sshSecret(t, " \n"), want: UnknownHost, wantMessage: "ssh-keyscan"},
		"known_hosts for others only": {secret: sshSecret(t, knownhosts.Line([]string{"git.example.com"}, other)), want: UnknownHost, wantMessage: "ssh-keyscan"},
		"known_hosts malformed":       {secret: sshSecret(t, "# mine\ngit.example.com ssh-ed25519 %%%\n"), want: InvalidCredentials, wantMessage: "line 2"},
		"host key of another kind":    {secret: sshSecret(t, knownhosts.Line([]string{here}, other)), want: HostKeyMismatch, wantMessage: "ssh-ed25519"},
		"host key changed":            {secret: sshSecret(t, knownhosts.Line([]string{here}, serveSSH(t, root).keys[ssh.KeyAlgoRSA])), want: HostKeyMismatch, wantMessage: ssh.FingerprintSHA256(server.keys[ssh.KeyAlgoRSA])},
		"host key revoked":            {secret: sshSecret(t, known+"@revoked * "+string(ssh.MarshalAuthorizedKey(server.keys[ssh.KeyAlgoRSA]))), want: HostKeyMismatch, wantMessage: "revoked"},
		"identity refused":            {secret: map[string][]byte{keyIdentity: refused, keyKnownHosts: []byte(known)}, want: AuthenticationFailed, wantMessage: ssh.FingerprintSHA256(refusedPublic)},
		"no such repository":          {url: server.url("elsewhere.git"), secret: sshSecret(t, known), want: RepositoryNotFound, wantMessage: "deploy key"},
	} {
		t.Run(name, func(t *testing.T) {
			r := Remote{URL: server.url("tenants.git"), Secret: c.secret}
			if c.url != "" {
				r.URL = c.url
			}
			_, err := Look(testContext(t), r)
			e := requireError(t, err, c.want)
			require.Contains(t, e.Message, c.wantMessage)
			require.True(t, e.Stalled)
		})
	}
}

// A07: one known_hosts for several hosts, with several kinds of keys.
func TestCases_A07_KnownHosts(t *testing.T) {
	root := t.TempDir()
	withCommit(t, root, "tenants.git")
	a := serveSSH(t, root)
	b := serveSSH(t, root, newHostKey(t, ssh.KeyAlgoECDSA256), newHostKey(t, ssh.KeyAlgoED25519))
	stranger := newHostKey(t, ssh.KeyAlgoED25519).PublicKey()
	secret := sshSecret(t, ""+
		// a's ed25519 entry is of no use: a only has RSA.
		knownhosts.Line([]string{knownhosts.Normalize(a.addr)}, stranger)+"\n"+
		a.line(ssh.KeyAlgoRSA)+
		b.line(ssh.KeyAlgoECDSA256)+
		knownhosts.Line([]string{"one.example.com", "two.example.com", "three.example.com"}, stranger)+"\n")

	for range 50 {
		for _, server := range []sshServer{a, b} {
			_, err := Look(testContext(t), Remote{URL: server.url("tenants.git"), Secret: secret})
			require.NoError(t, err)
		}
	}

	// b's key is rotated: the address stays, the key is another one.
	rotated := map[string][]byte{keyIdentity: secret[keyIdentity], keyKnownHosts: []byte(
		knownhosts.Line([]string{knownhosts.Normalize(b.addr)}, newHostKey(t, ssh.KeyAlgoECDSA256).PublicKey()))}
	_, err := Look(testContext(t), Remote{URL: b.url("tenants.git"), Secret: rotated})
	e := requireError(t, err, HostKeyMismatch)
	require.True(t, e.Stalled)
	require.Contains(t, e.Message, b.addr)
	require.Contains(t, e.Message, ssh.FingerprintSHA256(b.keys[ssh.KeyAlgoECDSA256]))
}

func TestAlgorithmsFor(t *testing.T) {
	entry := func(kind string) knownhosts.KnownKey {
		return knownhosts.KnownKey{Key: newHostKey(t, kind).PublicKey()}
	}
	rsaKey := entry(ssh.KeyAlgoRSA)
	require.Equal(t,
		[]string{ssh.KeyAlgoECDSA256, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256, ssh.KeyAlgoED25519},
		algorithmsFor([]knownhosts.KnownKey{entry(ssh.KeyAlgoECDSA256), rsaKey, rsaKey, entry(ssh.KeyAlgoED25519)}, false),
		"in the order of known_hosts, each once, RSA with SHA-2 only")
}

func TestSSHServerThatHangsUp(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	line := knownhosts.Line([]string{knownhosts.Normalize(listener.Addr().String())}, newHostKey(t, ssh.KeyAlgoED25519).PublicKey())
	_, err = Look(testContext(t), Remote{URL: "ssh://git@" + listener.Addr().String() + "/x.git", Secret: sshSecret(t, line)})
	require.False(t, requireError(t, err, RepositoryUnreachable).Stalled)
}

func TestQuote(t *testing.T) {
	require.Equal(t, `'/a b'`, quote("/a b"))
	require.Equal(t, `'it'\''s; rm -rf '\!''`, quote("it's; rm -rf !"))
}
