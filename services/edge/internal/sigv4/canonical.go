package sigv4

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// canonicalRequest is the text that was signed. The path is taken as it was sent, decoded and encoded once; it is
// never cleaned.
func canonicalRequest(r *http.Request, query []pair, a *auth) (string, error) {
	var b strings.Builder
	b.WriteString(r.Method)
	b.WriteByte('\n')
	path := r.URL.Path
	if path == "" {
		path = "/"
	}
	encode(&b, path, true)
	b.WriteByte('\n')
	canonicalQuery(&b, query, a.presigned)
	b.WriteByte('\n')
	for _, name := range a.signed {
		values, err := headerValues(r, name)
		if err != nil {
			return "", err
		}
		b.WriteString(name)
		b.WriteByte(':')
		for i, v := range values {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(singleBlanks(v))
		}
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	b.WriteString(strings.Join(a.signed, ";"))
	b.WriteByte('\n')
	b.WriteString(a.payload)
	return b.String(), nil
}

func canonicalQuery(b *strings.Builder, query []pair, presigned bool) {
	encoded := make([]pair, 0, len(query))
	for _, p := range query {
		if presigned && p.name == "X-Amz-Signature" {
			continue
		}
		encoded = append(encoded, pair{encoded1(p.name), encoded1(p.value)})
	}
	slices.SortFunc(encoded, func(x, y pair) int {
		if c := strings.Compare(x.name, y.name); c != 0 {
			return c
		}
		return strings.Compare(x.value, y.value)
	})
	for i, p := range encoded {
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString(p.name)
		b.WriteByte('=')
		b.WriteString(p.value)
	}
}

// headerValues answers a signed header. net/http takes some of them out of the header map.
func headerValues(r *http.Request, name string) ([]string, error) {
	if name == "host" {
		return []string{r.Host}, nil
	}
	if v := r.Header.Values(name); len(v) > 0 {
		return v, nil
	}
	switch name {
	case "content-length":
		return []string{strconv.FormatInt(max(0, r.ContentLength), 10)}, nil
	case "transfer-encoding":
		return r.TransferEncoding, nil
	case "expect":
		return []string{"100-continue"}, nil
	}
	return nil, refuse("AccessDenied", "A signed header is not in the request: %s", name)
}

// singleBlanks trims a value and makes every run of blanks one; a tab inside is no blank.
func singleBlanks(v string) string {
	v = strings.Trim(v, " \t")
	for strings.Contains(v, "  ") {
		v = strings.ReplaceAll(v, "  ", " ")
	}
	return v
}

func encoded1(s string) string {
	var b strings.Builder
	encode(&b, s, false)
	return b.String()
}

// encode is AWS's UriEncode: everything but unreserved characters, and but slashes in a path.
func encode(b *strings.Builder, s string, path bool) {
	const digits = "0123456789ABCDEF"
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9',
			c == '-', c == '_', c == '.', c == '~', path && c == '/':
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		}
	}
}
