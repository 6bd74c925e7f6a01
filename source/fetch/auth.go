package fetch

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"sort"
	"strings"

	"golang.org/x/crypto/ssh"
)

// The keys of a Secret, as Flux lays it out; the second names are Flux's older
// ones.
const (
	keyUsername   = "username"
	keyPassword   = "password"
	keyBearer     = "bearerToken"
	keyCA         = "ca.crt"
	keyCAOld      = "caFile"
	keyCert       = "tls.crt"
	keyCertOld    = "certFile"
	keyKey        = "tls.key"
	keyKeyOld     = "keyFile"
	keyIdentity   = "identity"
	keyKnownHosts = "known_hosts"
	keyAppPrefix  = "githubApp"
)

// credentials are what a Secret holds for one address.
type credentials struct {
	username, password, bearer string
	tls                        *tls.Config
	signer                     ssh.Signer
	knownHosts                 []byte
}

// longUsername is from where on a username is taken for a token: some forges
// want the token in its place.
const longUsername = 20

// secretValues lists what no message may contain.
func secretValues(data map[string][]byte) []string {
	var values []string
	for key, value := range data {
		text := string(value)
		switch {
		case key == keyUsername && len(text) < longUsername:
			continue
		case key == keyPassword:
			values = append(values, trimNewline(data[keyUsername])+":"+trimNewline(value))
		case key == keyUsername, key == keyBearer, key == keyIdentity, key == keyKey, key == keyKeyOld, strings.HasPrefix(key, keyAppPrefix):
		default:
			continue
		}
		values = append(values, text, strings.TrimSpace(text))
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); len(line) >= longUsername && !strings.HasPrefix(line, "-----") {
				values = append(values, line)
			}
		}
	}
	return values
}

// readSecret picks what the address needs. A Secret that holds nothing of it is
// an error: going on anonymously would hide a mix-up behind a 401, or worse,
// behind a public repository of the same name.
func readSecret(a address, data map[string][]byte) (credentials, error) {
	for key := range data {
		if strings.HasPrefix(key, keyAppPrefix) {
			return credentials{}, fail(InvalidCredentials, "the Secret's key %s (a GitHub App) is not supported yet: use username and password, or an ssh identity", key)
		}
	}
	switch {
	case a.scheme == schemeSSH:
		return readSSH(a, data)
	case data == nil:
		return credentials{}, nil
	case a.scheme == schemeLocal:
		return credentials{}, fail(InvalidCredentials, "a local folder needs no Secret: remove secretRef, or use an https or ssh URL")
	default:
		return readHTTP(a, data)
	}
}

func readHTTP(a address, data map[string][]byte) (credentials, error) {
	c := credentials{
		username: trimNewline(data[keyUsername]),
		password: trimNewline(data[keyPassword]),
		bearer:   trimNewline(data[keyBearer]),
	}
	var err error
	if c.tls, err = readTLS(a, data); err != nil {
		return credentials{}, err
	}
	switch {
	case c.bearer != "" && c.username != "":
		return credentials{}, fail(InvalidCredentials, "the Secret has both bearerToken and username: keep one of them")
	case c.username != "" && c.password == "":
		return credentials{}, fail(InvalidCredentials, "the Secret has username but no password")
	case c.username == "" && c.password != "" && c.bearer == "" && len(data[keyIdentity]) == 0:
		return credentials{}, fail(InvalidCredentials, "the Secret has password but no username")
	case c.username == "" && c.bearer == "" && c.tls == nil:
		return credentials{}, fail(InvalidCredentials, "the Secret has none of username and password, bearerToken, ca.crt, tls.crt and tls.key, which an https URL reads; it has %s", keysOf(data))
	case strings.ContainsFunc(c.bearer+c.username+c.password, isControl):
		return credentials{}, fail(InvalidCredentials, "the Secret's username, password or bearerToken contains control characters")
	}
	return c, nil
}

// readTLS returns nil if the Secret has nothing for TLS.
func readTLS(a address, data map[string][]byte) (*tls.Config, error) {
	ca, caKey := either(data, keyCA, keyCAOld)
	cert, certKey := either(data, keyCert, keyCertOld)
	key, keyKey := either(data, keyKey, keyKeyOld)
	if len(ca)+len(cert)+len(key) == 0 {
		return nil, nil
	}
	if !a.secure() {
		return nil, fail(InvalidCredentials, "the Secret has certificates (%s), which an http:// URL cannot use: use https://", keysOf(data))
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(ca) > 0 {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(ca) {
			return nil, fail(InvalidCredentials, "the Secret's %s holds no certificate in PEM form", caKey)
		}
		config.RootCAs = pool
	}
	switch {
	case len(cert) == 0 && len(key) == 0:
		return config, nil
	case len(key) == 0:
		return nil, fail(InvalidCredentials, "the Secret has %s but no tls.key", certKey)
	case len(cert) == 0:
		return nil, fail(InvalidCredentials, "the Secret has %s but no tls.crt", keyKey)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fail(InvalidCredentials, "the Secret's %s and %s are not a key pair: %v", certKey, keyKey, err)
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}

func readSSH(a address, data map[string][]byte) (credentials, error) {
	if len(data[keyIdentity]) == 0 {
		return credentials{}, fail(InvalidCredentials, "%s needs a Secret with identity (a private key) and known_hosts; logging in by password is not supported yet", a.shown)
	}
	if len(strings.TrimSpace(string(data[keyKnownHosts]))) == 0 {
		return credentials{}, fail(UnknownHost, "the Secret has no known_hosts, and a host key is never taken on trust: add the output of ssh-keyscan %s, compared with what the host publishes", a.host)
	}
	signer, err := ssh.ParsePrivateKey(data[keyIdentity])
	var locked *ssh.PassphraseMissingError
	if errors.As(err, &locked) {
		if len(data[keyPassword]) == 0 {
			return credentials{}, fail(InvalidCredentials, "the Secret's identity is encrypted: add its passphrase as password")
		}
		signer, err = ssh.ParsePrivateKeyWithPassphrase(data[keyIdentity], []byte(trimNewline(data[keyPassword])))
	}
	if err != nil {
		return credentials{}, fail(InvalidCredentials, "the Secret's identity is not a private key that can be read (or password is not its passphrase): %v", err)
	}
	return credentials{signer: signer, knownHosts: data[keyKnownHosts]}, nil
}

// trimNewline forgives the newline that `echo token | kubectl create secret`
// leaves; no server accepts one anyway.
func trimNewline(value []byte) string {
	return strings.TrimRight(string(value), "\r\n")
}

func either(data map[string][]byte, key, old string) ([]byte, string) {
	if len(data[key]) > 0 || len(data[old]) == 0 {
		return data[key], key
	}
	return data[old], old
}

func keysOf(data map[string][]byte) string {
	if len(data) == 0 {
		return "nothing"
	}
	keys := make([]string, 0, len(data))
	for key := range data {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return strings.Join(keys, ", ")
}
