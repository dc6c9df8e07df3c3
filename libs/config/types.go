package config

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

const masked = "***"

// Secret is a text that no log, error or printed configuration may show. The zero Secret is empty.
type Secret struct{ text string }

// NewSecret wraps text.
func NewSecret(text string) Secret { return Secret{text} }

// Reveal answers the text itself.
func (s Secret) Reveal() string { return s.text }

// Empty says whether there is no text.
func (s Secret) Empty() bool { return s.text == "" }

// String answers "***", or "" when empty.
func (s Secret) String() string {
	if s.text == "" {
		return ""
	}
	return masked
}

// Format keeps every verb of fmt from looking inside.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) } //nolint:errcheck // fmt.State cannot fail

// LogValue is what slog prints.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText is what JSON and other encoders print.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalYAML is what Show prints.
func (s Secret) MarshalYAML() (any, error) { return s.String(), nil }

// UnmarshalYAML reads a scalar.
func (s *Secret) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode {
		return errors.New("a secret is a text")
	}
	s.text = n.Value
	return nil
}

// Size is a number of bytes, written as a plain number or with a unit: KB, MB, GB, TB are powers of 1000; KiB, MiB,
// GiB, TiB powers of 1024.
type Size int64

func units() []struct {
	name  string
	bytes int64
} {
	return []struct {
		name  string
		bytes int64
	}{
		{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
		{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"B", 1}, {"", 1},
	}
}

// ParseSize reads a Size: "10GiB", "1.5 GB", "4096".
func ParseSize(text string) (Size, error) {
	for _, u := range units() {
		number, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		number = strings.TrimSpace(number)
		if n, err := strconv.ParseInt(number, 10, 64); err == nil && n >= 0 && n <= math.MaxInt64/u.bytes {
			return Size(n * u.bytes), nil
		}
		f, err := strconv.ParseFloat(number, 64)
		if err != nil || !(f >= 0) || f*float64(u.bytes) >= math.MaxInt64 || strings.ContainsAny(number, "xXpPeE_") {
			break
		}
		return Size(f * float64(u.bytes)), nil
	}
	return 0, fmt.Errorf("%q is no size: write a number of bytes, or one with KB, MB, GB, TB, KiB, MiB, GiB or TiB", text)
}

// String answers the largest binary unit that holds the size without a fraction.
func (s Size) String() string {
	for _, u := range units()[:4] {
		if s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// MarshalYAML prints String.
func (s Size) MarshalYAML() (any, error) { return s.String(), nil }

// UnmarshalYAML reads a scalar as ParseSize does.
func (s *Size) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode {
		return errors.New("a size is a number of bytes such as 10GiB")
	}
	v, err := ParseSize(n.Value)
	*s = v
	return err
}
