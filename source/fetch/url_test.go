package fetch

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseURL(t *testing.T) {
	for raw, want := range map[string]string{
		"https://git.example.com/org/tenants.git":   "https://git.example.com/org/tenants.git",
		"https://git.example.com/org/tenants/":      "https://git.example.com/org/tenants",
		"http://git.example.com:8080/a%20b.git":     "http://git.example.com:8080/a%20b.git",
		"https://[::1]:8443/x.git":                  "https://[::1]:8443/x.git",
		"ssh://git@git.example.com/org/tenants.git": "ssh://git.example.com/org/tenants.git",
		"ssh://git.example.com:2222/tenants.git":    "ssh://git.example.com:2222/tenants.git",
		"ssh://git@[::1]:2222/tenants.git":          "ssh://[::1]:2222/tenants.git",
		"git@git.example.com:org/tenants.git":       "ssh://git.example.com/org/tenants.git",
		"git.example.com:org/tenants.git":           "ssh://git.example.com/org/tenants.git",
		"git@[::1]:tenants.git":                     "ssh://[::1]:22/tenants.git",
		"file:///srv/git/tenants.git":               "/srv/git/tenants.git",
		"/srv/git/../git/tenants.git/":              "/srv/git/tenants.git",
	} {
		t.Run(raw, func(t *testing.T) {
			a, err := parseURL(raw)
			require.NoError(t, err)
			require.Equal(t, want, a.shown)
		})
	}
}

func TestParseURLForSSH(t *testing.T) {
	for raw, want := range map[string]address{
		"ssh://git.example.com/org/tenants.git":          {user: "git", host: "git.example.com", port: "22", path: "/org/tenants.git"},
		"ssh://ada@git.example.com:2222/~/tenants.git":   {user: "ada", host: "git.example.com", port: "2222", path: "~/tenants.git"},
		"ada@git.example.com:tenants.git":                {user: "ada", host: "git.example.com", port: "22", path: "tenants.git"},
		"org-1234@github.example.com:org/tenants.git":    {user: "org-1234", host: "github.example.com", port: "22", path: "org/tenants.git"},
		"ssh://git@git.example.com/with%20blank/t'n.git": {user: "git", host: "git.example.com", port: "22", path: "/with blank/t'n.git"},
	} {
		t.Run(raw, func(t *testing.T) {
			a, err := parseURL(raw)
			require.NoError(t, err)
			want.scheme, want.shown = schemeSSH, a.shown
			require.Equal(t, want, a)
		})
	}
}

func TestInvalidURL(t *testing.T) {
	for raw, wantMessage := range map[string]string{
		"":                                      "empty",
		"tenants.git":                           "not absolute",
		"./tenants.git":                         "not absolute",
		"../a:b":                                "not absolute",
		"git://git.example.com/tenants.git":     "not supported",
		"ftp://git.example.com/tenants.git":     "not supported",
		"ext::sh -c whoami":                     "names no repository",
		"https://":                              "names no host",
		"https://git.example.com":               "names no repository",
		"https:///tenants.git":                  "names no host",
		"https://git.example.com/x.git?ref=v1":  "query",
		"https://git.example.com/x.git#main":    "fragment",
		"https://ada:hunter2@git.example.com/x": "Secret",
		"https://hunter2@git.example.com/x":     "Secret",
		"https://hun/ter2@git.example.com/x":    "Secret",
		"https://ada:hunter2%@git.example.com/": "cannot be parsed",
		"ssh://ada:hunter2@git.example.com/x":   "identity",
		"ada:hunter2@git.example.com:x.git":     "Secret",
		"ssh://git.example.com/-oProxyCommand=": "", // absolute: the dash is not first
		"git.example.com:-oProxyCommand=x":      "dash",
		"ssh://git@git.example.com/":            "names no repository",
		"git@git.example.com:":                  "names no repository",
		"file://git.example.com/x.git":          "names a host",
		"https://git.example.com/x.git\n":       "control",
	} {
		t.Run(raw, func(t *testing.T) {
			_, err := Look(testContext(t), Remote{URL: raw, Secret: sshSecret(t, "h ssh-rsa x")})
			if wantMessage == "" {
				_, err := parseURL(raw)
				require.NoError(t, err)
				return
			}
			e := requireError(t, err, InvalidURL)
			require.True(t, e.Stalled)
			require.Contains(t, e.Message, wantMessage)
			require.NotContains(t, e.Message, "hunter2")
			require.NotContains(t, e.Message, "ter2")
		})
	}
}

func TestRedact(t *testing.T) {
	for raw, want := range map[string]string{
		"https://ada:hunter2@git.example.com/x":        "https://git.example.com/x",
		"https://hunter2@git.example.com":              "https://git.example.com",
		"https://ada:hun@ter/2@git.example.com/x":      "https://git.example.com/x",
		"https://git.example.com/x?token=hunter2":      "https://git.example.com/x",
		"https://git.example.com/x#hunter2":            "https://git.example.com/x",
		"ada:hunter2@git.example.com:x.git":            "git.example.com:x.git",
		"hunter2@://git.example.com":                   "://git.example.com",
		"https://git.example.com/x\xff":                "https://git.example.com/x\uFFFD",
		"https://https://ada:hunter2@git.example.com/": "https://git.example.com/",
	} {
		require.Equal(t, want, redact(raw), raw)
	}
}

func TestScrub(t *testing.T) {
	secrets := []string{"", "hunter2", "hunter2 and more", "p/ä"}
	require.Equal(t, "*** *** *** *** ***", scrub("hunter2 aHVudGVyMg== hunter2+and+more p%2F%C3%A4 hunter2 and more", secrets))
	require.Equal(t, "a private key, *** alone, user:***@host and ***", scrub("a private key, p alone, user:p@host and p", []string{"p"}))
	require.Equal(t, "ppp ***", scrub("ppp pp", []string{"pp"}))
}

// FuzzParseURL checks that no URL makes a panic, and that what stands for a
// password is in no message and not in what is shown.
func FuzzParseURL(f *testing.F) {
	for _, seed := range []string{
		"https://", "ssh://git@", "git@", "file:///", "/", "a:b", "https://a:", "://", "%", "https://[::1", "a@b:c@", "x?", "#",
	} {
		f.Add(seed, "git.example.com/x.git")
	}
	const password = "hunter2hunter2"
	f.Fuzz(func(t *testing.T, before, after string) {
		if _, err := parseURL(before + after); err != nil {
			requireError(t, finish(t.Context(), err, "x", nil), InvalidURL)
		}
		if strings.Contains(before+after, password) {
			return
		}
		raw := "https://" + strings.ReplaceAll(before, "://", "") + ":" + password + "@" + after
		a, err := parseURL(raw)
		if err == nil {
			require.NotContains(t, a.shown, password, raw)
			return
		}
		require.NotContains(t, err.Error(), password, raw)
		require.NotContains(t, redact(raw), password)
	})
}
