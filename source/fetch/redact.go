package fetch

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
)

// redact returns a URL as it may be shown even when it does not parse: without
// anything that could be userinfo, query or fragment.
func redact(raw string) string {
	head, rest, hasScheme := strings.Cut(raw, "://")
	if !hasScheme {
		head, rest = "", raw
	}
	// What stands before the last @ may be a password, also one with a slash in
	// it; a path with an @ in it loses more than it must, which is the safe side.
	if i := strings.LastIndex(rest, "@"); i >= 0 {
		rest = rest[i+1:]
	}
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		rest = rest[:i]
	}
	if strings.Contains(head, "@") {
		head = ""
	}
	if hasScheme {
		rest = head + "://" + rest
	}
	return strings.ToValidUTF8(rest, "\uFFFD")
}

// scrub replaces every secret in s, as it is and as it may have been encoded on
// its way.
func scrub(s string, secrets []string) string {
	for _, secret := range withEncodings(secrets) {
		s = strings.ReplaceAll(s, secret, "***")
	}
	return s
}

// withEncodings returns the secrets and their encodings, the longest first, so
// that no secret is left over because a shorter one inside it was replaced.
func withEncodings(secrets []string) []string {
	var all []string
	for _, secret := range secrets {
		if secret == "" {
			continue
		}
		all = append(all, secret, url.QueryEscape(secret), url.PathEscape(secret),
			base64.StdEncoding.EncodeToString([]byte(secret)))
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return slices.Compact(all)
}
