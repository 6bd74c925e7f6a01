package fetch

import (
	"net"
	"net/url"
	"path"
	"strings"
)

type scheme int

const (
	schemeHTTP scheme = iota
	schemeSSH
	schemeLocal
)

// address is a Remote's URL, taken apart.
type address struct {
	scheme scheme
	// base is the repository's URL without a trailing slash (http).
	base *url.URL
	// user, host and port are for ssh.
	user, host, port string
	// path is what the ssh server is asked for, or the local folder.
	path string
	// shown is the URL as it may stand in a message: no userinfo, no query.
	shown string
}

// secure says whether credentials are encrypted on their way.
func (a address) secure() bool {
	return a.scheme != schemeHTTP || a.base.Scheme == "https"
}

// parseURL takes apart the forms that git itself knows, but for those without
// authentication (git://) and those relative to a working directory.
func parseURL(raw string) (address, error) {
	switch {
	case raw == "":
		return address{}, fail(InvalidURL, "the URL is empty: write https://, ssh:// or file://")
	case strings.ContainsFunc(raw, isControl):
		return address{}, fail(InvalidURL, "the URL %q has control characters or blanks at an end", redact(raw))
	case strings.HasPrefix(raw, "/"):
		return parseLocal(raw, raw)
	case strings.Contains(raw, "://"):
		return parseScheme(raw)
	default:
		return parseSCP(raw)
	}
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

func parseScheme(raw string) (address, error) {
	u, err := url.Parse(raw)
	if err != nil {
		// The parser's own words quote the URL, password and all.
		return address{}, fail(InvalidURL, "the URL %q cannot be parsed", redact(raw))
	}
	if u.User == nil && strings.Contains(u.EscapedPath(), "@") {
		// https://tok/en@host/x: half a credential, taken for a host and a path.
		return address{}, fail(InvalidURL, "the URL %q has an @ in its path: write %%40, and put credentials into the Secret", redact(raw))
	}
	if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return address{}, fail(InvalidURL, "the URL %q has a query or a fragment: leave it out", redact(raw))
	}
	switch u.Scheme {
	case "http", "https":
		return parseHTTP(u, raw)
	case "ssh":
		return parseSSH(u, raw)
	case "file":
		if u.Host != "" || u.User != nil {
			return address{}, fail(InvalidURL, "the URL %q names a host: a local folder is file:///path", redact(raw))
		}
		return parseLocal(u.Path, raw)
	default:
		return address{}, fail(InvalidURL, "the URL %q has a scheme that is not supported: use https, http, ssh or file", redact(raw))
	}
}

func parseHTTP(u *url.URL, raw string) (address, error) {
	if u.User != nil {
		return address{}, fail(InvalidURL, "the URL %q carries credentials: put them into the Secret as username and password", redact(raw))
	}
	if u.Hostname() == "" || u.Opaque != "" {
		return address{}, fail(InvalidURL, "the URL %q names no host", redact(raw))
	}
	base := &url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	base = trimSlash(base)
	if base.Path == "" {
		return address{}, fail(InvalidURL, "the URL %q names no repository", redact(raw))
	}
	return address{scheme: schemeHTTP, base: base, shown: base.String()}, nil
}

func trimSlash(u *url.URL) *url.URL {
	u.Path = strings.TrimRight(u.Path, "/")
	u.RawPath = strings.TrimRight(u.RawPath, "/")
	return u
}

func parseSSH(u *url.URL, raw string) (address, error) {
	if _, ok := u.User.Password(); ok {
		return address{}, fail(InvalidURL, "the URL %q carries a password: ssh needs an identity in the Secret", redact(raw))
	}
	return newSSH(u.User.Username(), u.Hostname(), u.Port(), u.Path, raw)
}

// parseSCP reads [user@]host:path, which git takes for ssh when no slash stands
// before the colon.
func parseSCP(raw string) (address, error) {
	before, repository, ok := strings.Cut(raw, ":")
	if strings.HasPrefix(before, "[") || strings.Contains(before, "@[") { // [::1]:path
		before, repository, ok = strings.Cut(raw, "]:")
		before = strings.Replace(before, "[", "", 1)
	}
	if strings.Contains(repository, "@") { // user:password@host:path
		return address{}, fail(InvalidURL, "the URL %q has an @ after its colon: write ssh://, and put credentials into the Secret", redact(raw))
	}
	if !ok || strings.Contains(before, "/") {
		return address{}, fail(InvalidURL, "the URL %q is not absolute: write https://, ssh:// or an absolute path", redact(raw))
	}
	user, host := "", before
	if i := strings.LastIndex(before, "@"); i >= 0 {
		user, host = before[:i], before[i+1:]
	}
	return newSSH(user, host, "", repository, raw)
}

func newSSH(user, host, port, repository, raw string) (address, error) {
	if user == "" {
		user = "git"
	}
	if port == "" {
		port = "22"
	}
	// git: /~user/repo is relative to that user's home.
	if strings.HasPrefix(repository, "/~") {
		repository = repository[1:]
	}
	switch {
	case host == "" || strings.ContainsAny(host, "@ "):
		return address{}, fail(InvalidURL, "the URL %q names no host", redact(raw))
	case strings.Trim(repository, "/") == "", repository[0] == ':': // ext::command, a helper of git's
		return address{}, fail(InvalidURL, "the URL %q names no repository", redact(raw))
	case strings.HasPrefix(repository, "-"):
		// The server would take it for an option of git-upload-pack.
		return address{}, fail(InvalidURL, "the URL %q has a path that begins with a dash", redact(raw))
	}
	shown := url.URL{Scheme: "ssh", Host: host, Path: "/" + strings.TrimLeft(repository, "/")}
	if port != "22" || strings.Contains(host, ":") {
		shown.Host = net.JoinHostPort(host, port)
	}
	return address{scheme: schemeSSH, user: user, host: host, port: port, path: repository, shown: shown.String()}, nil
}

func parseLocal(folder, raw string) (address, error) {
	if !strings.HasPrefix(folder, "/") || strings.Contains(folder, "\x00") {
		return address{}, fail(InvalidURL, "the URL %q is not an absolute path", redact(raw))
	}
	folder = path.Clean(folder)
	return address{scheme: schemeLocal, path: folder, shown: folder}, nil
}
