package fetch

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
)

const (
	infoRefs      = "/info/refs"
	uploadPack    = "git-upload-pack"
	maxRedirects  = 5
	maxErrorBytes = 512
)

// httpLink speaks Git's smart http protocol.
type httpLink struct {
	address     address
	credentials credentials
	client      *http.Client
	transport   *http.Transport
	// base is where the repository is after redirects.
	base *url.URL
	body io.ReadCloser
}

func newHTTPLink(a address, c credentials) *httpLink {
	// Of its own, not shared: another source's certificates must not be offered
	// here, and connections should not outlive the visit.
	transport := &http.Transport{
		Proxy:             http.ProxyFromEnvironment,
		TLSClientConfig:   c.tls,
		ForceAttemptHTTP2: true,
	}
	l := &httpLink{address: a, credentials: c, transport: transport, base: a.base}
	l.client = &http.Client{Transport: transport, CheckRedirect: checkRedirect}
	return l
}

func (l *httpLink) advertise(ctx context.Context) (io.Reader, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, l.base.String()+infoRefs+"?service="+uploadPack, nil)
	if err != nil {
		return nil, err
	}
	response, err := l.do(request)
	if err != nil {
		return nil, err
	}
	if kind := response.Header.Get("Content-Type"); kind != "application/x-"+uploadPack+"-advertisement" {
		return nil, fail(RepositoryNotFound, "%s answers, but is no Git repository (it sent %q): check the URL", l.address.shown, bounded(kind, 80))
	}
	l.base = baseOf(response.Request.URL)
	return response.Body, nil
}

func (l *httpLink) upload(ctx context.Context, body []byte) (io.Reader, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, l.base.String()+"/"+uploadPack, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/x-"+uploadPack+"-request")
	response, err := l.do(request)
	if err != nil {
		return nil, err
	}
	return response.Body, nil
}

// do adds the credentials, if the request goes to where they are for.
func (l *httpLink) do(request *http.Request) (*http.Response, error) {
	request.Header.Set("User-Agent", "git/reservation-operator")
	if mayFollow(l.address.base, request.URL) {
		switch c := l.credentials; {
		case c.bearer != "":
			request.Header.Set("Authorization", "Bearer "+c.bearer)
		case c.username != "":
			request.SetBasicAuth(c.username, c.password)
		}
	}
	response, err := l.client.Do(request)
	if err != nil {
		return nil, l.unreachable(err)
	}
	l.closeBody()
	l.body = response.Body
	return response, l.refusal(response)
}

// refusal makes an error of an answer that is not 200.
func (l *httpLink) refusal(response *http.Response) error {
	code, where := response.StatusCode, l.address.shown
	if code == http.StatusOK {
		return nil
	}
	words, _ := io.ReadAll(io.LimitReader(response.Body, maxErrorBytes))
	said := fmt.Sprintf("HTTP %d", code)
	// Git servers say why in a line of plain text; pages and dumps are for their own logs.
	if kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); kind == "text/plain" {
		if text := oneLine(string(words)); text != "" {
			said += ": " + text
		}
	}
	anonymous := l.credentials.username == "" && l.credentials.bearer == ""
	switch {
	case code == http.StatusUnauthorized && anonymous:
		return fail(AuthenticationFailed, "%s asks for credentials (%s): put username and password into a Secret and name it in secretRef", where, said)
	case code == http.StatusUnauthorized && !mayFollow(l.address.base, response.Request.URL):
		return fail(AuthenticationFailed, "%s redirects to %s, where its credentials are not sent (%s): change the URL to where the repository is", where, originOf(response.Request.URL), said)
	case code == http.StatusForbidden && anonymous:
		return fail(AuthenticationFailed, "%s forbids reading it without credentials (%s): check the URL; if it is right, put username and password into a Secret and name it in secretRef", where, said)
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return fail(AuthenticationFailed, "%s refuses the credentials (%s): check that they are right, not expired, and may read the repository", where, said)
	case code == http.StatusNotFound, code == http.StatusGone:
		return fail(RepositoryNotFound, "%s is not there (%s): check the URL, and that the credentials may read it", where, said)
	case code == http.StatusTooManyRequests, code >= http.StatusInternalServerError:
		return fail(RepositoryUnreachable, "%s cannot serve the repository now (%s): it is tried again; if that goes on, look at the server", where, said)
	default:
		return fail(FetchFailed, "%s answers %s", where, said)
	}
}

// unreachable gives a failed exchange its reason.
func (l *httpLink) unreachable(err error) error {
	where := l.address.shown
	// The client's own wrapper repeats method and URL.
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	var refused *redirectError
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.As(err, &refused):
		return fail(FetchFailed, "%s redirects %s: change the URL to where the repository is", where, refused.why)
	case errors.As(err, &untrusted):
		return fail(RepositoryUnreachable, "the certificate of %s is not trusted (%v): put its authority into the Secret as ca.crt", where, untrusted.Err)
	case strings.Contains(err.Error(), "remote error: tls:"):
		// The alert has no type of its own in crypto/tls.
		return fail(AuthenticationFailed, "%s refuses the client certificate (%v): check tls.crt and tls.key in the Secret", where, err)
	}
	return fail(RepositoryUnreachable, cannotReach, where, err)
}

func (l *httpLink) explain(err error) error { return err }

func (l *httpLink) close() {
	l.closeBody()
	l.transport.CloseIdleConnections()
}

func (l *httpLink) closeBody() {
	if l.body == nil {
		return
	}
	// A body read to its end leaves the connection to the next request.
	_, _ = io.CopyN(io.Discard, l.body, maxErrorBytes)
	l.body.Close()
	l.body = nil
}

type redirectError struct{ why string }

func (e *redirectError) Error() string { return "redirected " + e.why }

// checkRedirect follows what a moved repository needs and nothing else, and
// takes the credentials off once the chain has left the origin that they are
// for. net/http alone would send them on to any subdomain and any port.
func checkRedirect(request *http.Request, via []*http.Request) error {
	switch first := via[0]; {
	case len(via) > maxRedirects:
		return &redirectError{why: "too often"}
	case first.Method != http.MethodGet:
		return &redirectError{why: "a request that carries a body"}
	case request.URL.Scheme != "https" && request.URL.Scheme != via[len(via)-1].URL.Scheme:
		return &redirectError{why: "from https to " + request.URL.Scheme}
	case !strings.HasSuffix(request.URL.Path, infoRefs):
		return &redirectError{why: "to " + originOf(request.URL) + ", to something that is no Git repository (a login page?)"}
	}
	// net/http copies the first request's headers anew at each hop.
	for _, hop := range append(via[1:len(via):len(via)], request) {
		if !mayFollow(via[0].URL, hop.URL) {
			request.Header.Del("Authorization")
		}
	}
	request.URL.User = nil
	return nil
}

// mayFollow says whether credentials for one URL may be sent to another: to the
// same origin, and from a host's plain port to its TLS port.
func mayFollow(from, to *url.URL) bool {
	if originOf(from) == originOf(to) {
		return true
	}
	return strings.EqualFold(from.Hostname(), to.Hostname()) &&
		strings.HasPrefix(originOf(from), "http://") && portOf(from) == "80" &&
		strings.HasPrefix(originOf(to), "https://") && portOf(to) == "443"
}

// originOf is scheme, host and port.
func originOf(u *url.URL) string {
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), portOf(u))
}

func portOf(u *url.URL) string {
	if port := u.Port(); port != "" {
		return port
	}
	return map[string]string{"http": "80", "https": "443"}[u.Scheme]
}

// baseOf is the repository's URL, from that of its refs.
func baseOf(refs *url.URL) *url.URL {
	base := *refs
	base.Path = strings.TrimSuffix(base.Path, infoRefs)
	base.RawPath = strings.TrimSuffix(base.RawPath, infoRefs)
	base.RawQuery, base.User = "", nil
	return &base
}
