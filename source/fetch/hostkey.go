package fetch

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// hostKeys checks one server's key against known_hosts.
type hostKeys struct {
	callback ssh.HostKeyCallback
	// algorithms are the ones that this server's entries can verify.
	algorithms []string
	where      string
}

// readKnownHosts reads known_hosts for one server. The server must be in it.
func readKnownHosts(a address, data []byte) (hostKeys, error) {
	callback, err := parseKnownHosts(data)
	if err != nil {
		return hostKeys{}, fail(InvalidCredentials, "the Secret's known_hosts cannot be read: %v", err)
	}
	k := hostKeys{callback: callback, where: a.shown}
	// A key that nobody has tells which keys were wanted.
	var wanted *knownhosts.KeyError
	err = callback(a.hostPort(), noAddr{}, nobody{})
	if !errors.As(err, &wanted) || len(wanted.Want) == 0 {
		return hostKeys{}, fail(UnknownHost, "known_hosts in the Secret has no entry for %s: add the output of ssh-keyscan -p %s %s, compared with what the host publishes", a.hostPort(), a.port, a.host)
	}
	k.algorithms = algorithmsFor(wanted.Want, strings.Contains(string(data), "@cert-authority"))
	return k, nil
}

// parseKnownHosts goes through a file because the package reads nothing else.
func parseKnownHosts(data []byte) (ssh.HostKeyCallback, error) {
	f, err := os.CreateTemp("", "known_hosts-*")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	callback, err := knownhosts.New(f.Name())
	if err != nil {
		return nil, errors.New(strings.ReplaceAll(err.Error(), f.Name()+":", "line "))
	}
	return callback, nil
}

// algorithmsFor returns what to offer the server, in the order of known_hosts.
// Offering also what other hosts' entries have makes the server choose a key
// that cannot be verified, now and then.
func algorithmsFor(known []knownhosts.KnownKey, authorities bool) []string {
	var algorithms []string
	seen := map[string]bool{}
	for _, k := range known {
		if kind := k.Key.Type(); !seen[kind] {
			seen[kind] = true
			if kind == ssh.KeyAlgoRSA {
				// One kind of key, three of signatures; SHA-1 is not offered.
				algorithms = append(algorithms, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
			} else {
				algorithms = append(algorithms, kind)
			}
		}
	}
	if authorities {
		algorithms = append([]string{
			ssh.CertAlgoED25519v01, ssh.CertAlgoECDSA256v01, ssh.CertAlgoECDSA384v01, ssh.CertAlgoECDSA521v01,
			ssh.CertAlgoRSASHA512v01, ssh.CertAlgoRSASHA256v01,
		}, algorithms...)
	}
	return algorithms
}

// check is an ssh.HostKeyCallback that says which key was shown.
func (k hostKeys) check(host string, remote net.Addr, key ssh.PublicKey) error {
	err := k.callback(host, remote, key)
	if err == nil {
		return nil
	}
	shown := fmt.Sprintf("%s shows the %s key %s", k.where, key.Type(), ssh.FingerprintSHA256(key))
	var wanted *knownhosts.KeyError
	var revoked *knownhosts.RevokedError
	switch {
	case errors.As(err, &wanted) && len(wanted.Want) == 0:
		return fail(UnknownHost, "%s, and known_hosts in the Secret has no entry for %s", shown, host)
	case errors.As(err, &wanted):
		return fail(HostKeyMismatch, "%s, but known_hosts in the Secret has %s for it: if the host has published the new key, replace the entry; if not, somebody may be in between", shown, fingerprints(wanted.Want))
	case errors.As(err, &revoked):
		return fail(HostKeyMismatch, "%s, which known_hosts in the Secret marks as revoked", shown)
	default:
		return fail(HostKeyMismatch, "%s, which known_hosts in the Secret does not allow: %v", shown, err)
	}
}

func fingerprints(keys []knownhosts.KnownKey) string {
	var shown []string
	for _, k := range keys {
		shown = append(shown, fmt.Sprintf("%s (line %d)", ssh.FingerprintSHA256(k.Key), k.Line))
	}
	return strings.Join(shown, ", ")
}

// nobody is a public key that is in no known_hosts.
type nobody struct{}

func (nobody) Type() string                            { return "nobody" }
func (nobody) Marshal() []byte                         { return []byte("nobody") }
func (nobody) Verify(_ []byte, _ *ssh.Signature) error { return errors.New("nobody's key") }

type noAddr struct{}

func (noAddr) Network() string { return "tcp" }
func (noAddr) String() string  { return "0.0.0.0:0" }
