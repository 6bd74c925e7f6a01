package fetch

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
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

// shortest is the length of a secret that is replaced wherever it stands. A shorter one is replaced where it stands
// alone: a password of one letter would make holes in every word, and where the holes are tells what it is.
const shortest = 4

// scrub replaces every secret in s, as it is and as it may have been encoded on
// its way.
func scrub(s string, secrets []string) string {
	for _, secret := range withEncodings(secrets) {
		if len(secret) >= shortest {
			s = strings.ReplaceAll(s, secret, "***")
		} else {
			s = replaceWord(s, secret, "***")
		}
	}
	return s
}

// replaceWord replaces old where no letter and no digit stands next to it.
func replaceWord(s, old, with string) string {
	inWord := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
	var out strings.Builder
	for from := 0; ; {
		i := strings.Index(s[from:], old)
		if i < 0 {
			return out.String() + s[from:]
		}
		at, end := from+i, from+i+len(old)
		before, _ := utf8.DecodeLastRuneInString(s[:at])
		after, _ := utf8.DecodeRuneInString(s[end:])
		out.WriteString(s[from:at])
		if inWord(before) || inWord(after) {
			out.WriteString(old)
		} else {
			out.WriteString(with)
		}
		from = end
	}
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
